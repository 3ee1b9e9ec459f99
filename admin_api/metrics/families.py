"""All metrics: name, kind, source and help text. `docs/metrics.md` has the same as a table.

Names follow Prometheus: one prefix, then the level (gateway, topic, subscription, worker), base units at the end,
`_total` on counters. Labels are topic, subscription and worker; never a key, for keys have no bound.
"""

from __future__ import annotations

from typing import Final, Literal

from admin_api.metrics.deployment_families import DEPLOYMENT
from admin_api.metrics.family import Family, counter, gauge, seconds
from admin_api.metrics.gateway_families import GATEWAY as OF_GATEWAY

__all__ = [
    "BLAMED",
    "DURATIONS",
    "GATEWAY",
    "GROUP",
    "NAMESPACE_LABELS",
    "PULSAR_CONSUMER",
    "PULSAR_CONSUMER_LABELS",
    "PULSAR_SUBSCRIPTION",
    "PULSAR_SUBSCRIPTION_LABELS",
    "SUBSCRIPTION",
    "SUBSCRIPTION_LABELS",
    "TOPIC",
    "TOPIC_LABELS",
    "WORKER",
    "WORKER_LABELS",
    "Family",
    "Histograms",
]

GATEWAY: Final = (*OF_GATEWAY, *DEPLOYMENT)
"""Without common labels."""

UPSTREAM_STATES: Final = ("idle", "locating", "subscribing", "ready", "backing_off", "closed")

TOPIC_LABELS: Final = ("topic",)

TOPIC: Final = (
    gauge("keyline_topic_owned", "owned", "1 if a producer connected here owns the topic."),
    gauge(
        "keyline_topic_owner_priority",
        "owner_priority",
        "The owner's priority; 0 if there is no owner, or it did not wait.",
    ),
    gauge("keyline_topic_owner_epoch", "owner_epoch", "The owner's topic epoch; -1 if there is no owner."),
    gauge("keyline_topic_waiting_producers", "waiting_count", "Producers that wait for exclusive access to the topic."),
    gauge(
        "keyline_topic_vacant_seconds",
        "vacant_s",
        "Time that the topic has had no known owner while producers wait; 0 if it has one.",
        unit="seconds",
    ),
    counter(
        "keyline_topic_producer_promotions_total",
        "counters.promotions_total",
        "Times that a waiting producer became the owner, since the topic is tracked here.",
    ),
    counter(
        "keyline_topic_producer_failed_promotions_total",
        "counters.failed_promotions_total",
        "Failed promotions of waiting producers.",
    ),
    counter(
        "keyline_topic_producer_fencings_total",
        "counters.fencings_total",
        "Times that an owner was displaced by a producer that did not wait.",
    ),
    gauge("keyline_topic_rival_known", "rival_known", "1 if a producer is known to wait at another replica."),
    gauge("keyline_topic_outranked", "outranked", "1 while no producer is promoted here because that one is better."),
    counter(
        "keyline_topic_producer_yields_total",
        "counters.yields_total",
        "Turns at the broker that were given to a better producer at another replica.",
    ),
)
"""For each topic that a producer connected here owns exclusively or waits for."""

SUBSCRIPTION_LABELS: Final = ("topic", "subscription")

GROUP: Final = (
    gauge("keyline_group_connected", "connected", "1 while this replica has a lease, 0 while it delivers nothing."),
    gauge(
        "keyline_group_lease_left_seconds",
        "lease_left_s",
        "Time for which it may deliver without a message from the group's leader.",
        unit="seconds",
    ),
    gauge("keyline_group_leading", "leads", "1 if this replica leads the group."),
    gauge("keyline_group_epoch", "epoch_number", "Epoch of the known leader; -1 if none is known."),
    gauge("keyline_group_streams", "streams_count", "Streams of the group; 0 before the first lease."),
    gauge("keyline_group_streams_leased", "streams_here", "Streams leased to this replica."),
    gauge("keyline_group_streams_releasing", "streams_releasing", "Streams that it must release and still has."),
    counter("keyline_group_streams_opened_total", "counters.streams_opened", "Streams that it started to consume."),
    counter("keyline_group_streams_released_total", "counters.streams_released", "Streams that it released."),
    counter(
        "keyline_group_streams_overdue_total",
        "counters.streams_overdue",
        "Of these, streams with unacknowledged messages at the deadline, which are redelivered.",
    ),
    counter(
        "keyline_group_streams_refused_total",
        "counters.streams_refused",
        "Attempts to consume a leased stream that the broker refused.",
    ),
)
"""For each group of this replica; labels are the subscription's."""

Histograms = Literal["subscription", "namespace", "gateway"]
"""What has histograms of its own."""

DURATIONS: Final = (
    seconds(
        "keyline_subscription_dispatch_latency_seconds",
        "durations.dispatch_latency",
        "Time from an entry's arrival to the write to a worker's socket, at the first attempt.",
    ),
    seconds(
        "keyline_subscription_ack_latency_seconds",
        "durations.ack_latency",
        "Time from a delivery to the acknowledgement of its last message.",
    ),
    seconds(
        "keyline_subscription_hand_over_duration_seconds",
        "durations.hand_over_duration",
        "Time from a membership change until a moved slot had nothing pending at its former owner, per slot.",
    ),
    seconds(
        "keyline_subscription_blocked_time_seconds",
        "durations.blocked_time",
        "Waiting time of deliveries that could not be sent at once.",
    ),
)
"""Of each subscription, or of all those of a namespace or gateway together; labels are accordingly fewer."""

NAMESPACE_LABELS: Final = ("namespace",)

SUBSCRIPTION: Final = (
    gauge("keyline_subscription_workers", "dispatcher.workers", "Workers that have joined."),
    gauge("keyline_subscription_workers_joining", "joining", "Workers that wait for the broker's answer."),
    gauge(
        "keyline_subscription_workers_blocked_on_unacked_messages",
        "dispatcher.workers_blocked_on_unacked_messages",
        "Workers that get nothing because they are at their unacknowledged limit.",
    ),
    gauge(
        "keyline_subscription_stopped_workers",
        "blame.stopped_workers",
        "Workers that hold messages and have acknowledged none for longer than is usual, or leave their socket unread.",
    ),
    gauge(
        "keyline_subscription_starved",
        "blame.starved",
        "1 while workers get nothing because messages for another have filled the look-ahead or the memory.",
    ),
    gauge("keyline_subscription_paused", "dispatcher.paused", "1 while an operator's order pauses deliveries."),
    gauge(
        "keyline_subscription_available_permits",
        "dispatcher.available_permits",
        "Permits of workers: messages asked for and not sent.",
    ),
    gauge(
        "keyline_subscription_pending_acks",
        "dispatcher.pending_acks",
        "Unacknowledged deliveries; a batch may be one.",
    ),
    gauge("keyline_subscription_unacked_messages", "dispatcher.unacked_messages", "Their messages."),
    gauge(
        "keyline_subscription_oldest_unacknowledged_seconds",
        "oldest_unacknowledged_s",
        "Age of the oldest unacknowledged delivery; 0 if there is none.",
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
    gauge("keyline_subscription_held_bytes", "dispatcher.held_bytes", "Memory of outstanding entries.", unit="bytes"),
    gauge(
        "keyline_subscription_memory_limit_bytes",
        "memory_bytes",
        "Held bytes above which the gateway grants no more permits.",
        unit="bytes",
    ),
    gauge("keyline_subscription_waiting_messages", "dispatcher.waiting_messages", "Messages that cannot be sent yet."),
    gauge("keyline_subscription_waiting_bytes", "dispatcher.waiting_bytes", "Their bytes.", unit="bytes"),
    gauge(
        "keyline_subscription_opening_messages",
        "opening_messages",
        "Messages that wait until they, or earlier entries, are opened.",
    ),
    gauge("keyline_subscription_opening_bytes", "opening_bytes", "Memory of these messages.", unit="bytes"),
    gauge("keyline_subscription_waiting_slots", "dispatcher.waiting_slots", "Slots with waiting messages."),
    gauge(
        "keyline_subscription_oldest_wait_seconds",
        "oldest_wait_s",
        "Waiting time of the longest waiting slot; 0 if none waits.",
        unit="seconds",
    ),
    gauge(
        "keyline_subscription_oldest_wait_slot",
        "dispatcher.oldest_wait_slot",
        "The hash slot that has waited so long; -1 if none waits.",
    ),
    gauge(
        "keyline_subscription_look_ahead_limit_messages",
        "look_ahead_messages",
        "Waiting messages at which the gateway grants no more permits.",
    ),
    gauge(
        "keyline_subscription_look_ahead_used_ratio",
        "look_ahead_used",
        "Waiting messages as a share of that limit; above 1 when workers returned more.",
        unit="ratio",
    ),
    gauge(
        "keyline_subscription_draining_hashes",
        "dispatcher.draining_hashes_count",
        "Slots that moved and are still pending at their former owner.",
    ),
    gauge(
        "keyline_subscription_draining_hashes_unacked_messages",
        "dispatcher.draining_hashes_unacked_messages",
        "Unacknowledged messages of draining hashes; a broker counts a batch as one.",
    ),
    counter(
        "keyline_subscription_draining_hashes_cleared_total",
        "dispatcher.draining_hashes_cleared_total",
        "Slots that stopped draining.",
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
        "Messages requested from the broker that have not arrived; below 0 when a batch was larger.",
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
        "Messages that workers returned, or held when they left, to be redelivered.",
    ),
    counter(
        "keyline_subscription_unknown_acks_total",
        "dispatcher.totals.unknown_acks",
        "Acknowledgements of messages that the worker did not hold, mostly late ones.",
    ),
    counter(
        "keyline_subscription_refused_acks_total",
        "acks_refused",
        "ACK frames refused: cumulative, or in a transaction and in conflict.",
    ),
    counter(
        "keyline_subscription_ack_leases_lost_total",
        "ack_leases_lost",
        "Workers that lost their keys because they held a message longer than ack_lease_ms.",
    ),
    counter(
        "keyline_subscription_ack_lease_extensions_total",
        "ack_lease_extensions",
        "Times that a worker asked for more time to acknowledge (GET_LAST_MESSAGE_ID).",
    ),
    counter(
        "keyline_subscription_quarantines_total",
        "quarantines",
        "Times that a worker was quarantined because it had lost its ack lease too often.",
    ),
    gauge(
        "keyline_subscription_quarantined_workers",
        "dispatcher.quarantined_workers",
        "Workers that are connected and get no keys because of that.",
    ),
    counter(
        "keyline_subscription_repeated_entries_total",
        "dispatcher.repeated_entries",
        "Entries that the broker sent again and the gateway discarded.",
    ),
    gauge(
        "keyline_subscription_spilled_messages",
        "dispatcher.spilled_messages",
        "Waiting messages beyond their share, of which only the broker has the bytes.",
    ),
    counter(
        "keyline_subscription_fetched_entries_total",
        "dispatcher.fetched_entries",
        "Entries that the broker was asked for again because they had been beyond their share.",
    ),
    counter(
        "keyline_subscription_opaque_batches_total",
        "opaque_batches",
        "Batches that could not be opened, so that order holds for their first key only.",
    ),
    counter(
        "keyline_subscription_unreadable_entries_total", "unreadable_entries", "Entries whose metadata is damaged."
    ),
    counter("keyline_subscription_mixed_batches_total", "mixed_batches", "Batches with keys of several slots."),
    counter("keyline_subscription_sliced_deliveries_total", "sliced_deliveries", "Deliveries of a part of a batch."),
    counter(
        "keyline_subscription_background_openings_total",
        "background_openings",
        "Batches decompressed on a thread.",
    ),
    counter(
        "keyline_subscription_background_opened_bytes_total",
        "background_opened_bytes",
        "Decompressed bytes of these batches.",
        unit="bytes",
    ),
    counter(
        "keyline_subscription_permit_overshoots_total",
        "dispatcher.permit_overshoots",
        "Deliveries larger than the permits because the entry could not be split.",
    ),
    gauge(
        "keyline_subscription_full_windows",
        "dispatcher.full_windows",
        "Slots of which messages wait because their key_window is full.",
    ),
    gauge(
        "keyline_subscription_retry_waits",
        "dispatcher.retry_waits",
        "Slots that wait until the delay of a retry is over.",
    ),
    gauge(
        "keyline_subscription_in_transaction_messages",
        "dispatcher.in_transaction_messages",
        "Messages that workers acknowledged in transactions that have not ended.",
    ),
    counter(
        "keyline_subscription_delayed_retries_total",
        "dispatcher.delayed_retries",
        "Messages that workers returned and that waited for retry_delay_ms.",
    ),
    counter(
        "keyline_subscription_dead_letters_total",
        "dispatcher.dead_letters",
        "Messages that the dead letter or parking topic has confirmed.",
    ),
    gauge(
        "keyline_subscription_dead_letter_waits",
        "dispatcher.dead_letter_waits",
        "Slots that wait until the dead letter topic has confirmed one of their messages.",
    ),
    gauge(
        "keyline_subscription_parked_slots",
        "dispatcher.parked_slots",
        "Slots whose messages go to the parking topic.",
    ),
    counter(
        "keyline_subscription_window_overshoots_total",
        "dispatcher.window_overshoots",
        "Deliveries larger than key_window because the entry could not be split.",
    ),
    counter(
        "keyline_subscription_budget_stops_total",
        "budget_stops",
        "Times that no permits were granted because the memory limit was reached.",
    ),
)

WORKER_LABELS: Final = ("topic", "subscription", "worker")

WORKER: Final = (
    gauge(
        "keyline_worker_connected",
        "worker.workers",
        "Workers with this name, usually one; the other series are sums.",
    ),
    gauge(
        "keyline_worker_available_permits",
        "worker.available_permits",
        "Its permits: messages asked for and not sent.",
    ),
    gauge("keyline_worker_pending_acks", "worker.pending_acks", "Its unacknowledged deliveries."),
    gauge("keyline_worker_unacked_messages", "worker.unacked_messages", "Their messages."),
    gauge(
        "keyline_worker_oldest_unacknowledged_seconds",
        "oldest_unacknowledged_s",
        "Age of its oldest unacknowledged delivery; 0 if there is none.",
        unit="seconds",
    ),
    gauge(
        "keyline_worker_blocked_on_unacked_messages",
        "worker.blocked_on_unacked_messages",
        "1 while it gets nothing because it is at its unacknowledged limit.",
    ),
    gauge(
        "keyline_worker_hash_space_ratio",
        "worker.hash_space_share",
        "Its share of the hash space.",
        unit="ratio",
    ),
    gauge(
        "keyline_worker_draining_hashes",
        "worker.draining_hashes_count",
        "Slots that moved away from it and are still pending at it.",
    ),
    counter(
        "keyline_worker_draining_hashes_cleared_total",
        "worker.draining_hashes_cleared_total",
        "Slots that stopped draining at it.",
    ),
    counter("keyline_worker_sent_messages_total", "worker.totals.sent_messages", "Messages sent to it."),
    counter("keyline_worker_sent_bytes_total", "worker.totals.sent_bytes", "Their bytes.", unit="bytes"),
    counter("keyline_worker_acked_messages_total", "worker.totals.acked_messages", "Messages it acknowledged."),
    counter(
        "keyline_worker_redelivered_messages_total",
        "worker.totals.redelivered_messages",
        "Messages it returned for redelivery.",
    ),
    counter(
        "keyline_worker_unknown_acks_total",
        "worker.totals.unknown_acks",
        "Its acknowledgements of messages that it did not hold.",
    ),
)

BLAMED: Final = (
    gauge(
        "keyline_blamed_worker_stopped",
        "worker.stopped",
        "1 if it has stopped acknowledging or reading; 0 if it is slow, or fills the look-ahead.",
    ),
    gauge(
        "keyline_blamed_worker_silent_seconds",
        "worker.silent_s",
        "Time since it last acknowledged while it held messages.",
        unit="seconds",
    ),
    gauge("keyline_blamed_worker_unacked_messages", "worker.unacked_messages", "Messages that it holds."),
    gauge("keyline_blamed_worker_waiting_messages", "worker.waiting_messages", "Messages that wait for it."),
)
"""For each worker that keeps messages from being worked on; at most ten of a subscription, whatever
`metrics_workers_max` is."""

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
"""Under the broker's names, as far as the gateway knows them: no backlog, which only the broker has, and no rates,
which Prometheus derives from counters."""

PULSAR_CONSUMER_LABELS: Final = ("namespace", "topic", "subscription", "consumer_name")

PULSAR_CONSUMER: Final = (
    gauge("pulsar_consumer_available_permits", "worker.available_permits", "Messages it has asked for."),
    gauge("pulsar_consumer_unacked_messages", "worker.unacked_messages", "Messages that it holds."),
    gauge(
        "pulsar_consumer_blocked_on_unacked_messages",
        "worker.blocked_on_unacked_messages",
        "1 while it is at its unacknowledged limit.",
    ),
)
