"""What a subscription delivered and got back, workers that have left included: sums that never fall.

A worker counts for itself, on the hot path; when it leaves, its counts are added to those of the departed. What lies in
an outbox was counted as sent already and may yet be withdrawn, so it is left out of every sum until it has gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.worker import Worker


class DeliveryTotals(NamedTuple):
    """Counts of messages, but for the bytes and for the acks of what the worker did not hold."""

    sent_messages: int = 0
    sent_bytes: int = 0
    acked_messages: int = 0
    redelivered_messages: int = 0
    """Messages that workers gave back, or left behind, to be delivered once more."""
    unknown_acks: int = 0


def totals_of(worker: Worker) -> DeliveryTotals:
    """One worker's counts at this moment."""
    outbox = worker.outbox
    return DeliveryTotals(
        worker.sent_messages - sum(unit.count for unit in outbox),
        worker.sent_bytes - sum(unit.wire_bytes for unit in outbox),
        worker.acked_messages,
        worker.redelivered_messages,
        worker.acks_unknown,
    )


def sum_of(totals: Iterable[DeliveryTotals]) -> DeliveryTotals:
    """All together."""
    return DeliveryTotals(*map(sum, zip(*totals, strict=True)))
