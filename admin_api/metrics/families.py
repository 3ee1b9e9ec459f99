"""Every metric: its name, its kind, where its number is found, what it means. `docs/metrics.md` is this as a table.

Names follow Prometheus: one prefix, then whose number it is (`gateway`, `subscription`, `consumer`), base units at the
end, `_total` on what never falls. Labels are topic, subscription and consumer; never a key, for keys have no bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric of a level; `source` leads to its number from the level's summary."""

    name: str
    kind: Kind
    source: str
    documentation: str
    unit: str = ""
    """The name ends with it; for OpenMetrics, which tells it apart."""
    label: str = ""
    """A label of its own: what stands at `source` is a number for each of its values, or the one that holds now."""
    values: tuple[str, ...] = ()
    """Every value of `label`, where the source tells only which one holds: that is 1, the others 0."""


def _counter(name: str, source: str, documentation: str, *, label: str = "", unit: str = "") -> Family:
    return Family(name, "counter", source, documentation, unit, label)


def _gauge(
    name: str, source: str, documentation: str, *, unit: str = "", label: str = "", values: tuple[str, ...] = ()
) -> Family:
    return Family(name, "gauge", source, documentation, unit, label, values)


def _seconds(name: str, source: str, documentation: str) -> Family:
    return Family(name, "histogram", source, documentation, "seconds")


UPSTREAM_STATES: Final = ("idle", "locating", "subscribing", "ready", "backing_off", "closed")

GATEWAY: Final = (
    _gauge("keyline_gateway_ready", "ready", "1 if clients may be sent here, as /readyz tells."),
    _gauge("keyline_gateway_draining", "subscriptions.draining", "1 while the gateway is shutting down."),
    _gauge("keyline_gateway_connections", "server.connections", "Client connections that stand."),
    _counter(
        "keyline_gateway_connections_opened_total",
        "server.connections_total",
        "Client connections opened, those turned away included.",
    ),
    _counter(
        "keyline_gateway_connections_turned_away_total",
        "server.turned_away_total",
        "Client connections refused because the gateway had as many as it may.",
    ),
    _counter(
        "keyline_gateway_connections_per_address_turned_away_total",
        "server.turned_away_per_address_total",
        "Client connections refused because their address had as many as it may.",
    ),
    _counter(
        "keyline_gateway_connections_ended_total",
        "server.ended_total",
        "Client connections ended, by cause; bad_frame, unknown_command, bad_flow and such are refused frames.",
        label="cause",
    ),
    _counter("keyline_gateway_frames_received_total", "server.counters.frames_received_total", "Frames from clients."),
    _counter(
        "keyline_gateway_received_bytes_total",
        "server.counters.bytes_received_total",
        "Bytes from clients.",
        unit="bytes",
    ),
    _counter(
        "keyline_gateway_dropped_frames_total",
        "server.counters.dropped_frames_total",
        "Frames that went no further, their connection having gone.",
    ),
    _counter(
        "keyline_gateway_intercepted_commands_total",
        "server.counters.intercepted_commands_total",
        "Commands of clients that the gateway carried out itself.",
    ),
    _counter(
        "keyline_gateway_relayed_to_broker_frames_total",
        "server.counters.relayed_to_broker_frames_total",
        "Frames of clients passed on to brokers as they were.",
    ),
    _counter(
        "keyline_gateway_relayed_to_broker_bytes_total",
        "server.counters.relayed_to_broker_bytes_total",
        "Their bytes.",
        unit="bytes",
    ),
    _counter(
        "keyline_gateway_relayed_to_client_frames_total",
        "server.counters.relayed_to_client_frames_total",
        "Frames of brokers passed on to clients as they were.",
    ),
    _counter(
        "keyline_gateway_relayed_to_client_bytes_total",
        "server.counters.relayed_to_client_bytes_total",
        "Their bytes.",
        unit="bytes",
    ),
    _counter(
        "keyline_gateway_relay_reconnects_total",
        "server.counters.broker_reconnects_total",
        "Times a client's way to its broker was opened anew.",
    ),
    _gauge("keyline_gateway_subscriptions", "subscriptions.subscriptions", "Key_Shared subscriptions dispatched here."),
    _counter(
        "keyline_gateway_subscriptions_ended_total", "subscriptions.subscriptions_ended_total", "Subscriptions ended."
    ),
    _counter(
        "keyline_gateway_subscriptions_turned_away_total",
        "subscriptions.subscriptions_turned_away_total",
        "Subscriptions refused because the gateway had as many as it may.",
    ),
    _gauge("keyline_gateway_workers", "subscriptions.workers", "Workers of all subscriptions, joined or joining."),
    _counter(
        "keyline_gateway_workers_turned_away_total",
        "subscriptions.workers_turned_away_total",
        "Workers refused because the gateway had as many as it may.",
    ),
    _counter(
        "keyline_gateway_workers_per_subscription_turned_away_total",
        "subscriptions.workers_per_subscription_turned_away_total",
        "Workers refused because their subscription had as many as it may.",
    ),
    _gauge(
        "keyline_gateway_held_bytes",
        "subscriptions.bytes_held",
        "Memory budget used: bytes of entries that no worker has acknowledged.",
        unit="bytes",
    ),
    _gauge(
        "keyline_gateway_memory_limit_bytes",
        "subscriptions.memory_bytes",
        "Memory budget: held bytes above which nothing is read from brokers.",
        unit="bytes",
    ),
    _gauge(
        "keyline_gateway_reading_stopped",
        "subscriptions.reading_stopped",
        "1 while nothing is read from brokers because the memory budget is spent.",
    ),
    _counter("keyline_gateway_reading_stops_total", "subscriptions.reading_stops", "Times that reading was stopped."),
    _gauge(
        "keyline_gateway_broker_connections",
        "broker_connections",
        "The gateway's own connections to brokers, by state.",
        label="state",
    ),
    _counter("keyline_gateway_lookups_total", "lookups_total", "Lookups of topics' brokers."),
    _counter("keyline_gateway_lookup_failures_total", "lookup_failures_total", "Those that failed."),
    _counter(
        "keyline_gateway_garbage_walks_total",
        "collections_total",
        "Times that everything was walked for garbage because subscriptions had ended.",
    ),
)
"""Of the gateway; no labels but what the families have of their own."""

SUBSCRIPTION_LABELS: Final = ("topic", "subscription")

SUBSCRIPTION: Final = (
    _seconds(
        "keyline_subscription_dispatch_latency_seconds",
        "dispatch_latency",
        "From an entry's arrival to its being written to a worker's socket, at the first attempt.",
    ),
    _seconds(
        "keyline_subscription_ack_latency_seconds",
        "dispatcher.ack_latency",
        "From a delivery to the acknowledgement of its last message.",
    ),
    _seconds(
        "keyline_subscription_hand_over_duration_seconds",
        "dispatcher.hand_over_duration",
        "From a membership change until a hash that moved had nothing pending at its former owner, per hash.",
    ),
    _seconds(
        "keyline_subscription_blocked_time_seconds",
        "dispatcher.blocked_time",
        "How long a hash had something waiting, from its first message that had to wait until the last was sent.",
    ),
    _gauge("keyline_subscription_workers", "dispatcher.workers", "Workers that have joined."),
    _gauge("keyline_subscription_workers_joining", "joining", "Workers that wait for the broker's answer."),
    _gauge(
        "keyline_subscription_workers_blocked_on_unacked_messages",
        "dispatcher.workers_blocked_on_unacked_messages",
        "Workers that get nothing because they hold as many unacknowledged messages as they may.",
    ),
    _gauge("keyline_subscription_paused", "dispatcher.paused", "1 while nothing is delivered by an operator's order."),
    _gauge(
        "keyline_subscription_available_permits",
        "dispatcher.available_permits",
        "Messages that workers have asked for and not got.",
    ),
    _gauge(
        "keyline_subscription_pending_acks",
        "dispatcher.pending_deliveries",
        "Deliveries not acknowledged; a batch may be one.",
    ),
    _gauge("keyline_subscription_unacked_messages", "dispatcher.unacked_messages", "Their messages."),
    _gauge(
        "keyline_subscription_unconfirmed_acks",
        "dispatcher.unconfirmed_acks",
        "Entries that workers acknowledged and the broker has not confirmed.",
    ),
    _gauge(
        "keyline_subscription_outstanding_entries",
        "dispatcher.outstanding_entries",
        "Entries received and not acknowledged, pending or waiting.",
    ),
    _gauge("keyline_subscription_held_bytes", "dispatcher.bytes_held", "What they cost in memory.", unit="bytes"),
    _gauge(
        "keyline_subscription_memory_limit_bytes",
        "memory_bytes",
        "Held bytes above which nothing more is asked for.",
        unit="bytes",
    ),
    _gauge("keyline_subscription_waiting_messages", "dispatcher.waiting_messages", "Messages that cannot go out yet."),
    _gauge("keyline_subscription_waiting_bytes", "dispatcher.waiting_bytes", "Their bytes.", unit="bytes"),
    _gauge("keyline_subscription_waiting_hashes", "dispatcher.waiting_hashes", "Hashes with something waiting."),
    _gauge(
        "keyline_subscription_oldest_wait_seconds",
        "oldest_wait_s",
        "How long the hash has waited that has waited longest; 0 if none waits.",
        unit="seconds",
    ),
    _gauge(
        "keyline_subscription_look_ahead_limit_messages",
        "look_ahead_messages",
        "Messages that may wait before nothing more is asked for.",
    ),
    _gauge(
        "keyline_subscription_look_ahead_used_ratio",
        "look_ahead_used",
        "Waiting messages as a share of that; above 1 when workers gave back more.",
        unit="ratio",
    ),
    _gauge(
        "keyline_subscription_draining_hashes",
        "dispatcher.draining_hashes_count",
        "Hashes that moved and are still pending at their former owner.",
    ),
    _gauge(
        "keyline_subscription_draining_hashes_pending_messages",
        "dispatcher.draining_hashes_pending_messages",
        "What is pending of them, counted as the broker counts: a delivery is one.",
    ),
    _counter(
        "keyline_subscription_draining_hashes_cleared_total",
        "dispatcher.draining_hashes_cleared_total",
        "Hashes that ceased to drain.",
    ),
    _gauge(
        "keyline_subscription_upstream_state",
        "upstream_state",
        "1 for the state of the gateway's consumer at the broker, 0 for the others.",
        label="state",
        values=UPSTREAM_STATES,
    ),
    _gauge(
        "keyline_subscription_upstream_permits",
        "upstream_permits",
        "Messages asked of the broker that have not come; below 0 when a batch was larger.",
    ),
    _counter("keyline_subscription_upstream_connects_total", "upstream_connects", "Times that consumer subscribed."),
    _counter(
        "keyline_subscription_sent_messages_total", "dispatcher.totals.sent_messages", "Messages sent to workers."
    ),
    _counter("keyline_subscription_sent_bytes_total", "dispatcher.totals.sent_bytes", "Their bytes.", unit="bytes"),
    _counter(
        "keyline_subscription_acked_messages_total",
        "dispatcher.totals.acked_messages",
        "Messages that workers acknowledged.",
    ),
    _counter(
        "keyline_subscription_redelivered_messages_total",
        "dispatcher.totals.redelivered_messages",
        "Messages that workers gave back, or left behind, to be delivered once more.",
    ),
    _counter(
        "keyline_subscription_unknown_acks_total",
        "dispatcher.totals.unknown_acks",
        "Acknowledgements of what the worker did not hold, late ones mostly.",
    ),
    _counter(
        "keyline_subscription_refused_acks_total",
        "acks_refused",
        "ACK frames refused: cumulative, or of a transaction.",
    ),
    _counter(
        "keyline_subscription_repeated_entries_total",
        "dispatcher.repeated_entries",
        "Entries the broker sent again that went no further.",
    ),
    _counter(
        "keyline_subscription_opaque_batches_total",
        "opaque_batches",
        "Batches that could not be opened, so that order holds for their first key only.",
    ),
    _counter(
        "keyline_subscription_unreadable_entries_total", "unreadable_entries", "Entries whose metadata is damaged."
    ),
    _counter("keyline_subscription_mixed_batches_total", "peeked_batches", "Batches with keys of several hashes."),
    _counter(
        "keyline_subscription_sliced_deliveries_total", "sliced_deliveries", "Deliveries that were a part of a batch."
    ),
    _counter(
        "keyline_subscription_permit_overshoots_total",
        "dispatcher.permit_overshoots",
        "Deliveries larger than the permits because the entry could not be cut.",
    ),
    _counter(
        "keyline_subscription_budget_stops_total",
        "budget_stops",
        "Times that nothing was asked for because the memory limit was reached.",
    ),
)

CONSUMER_LABELS: Final = ("topic", "subscription", "consumer")

CONSUMER: Final = (
    _gauge("keyline_consumer_workers", "consumer.workers", "Workers of this name, mostly one; the rest are sums."),
    _gauge(
        "keyline_consumer_available_permits", "consumer.available_permits", "Messages it has asked for and not got."
    ),
    _gauge("keyline_consumer_pending_acks", "consumer.pending_deliveries", "Deliveries it has not acknowledged."),
    _gauge("keyline_consumer_unacked_messages", "consumer.unacked_messages", "Their messages."),
    _gauge(
        "keyline_consumer_blocked_on_unacked_messages",
        "consumer.blocked_on_unacked_messages",
        "1 while it gets nothing because it holds as many unacknowledged messages as it may.",
    ),
    _gauge(
        "keyline_consumer_hash_space_ratio",
        "consumer.hash_space_share",
        "Its share of the hash space.",
        unit="ratio",
    ),
    _gauge(
        "keyline_consumer_draining_hashes",
        "consumer.draining_hashes_count",
        "Hashes that moved away from it and are still pending at it.",
    ),
    _counter(
        "keyline_consumer_draining_hashes_cleared_total",
        "consumer.draining_hashes_cleared_total",
        "Hashes that ceased to drain at it.",
    ),
    _counter("keyline_consumer_sent_messages_total", "consumer.totals.sent_messages", "Messages sent to it."),
    _counter("keyline_consumer_sent_bytes_total", "consumer.totals.sent_bytes", "Their bytes.", unit="bytes"),
    _counter("keyline_consumer_acked_messages_total", "consumer.totals.acked_messages", "Messages it acknowledged."),
    _counter(
        "keyline_consumer_redelivered_messages_total",
        "consumer.totals.redelivered_messages",
        "Messages it gave back to be delivered once more.",
    ),
    _counter(
        "keyline_consumer_unknown_acks_total",
        "consumer.totals.unknown_acks",
        "Its acknowledgements of what it did not hold.",
    ),
)

PULSAR_SUBSCRIPTION_LABELS: Final = ("namespace", "topic", "subscription")

PULSAR_SUBSCRIPTION: Final = (
    _gauge("pulsar_subscription_unacked_messages", "dispatcher.unacked_messages", "Messages that consumers hold."),
    _gauge(
        "pulsar_subscription_in_replay",
        "dispatcher.waiting_messages",
        "Messages read from the topic that cannot be sent yet; here they wait in the gateway.",
    ),
    _gauge("pulsar_subscription_consumers_count", "dispatcher.workers", "Consumers."),
    _counter("pulsar_out_messages_total", "dispatcher.totals.sent_messages", "Messages sent to consumers."),
    _counter("pulsar_out_bytes_total", "dispatcher.totals.sent_bytes", "Their bytes.", unit="bytes"),
)
"""Under the broker's names, as far as the gateway knows: no backlog, which only the broker has, and no rates, which
Prometheus makes of counters."""

PULSAR_CONSUMER_LABELS: Final = ("namespace", "topic", "subscription", "consumer_name")

PULSAR_CONSUMER: Final = (
    _gauge("pulsar_consumer_available_permits", "consumer.available_permits", "Messages it has asked for."),
    _gauge("pulsar_consumer_unacked_messages", "consumer.unacked_messages", "Messages that it holds."),
    _gauge(
        "pulsar_consumer_blocked_on_unacked_messages",
        "consumer.blocked_on_unacked_messages",
        "1 while it holds as many as it may.",
    ),
)
