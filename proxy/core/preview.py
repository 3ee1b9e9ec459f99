"""What would move, drain and be sent again if workers joined or left.

Problem: an operator who scales wants to know beforehand what that costs in order kept and work repeated. Rule kept: the
answer is the selector's own, computed on a copy of it, so it is what would happen; nothing of the subscription changes.

What is told is the difference between before and after. Several workers that leave are taken off one after the other in
the order they joined, as one membership change each; what goes through the hands of one of them on its way is told
once, with its last owner.

Cost: the selector's copy and its assignment (both, if several leave), the slots in flight inside the ranges that move,
what waits, and the pending acks of workers that would have something draining or that leave. A few tens of milliseconds
for 50,000 unacknowledged messages, a tenth of a second or three for 200 workers; in steps, see `proxy.core.steps`.

Specifications: PIP-379 (what drains), design sections 3 and 7.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from proxy.core.hash_ranges import diff
from proxy.core.steps import in_steps
from proxy.core.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.hash_ranges import RangeMove
    from proxy.core.selectors.base import Selector
    from proxy.core.steps import Steps

MOVES_LISTED_MAX: Final = 1_000
"""Moves listed; the counts are always whole."""


@dataclass(frozen=True, slots=True)
class PreviewedMove:
    """Slots from `start` to `end`, both inclusive, would go from one owner to another."""

    start: int
    end: int
    source: str | None
    """The owner's name now; None if there is none."""
    target: str | None
    """The owner's name then; None if there would be none."""


@dataclass(frozen=True, slots=True)
class PreviewedWorker:
    """One worker before and after. Shares are of the whole hash space, 0 to 1."""

    name: str
    joins: bool
    leaves: bool
    slots_before: int
    slots_after: int
    share_before: float
    share_after: float
    slots_that_would_drain: int
    """Slots of which it has messages and that would go to another."""
    messages_that_would_drain: int
    """Those messages, unacknowledged."""


@dataclass(frozen=True, slots=True)
class MembershipPreview:
    """What a join, or leaves, would change."""

    moves: tuple[PreviewedMove, ...]
    """Ascending, neighbours with the same owners merged; at most `MOVES_LISTED_MAX`."""
    moves_count: int
    slots_moved: int
    share_moved: float
    """Of the whole hash space, 0 to 1."""
    slots_that_would_drain: int
    """Slots that move to one worker while another, who stays, has messages of them; 0 without order."""
    messages_that_would_drain: int
    """Those messages, unacknowledged."""
    messages_redelivered: int
    """Sent to workers that leave and not acknowledged: they would be sent again."""
    waiting_messages_moved: int
    """Messages that wait now in slots that move."""
    workers: tuple[PreviewedWorker, ...]
    """In join order, those that leave and the one that joins included."""


def preview_join_steps(
    dispatcher: Dispatcher, name: str, sticky_ranges: Sequence[tuple[int, int]] = ()
) -> Steps[MembershipPreview]:
    """Tell what would change if a worker of this name joined now. Changes nothing.

    `sticky_ranges` are the (start, end) pairs it would ask for, both inclusive; only sticky selectors look at them.

    Raises:
        ConsumerAssignError: the join would be refused; the error is the one that the worker would get.
    """
    before = dispatcher.selector.copy()
    yield
    worker = Worker(name, sticky_ranges=sticky_ranges)
    moves = before.copy().add(worker)
    yield
    return (yield from _preview(dispatcher, before, moves, joining=worker))


def preview_leave_steps(dispatcher: Dispatcher, names: Sequence[str]) -> Steps[MembershipPreview]:
    """Tell what would change if all workers of these names left now. Changes nothing.

    Names that no worker has are passed over; if none has any, nothing moves.
    """
    wanted = frozenset(names)
    leaving = [worker for worker in dispatcher.workers.values() if worker.name in wanted]
    before = dispatcher.selector.copy()
    yield
    after = before.copy()
    moves: Sequence[RangeMove[Worker]] = ()
    for worker in leaving:
        moves = after.remove(worker)
        yield
    if len(leaving) > 1:
        # What went from one of them to another went on with the next: only the difference in the end counts.
        assignments = before.assignment(), after.assignment()
        yield
        moves = diff(*assignments)
        yield
    return (yield from _preview(dispatcher, before, moves, leaving=leaving))


def _preview(
    dispatcher: Dispatcher,
    before: Selector[Worker],
    moves: Sequence[RangeMove[Worker]],
    *,
    joining: Worker | None = None,
    leaving: Sequence[Worker] = (),
) -> Steps[MembershipPreview]:
    range_size = before.range_size
    workers = [*dispatcher.workers.values(), *([joining] if joining is not None else [])]
    slots_before, slots_after = _slots_owned(before, moves)
    yield
    slots_moved = sum(move.end - move.start + 1 for move in moves)
    slot_counts, messages = yield from _would_drain(dispatcher, moves, leaving)
    redelivered = 0
    for leaver in leaving:
        redelivered += yield from _would_come_back(leaver)
    waiting_moved = yield from _waiting_in(dispatcher, moves)

    def shown(worker: Worker) -> PreviewedWorker:
        key = id(worker)
        return PreviewedWorker(
            name=worker.name,
            joins=worker is joining,
            leaves=any(worker is leaver for leaver in leaving),
            slots_before=slots_before[key],
            slots_after=slots_after[key],
            share_before=slots_before[key] / range_size,
            share_after=slots_after[key] / range_size,
            slots_that_would_drain=slot_counts[key],
            messages_that_would_drain=messages[key],
        )

    return MembershipPreview(
        moves=tuple(map(_shown_move, islice(moves, MOVES_LISTED_MAX))),
        moves_count=len(moves),
        slots_moved=slots_moved,
        share_moved=slots_moved / range_size,
        slots_that_would_drain=slot_counts.total(),
        messages_that_would_drain=messages.total(),
        messages_redelivered=redelivered,
        waiting_messages_moved=waiting_moved,
        workers=tuple(map(shown, workers)),
    )


def _shown_move(move: RangeMove[Worker]) -> PreviewedMove:
    source, target = move.before, move.after
    return PreviewedMove(
        start=move.start,
        end=move.end,
        source=source.name if source is not None else None,
        target=target.name if target is not None else None,
    )


def _slots_owned(selector: Selector[Worker], moves: Iterable[RangeMove[Worker]]) -> tuple[Counter[int], Counter[int]]:
    """How many slots each worker owns before and after, by the worker's identity."""
    before: Counter[int] = Counter()
    for span, worker in selector.assignment():
        before[id(worker)] += span.slot_count
    after = before.copy()
    for move in moves:
        after[id(move.before)] -= move.end - move.start + 1
        after[id(move.after)] += move.end - move.start + 1
    return before, after


def _would_drain(
    dispatcher: Dispatcher, moves: Iterable[RangeMove[Worker]], leaving: Sequence[Worker]
) -> Steps[tuple[Counter[int], Counter[int]]]:
    """Slots that would drain, and unacknowledged messages of them, at each worker, by the worker's identity.

    What a leaving worker has does not drain: it is free at once.
    """
    gone = {worker.index for worker in leaving}
    workers = dict(dispatcher.workers)
    drains: dict[int, set[int]] = {}
    for move in moves:
        target = move.after.index if move.after is not None else 0
        for slot, holder, _ in dispatcher.slots.in_range(move.start, move.end):
            if holder != target and holder not in gone:
                drains.setdefault(holder, set()).add(slot)
        yield
    slot_counts: Counter[int] = Counter()
    messages: Counter[int] = Counter()
    for holder, slots in drains.items():
        worker = workers.get(holder)
        if worker is None:  # it came meanwhile
            continue
        slot_counts[id(worker)] = len(slots)
        for run in in_steps(list(worker.pending.values())):
            messages[id(worker)] += sum(_unacked_in(part, slots) for part in run)
            yield
    return slot_counts, messages


def _unacked_in(part: Part, slots: Container[int]) -> int:
    """Messages of these slots that the part's worker has not acknowledged."""
    if part.slots is None:
        return part.remaining if part.slot in slots else 0
    return sum(slot in slots for slot in part.slots_of(part.unacked_indexes()))


def _would_come_back(worker: Worker) -> Steps[int]:
    """Messages that were sent to the worker and would be sent again if it left.

    Fewer than it has if some were not sent yet, more if an entry that only goes whole was acknowledged in part.
    """
    unsent = {id(unit) for unit in worker.outbox}
    messages = 0
    for run in in_steps(list(worker.pending.values())):
        parts = (part for part in run if id(part) not in unsent)
        messages += sum(part.remaining if part.divisible else part.count for part in parts)
        yield
    return messages


def _waiting_in(dispatcher: Dispatcher, moves: Sequence[RangeMove[Worker]]) -> Steps[int]:
    starts = [move.start for move in moves]
    messages = 0
    for run in in_steps(list(dispatcher.waiting_parts())):
        for slot, count in (each for part in run for each in part.messages_by_slot()):
            at = bisect_right(starts, slot) - 1
            if at >= 0 and slot <= moves[at].end:
                messages += count
        yield
    return messages
