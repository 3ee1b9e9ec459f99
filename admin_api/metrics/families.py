"""Every metric: its name, its kind, where its number is found, what it means. `docs/metrics.md` is this as a table.

Names follow Prometheus: one prefix, then whose number it is (gateway, topic, subscription, consumer), base units at the
end, `_total` on what never falls. Labels are topic, subscription and consumer; never a key, for keys have no bound.
"""

from __future__ import annotations

from typing import Final

from admin_api.metrics.family import Family, counter, gauge, seconds
from admin_api.metrics.gateway_families import GATEWAY

__all__ = [
    "CONSUMER",
    "CONSUMER_LABELS",
    "GATEWAY",
    "GROUP",
    "PULSAR_CONSUMER",
    "PULSAR_CONSUMER_LABELS",
    "PULSAR_SUBSCRIPTION",
    "PULSAR_SUBSCRIPTION_LABELS",
    "SUBSCRIPTION",
    "SUBSCRIPTION_LABELS",
    "TOPIC",
    "TOPIC_LABELS",
    "Family",
]

UPSTREAM_STATES: Final = ("idle", "locating", "subscribing", "ready", "backing_off", "closed")

TOPIC_LABELS: Final = ("topic",)

TOPIC: Final = (
    gauge("keyline_topic_owned", "owned", "1 if a producer connected here is the topic's only one."),
    gauge("keyline_topic_owner_priority", "owner_priority", "Its priority; 0 if there is none, or it did not wait."),
    gauge("keyline_topic_owner_epoch", "owner_epoch", "The topic's epoch it was told; -1 if there is none."),
    gauge("keyline_topic_waiting_producers", "waiting_count", "Producers that wait to be the topic's only one."),
    gauge(
        "keyline_topic_vacant_seconds",
        "vacant_s",
        "How long nobody is known to have owned the topic though somebody wants it; 0 if somebody does.",
        unit="seconds",
    ),
    counter(
        "keyline_topic_producer_promotions_total",
        "counters.promotions_total",
        "Times that one of those that waited became the owner, since somebody wanted the topic.",
    ),
    counter(
        "keyline_topic_producer_failed_promotions_total",
        "counters.failed_promotions_total",
        "Times that one whose turn it was did not become the owner.",
    ),
    counter(
        "keyline_topic_producer_fencings_total",
        "counters.fencings_total",
        "Times that one was displaced by somebody who did not wait.",
    ),
    gauge("keyline_topic_rival_known", "rival_known", "1 if a producer is known that waits for it at another replica."),
    gauge("keyline_topic_outranked", "outranked", "1 while nobody is asked for here because that one is better."),
    counter(
        "keyline_topic_producer_yields_total",
        "counters.yields_total",
        "Turns at the broker that were given to a better one that waits at another replica.",
    ),
)
"""Of each topic that somebody connected here owns alone or waits for, while that is so."""

SUBSCRIPTION_LABELS: Final = ("topic", "subscription")

GROUP: Final = (
    gauge("keyline_group_connected", "connected", "1 while this replica has a lease, 0 while it delivers nothing."),
    gauge(
        "keyline_group_lease_left_seconds",
        "lease_left_s",
        "For how long it may deliver without word from the group's leader.",
        unit="seconds",
    ),
    gauge("keyline_group_leading", "leads", "1 if this replica leads the group."),
    gauge("keyline_group_epoch", "epoch_number", "Of the leader that this replica knows; -1 if it knows none."),
    gauge("keyline_group_streams", "streams_count", "Streams that the group is cut into; 0 before the first lease."),
    gauge("keyline_group_streams_leased", "streams_here", "Streams leased to this replica."),
    gauge("keyline_group_streams_leaving", "streams_leaving", "Streams that it has to give back, and has not."),
    counter("keyline_group_streams_opened_total", "counters.streams_opened", "Streams that it began to consume."),
    counter("keyline_group_streams_given_back_total", "counters.streams_given_back", "Streams that it gave back."),
    counter(
        "keyline_group_streams_overdue_total",
        "counters.streams_overdue",
        "Of these, those whose workers had some of it still at the deadline: that is delivered again.",
    ),
    counter(
        "keyline_group_streams_refused_total",
        "counters.streams_refused",
        "Attempts to consume a leased stream that the broker refused.",
    ),
)
"""Of each group that this replica takes part in; labels are the subscription's."""

SUBSCRIPTION: Final = (
    seconds(
        "keyline_subscription_dispatch_latency_seconds",
        "dispatch_latency",
        "From an entry's arrival to its being written to a worker's socket, at the first attempt.",
    ),
    seconds(
        "keyline_subscription_ack_latency_seconds",
        "dispatcher.ack_latency",
        "From a delivery to the acknowledgement of its last message.",
    ),
    seconds(
        "keyline_subscription_hand_over_duration_seconds",
        "dispatcher.hand_over_duration",
        "From a membership change until a hash that moved had nothing pending at its former owner, per hash.",
    ),
    seconds(
        "keyline_subscription_blocked_time_seconds",
        "dispatcher.blocked_time",
        "How long what could not leave at once waited until it was sent, per delivery.",
    ),
    gauge("keyline_subscription_workers", "dispatcher.workers", "Workers that have joined."),
    gauge("keyline_subscription_workers_joining", "joining", "Workers that wait for the broker's answer."),
    gauge(
        "keyline_subscription_workers_blocked_on_unacked_messages",
        "dispatcher.workers_blocked_on_unacked_messages",
        "Workers that get nothing because they hold as many unacknowledged messages as they may.",
    ),
    gauge("keyline_subscription_paused", "dispatcher.paused", "1 while nothing is delivered by an operator's order."),
    gauge(
        "keyline_subscription_available_permits",
        "dispatcher.available_permits",
        "Messages that workers have asked for and not got.",
    ),
    gauge(
        "keyline_subscription_pending_acks",
        "dispatcher.pending_deliveries",
        "Deliveries not acknowledged; a batch may be one.",
    ),
    gauge("keyline_subscription_unacked_messages", "dispatcher.unacked_messages", "Their messages."),
    gauge(
        "keyline_subscription_oldest_unacknowledged_seconds",
        "oldest_unacknowledged_s",
        "How long ago that was sent which has been unacknowledged longest; 0 if nothing is.",
        unit="seconds",
    ),
    gauge(
        "keyline_subscription_unconfirmed_acks",
        "dispatcher.unconfirmed_acks",
        "Entries that workers acknowledged and the broker has not confirmed.",
    ),
    gauge(
        "keyline_subscription_outstanding_entries",
        "dispatcher.outstanding_entries",
        "Entries received and not acknowledged, pending or waiting.",
    ),
    gauge("keyline_subscription_held_bytes", "dispatcher.bytes_held", "What they cost in memory.", unit="bytes"),
    gauge(
        "keyline_subscription_memory_limit_bytes",
        "memory_bytes",
        "Held bytes above which nothing more is asked for.",
        unit="bytes",
    ),
    gauge("keyline_subscription_waiting_messages", "dispatcher.waiting_messages", "Messages that cannot go out yet."),
    gauge("keyline_subscription_waiting_bytes", "dispatcher.waiting_bytes", "Their bytes.", unit="bytes"),
    gauge(
        "keyline_subscription_opening_messages",
        "opening_messages",
        "Messages that wait until they, or what came before them, are opened.",
    ),
    gauge("keyline_subscription_opening_bytes", "opening_bytes", "What these cost.", unit="bytes"),
    gauge("keyline_subscription_waiting_hashes", "dispatcher.waiting_hashes", "Hashes with something waiting."),
    gauge(
        "keyline_subscription_oldest_wait_seconds",
        "oldest_wait_s",
        "How long the hash has waited that has waited longest; 0 if none waits.",
        unit="seconds",
    ),
    gauge(
        "keyline_subscription_look_ahead_limit_messages",
        "look_ahead_messages",
        "Messages that may wait before nothing more is asked for.",
    ),
    gauge(
        "keyline_subscription_look_ahead_used_ratio",
        "look_ahead_used",
        "Waiting messages as a share of that; above 1 when workers gave back more.",
        unit="ratio",
    ),
    gauge(
        "keyline_subscription_draining_hashes",
        "dispatcher.draining_hashes_count",
        "Hashes that moved and are still pending at their former owner.",
    ),
    gauge(
        "keyline_subscription_draining_hashes_pending_messages",
        "dispatcher.draining_hashes_pending_messages",
        "Unacknowledged messages of them; a broker counts a batch as one.",
    ),
    counter(
        "keyline_subscription_draining_hashes_cleared_total",
        "dispatcher.draining_hashes_cleared_total",
        "Hashes that ceased to drain.",
    ),
    gauge(
        "keyline_subscription_upstream_state",
        "upstream_state",
        "1 for the state of the gateway's consumer at the broker, 0 for the others.",
        label="state",
        values=UPSTREAM_STATES,
    ),
    gauge(
        "keyline_subscription_upstream_permits",
        "upstream_permits",
        "Messages asked of the broker that have not come; below 0 when a batch was larger.",
    ),
    counter("keyline_subscription_upstream_connects_total", "upstream_connects", "Times that consumer subscribed."),
    counter("keyline_subscription_sent_messages_total", "dispatcher.totals.sent_messages", "Messages sent to workers."),
    counter("keyline_subscription_sent_bytes_total", "dispatcher.totals.sent_bytes", "Their bytes.", unit="bytes"),
    counter(
        "keyline_subscription_acked_messages_total",
        "dispatcher.totals.acked_messages",
        "Messages that workers acknowledged.",
    ),
    counter(
        "keyline_subscription_redelivered_messages_total",
        "dispatcher.totals.redelivered_messages",
        "Messages that workers gave back, or left behind, to be delivered once more.",
    ),
    counter(
        "keyline_subscription_unknown_acks_total",
        "dispatcher.totals.unknown_acks",
        "Acknowledgements of what the worker did not hold, late ones mostly.",
    ),
    counter(
        "keyline_subscription_refused_acks_total",
        "acks_refused",
        "ACK frames refused: cumulative, or of a transaction.",
    ),
    counter(
        "keyline_subscription_repeated_entries_total",
        "dispatcher.repeated_entries",
        "Entries the broker sent again that went no further.",
    ),
    counter(
        "keyline_subscription_opaque_batches_total",
        "opaque_batches",
        "Batches that could not be opened, so that order holds for their first key only.",
    ),
    counter(
        "keyline_subscription_unreadable_entries_total", "unreadable_entries", "Entries whose metadata is damaged."
    ),
    counter("keyline_subscription_mixed_batches_total", "peeked_batches", "Batches with keys of several hashes."),
    counter(
        "keyline_subscription_sliced_deliveries_total", "sliced_deliveries", "Deliveries that were a part of a batch."
    ),
    counter(
        "keyline_subscription_background_openings_total",
        "background_openings",
        "Batches that were decompressed beside the event loop.",
    ),
    counter(
        "keyline_subscription_background_opened_bytes_total",
        "background_opened_bytes",
        "Bytes that came out of them.",
        unit="bytes",
    ),
    counter(
        "keyline_subscription_permit_overshoots_total",
        "dispatcher.permit_overshoots",
        "Deliveries larger than the permits because the entry could not be cut.",
    ),
    counter(
        "keyline_subscription_budget_stops_total",
        "budget_stops",
        "Times that nothing was asked for because the memory limit was reached.",
    ),
)

CONSUMER_LABELS: Final = ("topic", "subscription", "consumer")

CONSUMER: Final = (
    gauge("keyline_consumer_workers", "consumer.workers", "Workers of this name, mostly one; the rest are sums."),
    gauge("keyline_consumer_available_permits", "consumer.available_permits", "Messages it has asked for and not got."),
    gauge("keyline_consumer_pending_acks", "consumer.pending_deliveries", "Deliveries it has not acknowledged."),
    gauge("keyline_consumer_unacked_messages", "consumer.unacked_messages", "Their messages."),
    gauge(
        "keyline_consumer_oldest_unacknowledged_seconds",
        "oldest_unacknowledged_s",
        "How long ago that was sent to it which has been unacknowledged longest; 0 if nothing is.",
        unit="seconds",
    ),
    gauge(
        "keyline_consumer_blocked_on_unacked_messages",
        "consumer.blocked_on_unacked_messages",
        "1 while it gets nothing because it holds as many unacknowledged messages as it may.",
    ),
    gauge(
        "keyline_consumer_hash_space_ratio",
        "consumer.hash_space_share",
        "Its share of the hash space.",
        unit="ratio",
    ),
    gauge(
        "keyline_consumer_draining_hashes",
        "consumer.draining_hashes_count",
        "Hashes that moved away from it and are still pending at it.",
    ),
    counter(
        "keyline_consumer_draining_hashes_cleared_total",
        "consumer.draining_hashes_cleared_total",
        "Hashes that ceased to drain at it.",
    ),
    counter("keyline_consumer_sent_messages_total", "consumer.totals.sent_messages", "Messages sent to it."),
    counter("keyline_consumer_sent_bytes_total", "consumer.totals.sent_bytes", "Their bytes.", unit="bytes"),
    counter("keyline_consumer_acked_messages_total", "consumer.totals.acked_messages", "Messages it acknowledged."),
    counter(
        "keyline_consumer_redelivered_messages_total",
        "consumer.totals.redelivered_messages",
        "Messages it gave back to be delivered once more.",
    ),
    counter(
        "keyline_consumer_unknown_acks_total",
        "consumer.totals.unknown_acks",
        "Its acknowledgements of what it did not hold.",
    ),
)

PULSAR_SUBSCRIPTION_LABELS: Final = ("namespace", "topic", "subscription")

PULSAR_SUBSCRIPTION: Final = (
    gauge("pulsar_subscription_unacked_messages", "dispatcher.unacked_messages", "Messages that consumers hold."),
    gauge(
        "pulsar_subscription_in_replay",
        "dispatcher.waiting_messages",
        "Messages read from the topic that cannot be sent yet; here they wait in the gateway.",
    ),
    gauge("pulsar_subscription_consumers_count", "dispatcher.workers", "Consumers."),
    counter("pulsar_out_messages_total", "dispatcher.totals.sent_messages", "Messages sent to consumers."),
    counter("pulsar_out_bytes_total", "dispatcher.totals.sent_bytes", "Their bytes.", unit="bytes"),
)
"""Under the broker's names, as far as the gateway knows: no backlog, which only the broker has, and no rates, which
Prometheus makes of counters."""

PULSAR_CONSUMER_LABELS: Final = ("namespace", "topic", "subscription", "consumer_name")

PULSAR_CONSUMER: Final = (
    gauge("pulsar_consumer_available_permits", "consumer.available_permits", "Messages it has asked for."),
    gauge("pulsar_consumer_unacked_messages", "consumer.unacked_messages", "Messages that it holds."),
    gauge(
        "pulsar_consumer_blocked_on_unacked_messages",
        "consumer.blocked_on_unacked_messages",
        "1 while it holds as many as it may.",
    ),
)
