"""A subscription in numbers, for metrics: what `statistics` tells, less everything that is long.

Scrapes come every few seconds to a gateway with thousands of subscriptions, on the loop that carries messages. So
nothing here lists hashes, ranges or positions; what takes longer in a larger subscription is only to walk what waits,
what drains and who is there, and each of them is bounded. Workers are asked for by name: several may share one, and
a reader that identifies them by name must see them as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from proxy.core.verdict import diverted_slots
from proxy.core.worker import sum_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.worker import DeliveryTotals, Worker


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """The workers of one name, mostly one; names as in `WorkerStatistics`, sums where there are several."""

    name: str
    workers: int
    available_permits: int
    unacked_messages: int
    pending_acks: int
    oldest_delivery_at: float | None
    """When that was sent which has been unacknowledged longest."""
    blocked_on_unacked_messages: bool
    hash_space_share: float
    draining_hashes_count: int
    draining_hashes_cleared_total: int
    totals: DeliveryTotals


@dataclass(frozen=True, slots=True)
class DispatcherCounts:
    """What metrics and the admin API both tell of one subscription."""

    paused: bool
    unacked_messages: int
    outstanding_entries: int
    held_bytes: int
    waiting_messages: int
    spilled_messages: int
    """Those of them that only the broker has the bytes of."""
    waiting_slots: int
    draining_hashes_count: int
    draining_hashes_unacked_messages: int
    draining_hashes_cleared_total: int
    unconfirmed_acks: int
    repeated_entries: int
    fetched_entries: int
    """Entries that the broker was asked for again, and sent."""
    permit_overshoots: int
    full_windows: int
    """Slots that wait because their window is full."""
    retry_waits: int
    """Slots that wait for a retry."""
    in_transaction_messages: int
    """Messages acknowledged in transactions that have not ended."""
    window_overshoots: int
    dead_letter_waits: int
    """Slots that wait until the dead letter or parking topic has one of their messages."""
    parked_slots: int
    """Slots whose messages go to the parking topic."""


def dispatcher_counts(dispatcher: Dispatcher) -> dict[str, Any]:
    """Every field of `DispatcherCounts` but one, which takes a walk: `draining_hashes_unacked_messages`."""
    outstanding = dispatcher.outstanding
    return {
        "paused": dispatcher.paused,
        "unacked_messages": sum(worker.unacked for worker in dispatcher.workers.values()),
        "outstanding_entries": len(outstanding.entries),
        "held_bytes": outstanding.bytes_held,
        "waiting_messages": dispatcher.waiting_messages,
        "spilled_messages": outstanding.spill.messages,
        "waiting_slots": len(dispatcher.waiting_by_slot()),
        "draining_hashes_count": len(dispatcher.draining),
        "draining_hashes_cleared_total": dispatcher.draining_cleared_total,
        "unconfirmed_acks": len(outstanding.unconfirmed),
        "repeated_entries": outstanding.repeated,
        "fetched_entries": outstanding.spill.fetched_entries,
        "permit_overshoots": dispatcher.opaque_overshoots,
        "full_windows": dispatcher.full_windows(),
        "retry_waits": len(dispatcher.retries.held),
        "in_transaction_messages": dispatcher.in_transaction.messages,
        "window_overshoots": dispatcher.window_overshoots,
        "dead_letter_waits": diverted_slots(dispatcher),
        "parked_slots": len(dispatcher.diversions.parked),
    }


@dataclass(frozen=True, slots=True)
class DispatcherSummary(DispatcherCounts):
    """One subscription; sums over its workers are named as in `WorkerStatistics`."""

    workers: int
    available_permits: int
    """Of workers that take messages: not of those that are drained, read nothing or hold as many as they may."""
    pending_acks: int
    oldest_delivery_at: float | None
    workers_blocked_on_unacked_messages: int
    waiting_bytes: int
    draining_hashes_waiting: int
    """Those for which messages wait."""
    delayed_retries: int
    """Messages of which a retry was made to wait."""
    quarantined_workers: int
    """Names of workers that are connected and own no slots because they lost their ack lease too often."""
    excluded_workers: int
    """Likewise, because an operator excluded them."""
    dead_letters: int
    """Messages that the dead letter topic has."""
    oldest_wait_since: float | None
    oldest_wait_slot: int
    """The slot that has waited so long; -1 if none waits."""
    totals: DeliveryTotals
    """Workers that have left included."""


def dispatcher_summary(dispatcher: Dispatcher) -> DispatcherSummary:
    """Everything at this moment."""
    workers = dispatcher.workers.values()
    waiting = list(dispatcher.waiting_parts())
    oldest = min(waiting, key=attrgetter("waits_since"), default=None)
    return DispatcherSummary(
        **dispatcher_counts(dispatcher),
        draining_hashes_unacked_messages=sum(map(dispatcher.slots.count, dispatcher.draining.slots())),
        workers=len(workers),
        available_permits=dispatcher.free_permits(),
        pending_acks=sum(len(worker.pending) for worker in workers),
        oldest_delivery_at=_oldest_delivery_at(workers),
        workers_blocked_on_unacked_messages=sum(worker.over_unacked for worker in workers),
        waiting_bytes=sum(part.wire_bytes for part in waiting),
        draining_hashes_waiting=sum(slot in dispatcher.draining for slot in dispatcher.blocked),
        delayed_retries=dispatcher.retries.messages_total,
        quarantined_workers=len(dispatcher.quarantined),
        excluded_workers=dispatcher.excluded,
        dead_letters=dispatcher.diversions.messages_total,
        oldest_wait_since=None if oldest is None else oldest.waits_since,
        oldest_wait_slot=-1 if oldest is None else oldest.slot,
        totals=sum_of([dispatcher.departed, *(worker.totals for worker in workers)]),
    )


def _oldest_delivery_at(workers: Iterable[Worker]) -> float | None:
    """Of each worker the first, since what is pending stands in the order in which it was sent."""
    return min((next(iter(worker.pending.values())).sent_at for worker in workers if worker.pending), default=None)


def workers_by_name(dispatcher: Dispatcher) -> dict[str, list[Worker]]:
    """In the order in which the first of each name joined."""
    by_name: dict[str, list[Worker]] = {}
    for worker in dispatcher.workers.values():
        by_name.setdefault(worker.name, []).append(worker)
    return by_name


def worker_summary(dispatcher: Dispatcher, name: str, workers: Sequence[Worker]) -> WorkerSummary:
    """The workers of this name at this moment."""
    ranges_of = dispatcher.selector.ranges
    slots = sum(span.slot_count for worker in workers for span in ranges_of(worker))
    return WorkerSummary(
        name=name,
        workers=len(workers),
        available_permits=sum(worker.permits for worker in workers if worker.permits > 0),
        unacked_messages=sum(worker.unacked for worker in workers),
        pending_acks=sum(len(worker.pending) for worker in workers),
        oldest_delivery_at=_oldest_delivery_at(workers),
        blocked_on_unacked_messages=any(worker.over_unacked for worker in workers),
        hash_space_share=slots / dispatcher.selector.range_size,
        draining_hashes_count=sum(worker.draining_slots for worker in workers),
        draining_hashes_cleared_total=sum(worker.draining_cleared for worker in workers),
        totals=sum_of(worker.totals for worker in workers),
    )
