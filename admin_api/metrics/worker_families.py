"""Metrics of each worker."""

from __future__ import annotations

from typing import Final

from admin_api.metrics.family import counter, gauge

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
"""For each worker that keeps messages from being worked on; at most ten of a subscription, with any
`metrics_workers_max`."""
