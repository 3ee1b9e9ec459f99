"""A subscription's state as frozen values: what the admin API, metrics and the console may see.

Taken on request and outside the hot path, in steps: see `proxy.core.steps`. The names are the PIPs' where a PIP names
something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.core.ack_lease import lease_end
from proxy.core.last_sent_position import format_ranges, individually_sent, last_sent_position
from proxy.core.positions import format_position
from proxy.core.steps import in_steps
from proxy.core.subscription_verdict import subscription_verdict
from proxy.core.summary import DispatcherCounts, dispatcher_counts
from proxy.core.verdict import Surroundings, Verdict
from proxy.core.worker import sum_of
from proxy.core.worker_health import WorkerHealth, checkup_steps

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.steps import Steps
    from proxy.core.worker import Worker


@dataclass(frozen=True, slots=True)
class DrainingHash:
    """One slot that drains, at its holder."""

    hash: int
    unack_msgs: int
    blocked_attempts: int
    waiting_messages: int
    since: float
    owner: str | None


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """One worker."""

    name: str
    available_permits: int
    unacked_messages: int
    pending_acks: int
    blocked_on_unacked_messages: bool
    writable: bool
    drained_by_operator: bool
    sent_messages: int
    sent_bytes: int
    acked_messages: int
    redelivered_messages: int
    unknown_acks: int
    joined_at: float
    last_sent_at: float
    last_acked_at: float
    last_flow_at: float
    key_hash_ranges: tuple[tuple[int, int], ...]
    hash_space_share: float
    draining_hashes_count: int
    draining_hashes_unacked_messages: int
    draining_hashes_cleared_total: int
    draining_hashes: tuple[DrainingHash, ...]
    last_sent_position_when_joining: str | None
    waits_for_join_position: bool
    ack_lease_ends_at: float | None
    """When it loses its keys unless it acknowledges or asks for more time; None where no lease runs."""
    health: WorkerHealth


@dataclass(frozen=True, slots=True)
class DispatcherStatistics(DispatcherCounts):
    """One subscription."""

    ordering_mode: str
    workers: tuple[WorkerStatistics, ...]
    workers_count: int
    sent_messages: int
    """Since the subscription began, workers that have left included."""
    acked_messages: int
    """Likewise."""
    last_sent_position: str | None
    individually_sent_positions: str
    oldest_wait_since: float | None
    verdict: Verdict
    """What is wrong with it, who causes it, and what helps."""


UNKNOWN: Final = Surroundings()
"""What is said without knowing more than the dispatcher does."""
DRAINING_LISTED_MAX = 1_000
"""Draining hashes listed per worker; the counts are always whole."""
POSITIONS_LISTED_MAX = 100
"""Ranges of individually sent positions listed, the lowest."""


def dispatcher_statistics_steps(
    dispatcher: Dispatcher, now: float, around: Surroundings = UNKNOWN, *, brief: bool = False, workers: bool = True
) -> Steps[DispatcherStatistics]:
    """Everything, each worker at its own moment; `brief` is without ranges and draining hashes one by one.

    Without `workers` none is listed.

    `now` is on the clock of the dispatcher's other calls; `around` is for the verdict.
    """
    listed_max = 0 if brief else DRAINING_LISTED_MAX
    draining = yield from _draining_by_worker(dispatcher, listed_max)
    unsent = yield from _unsent(dispatcher)
    highest_read = dispatcher.outstanding.highest
    last_sent = last_sent_position(highest_read, unsent)
    ranges = individually_sent(highest_read, unsent)
    listed: list[WorkerStatistics] = []
    checkup = yield from checkup_steps(dispatcher, now)
    verdict = subscription_verdict(dispatcher, checkup, around, now)
    for worker, health in checkup.workers.items() if workers else ():
        if dispatcher.workers.get(worker.index) is worker:
            drains = draining.get(id(worker), _NONE_DRAIN)
            listed.append(_worker_statistics(dispatcher, worker, drains, health, brief=brief))
            yield
    totals = sum_of([dispatcher.departed, *(worker.totals for worker in dispatcher.workers.values())])
    return DispatcherStatistics(
        **dispatcher_counts(dispatcher),
        draining_hashes_unacked_messages=sum(sum(each.pending) for each in draining.values()),
        ordering_mode=dispatcher.mode.value,
        workers=tuple(listed),
        workers_count=len(dispatcher.workers),
        sent_messages=totals.sent_messages,
        acked_messages=totals.acked_messages,
        last_sent_position=format_position(last_sent) if last_sent is not None else None,
        individually_sent_positions=format_ranges(ranges[:POSITIONS_LISTED_MAX]),
        oldest_wait_since=min((part.waits_since for part in dispatcher.waiting_parts()), default=None),
        verdict=verdict,
    )


def worker_statistics_steps(dispatcher: Dispatcher, worker: Worker, now: float) -> Steps[WorkerStatistics]:
    """One worker, at the moment of the first step; it may leave meanwhile."""
    checkup = yield from checkup_steps(dispatcher, now, worker)
    draining = yield from _draining_by_worker(dispatcher, DRAINING_LISTED_MAX)
    return _worker_statistics(dispatcher, worker, draining.get(id(worker), _NONE_DRAIN), checkup.workers[worker])


def draining_hash(dispatcher: Dispatcher, slot: int) -> DrainingHash:
    """One slot that drains."""
    waiting = dispatcher.blocked.get(slot)
    owner = dispatcher.select(slot)
    return DrainingHash(
        hash=slot,
        unack_msgs=dispatcher.slots.count(slot),
        blocked_attempts=waiting.blocked_attempts if waiting is not None else 0,
        waiting_messages=sum(part.count for part in waiting.parts) if waiting is not None else 0,
        since=dispatcher.draining.since(slot) or 0.0,
        owner=owner.name if owner is not None else None,
    )


class _Draining(NamedTuple):
    """What drains at one worker."""

    listed: list[DrainingHash]
    pending: list[int]
    """Messages of each slot."""


_NONE_DRAIN: Final = _Draining([], [])


def _draining_by_worker(dispatcher: Dispatcher, listed_max: int) -> Steps[dict[int, _Draining]]:
    """By the holder's identity: an index is given again when its worker has left."""
    by_worker: dict[int, _Draining] = {}
    slots = dispatcher.slots
    for run in in_steps(dispatcher.draining.slots()):
        for slot in run:
            if slot in dispatcher.draining:
                holder = dispatcher.holder_at(slots.holder(slot))
                found = by_worker.setdefault(id(holder), _Draining([], []))
                found.pending.append(slots.count(slot))
                if len(found.listed) < listed_max:
                    found.listed.append(draining_hash(dispatcher, slot))
        yield
    return by_worker


def _unsent(dispatcher: Dispatcher) -> Steps[set[int]]:
    """Positions of all that never left. Walks what waits, which look-ahead bounds; the hot path pays nothing for it."""
    unsent: set[int] = set()
    for run in in_steps(list(dispatcher.waiting_parts())):
        unsent.update(part.position for part in run if not part.attempts)
        yield
    return unsent


def _worker_statistics(
    dispatcher: Dispatcher, worker: Worker, draining: _Draining, health: WorkerHealth, *, brief: bool = False
) -> WorkerStatistics:
    ranges = dispatcher.selector.ranges(worker)
    joining = worker.last_sent_position_when_joining
    return WorkerStatistics(
        name=worker.name,
        available_permits=worker.permits,
        unacked_messages=worker.unacked,
        pending_acks=len(worker.pending),
        blocked_on_unacked_messages=worker.over_unacked,
        writable=worker.writable,
        drained_by_operator=worker.drained_by_operator,
        sent_messages=worker.sent_messages,
        sent_bytes=worker.sent_bytes,
        acked_messages=worker.acked_messages,
        redelivered_messages=worker.redelivered_messages,
        unknown_acks=worker.acks_unknown,
        joined_at=worker.joined_at,
        last_sent_at=worker.last_sent_at,
        last_acked_at=worker.last_acked_at,
        last_flow_at=worker.last_flow_at,
        key_hash_ranges=() if brief else tuple((span.start, span.end) for span in ranges),
        hash_space_share=sum(span.slot_count for span in ranges) / dispatcher.selector.range_size,
        draining_hashes_count=worker.draining_slots,
        draining_hashes_unacked_messages=sum(draining.pending),
        draining_hashes_cleared_total=worker.draining_cleared,
        draining_hashes=tuple(draining.listed),
        last_sent_position_when_joining=format_position(joining) if joining is not None else None,
        waits_for_join_position=worker.join_gate is not None,
        ack_lease_ends_at=lease_end(dispatcher, worker),
        health=health,
    )
