"""Metrics of each subscription; its durations, which namespaces or the gateway may have instead, too."""

from __future__ import annotations

from typing import Final, Literal

from admin_api.metrics.family import counter, gauge, seconds

UPSTREAM_STATES: Final = ("idle", "locating", "subscribing", "ready", "backing_off", "closed")

SUBSCRIPTION_LABELS: Final = ("topic", "subscription")

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
        "Permits of workers that take messages: asked for and not sent. Workers that are drained, read nothing or "
        "hold as many as they may do not count.",
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
        "Bytes that it may hold. The gateway grants no more permits when those left are too few for one message more.",
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
        "Waiting messages, beyond those that workers ask for, at which the gateway grants no more permits.",
    ),
    gauge(
        "keyline_subscription_look_ahead_used_ratio",
        "look_ahead_used",
        "Waiting messages as a share of that limit and the available permits; above 1 when workers returned more. "
        "Messages of which only the broker has the bytes do not count.",
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
    gauge(
        "keyline_subscription_draining_hashes_waiting",
        "dispatcher.draining_hashes_waiting",
        "Draining hashes for which messages wait.",
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
    gauge(
        "keyline_subscription_excluded_workers",
        "dispatcher.excluded_workers",
        "Workers that are connected and get no keys because an operator excluded them.",
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
    gauge(
        "keyline_subscription_takeover_transactions",
        "takeover_transactions",
        "Transactions, open when the gateway took over, whose end it waits for before it reads.",
    ),
    counter(
        "keyline_subscription_takeovers_at_risk_total",
        "takeovers_at_risk",
        "Times that it went on although such transactions were, or may have been, open, so that an abort may break "
        "order, or beside another consumer at the broker, perhaps its former one.",
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
        "Slots that wait until the dead letter or parking topic has confirmed one of their messages.",
    ),
    gauge(
        "keyline_subscription_parked_slots",
        "dispatcher.parked_slots",
        "Slots whose messages go to the parking topic.",
    ),
    counter(
        "keyline_subscription_parked_copies_refused_total",
        "parked_copies_refused",
        "Messages in the parking topic that the gateway did not publish and does not redrive.",
    ),
    counter(
        "keyline_subscription_window_overshoots_total",
        "dispatcher.window_overshoots",
        "Deliveries larger than key_window because the entry could not be split.",
    ),
    counter(
        "keyline_contract_violations_total",
        "contract_violations",
        "Deliveries of watched keys that broke the contract (`contract_monitor_one_in`): to a second worker, before an "
        "earlier message, or twice.",
        label="kind",
    ),
    counter(
        "keyline_subscription_budget_stops_total",
        "budget_stops",
        "Times that no permits were granted because the memory limit was reached.",
    ),
)
