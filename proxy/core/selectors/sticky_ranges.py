"""Sticky exclusive ranges: every worker says which slots it wants, and gets those or is refused.

Problem: some applications partition their state by hash and must decide themselves who gets what. Rule kept: a worker
gets exactly the ranges it named; ranges that overlap with another worker's are refused, and a refusal changes
nothing. Slots that no worker named have no owner: their messages wait until a worker names them, as in the broker.

Why not let the newcomer win, which would make a fast reconnect easier: a worker that is merely slow would lose its
state's slots to a typing error elsewhere. The error names the worker in the way instead; the caller may find that it
is dead, remove it and try again, which is what the broker does with its liveness check.

Layout: the whole space as pieces with their upper bounds in a sorted list and their owners, None for a hole, in a
parallel one; two neighbours are never both holes. A worker of few ranges is put in and taken out range by range: one
that comes and goes costs what it names, and not what others have. For many ranges the lists are written anew.

Source: facts 2.4; apache/pulsar 24730 (several ranges per worker), PIP-51 (the mode).
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from proxy.core.errors import ConsumerAssignError
from proxy.core.hash_ranges import Assignment, HashRange, RangeMove, merge, merge_assignment, merge_moves
from proxy.core.selectors.base import StickyNamed
from proxy.core.sticky_key import RANGE_SLOT_COUNT, range_slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

W = TypeVar("W", bound=StickyNamed)

LAST_SLOT: Final = RANGE_SLOT_COUNT - 1

SPLICED_MAX: Final = 256
"""Ranges that are put in one by one, each of which moves half of the lists; more cost less if all is written anew."""


class StickyRanges(Generic[W]):
    """The ranges of the broker's HashRangeExclusiveStickyKeyConsumerSelector."""

    def __init__(self) -> None:
        """Start with no workers."""
        self.range_size = RANGE_SLOT_COUNT
        self.slot: Callable[[int], int] = range_slot
        self._pieces: Assignment[W] = []
        """Granted ranges in order, as they were named."""
        self._upper_bounds: list[int] = [LAST_SLOT]
        self._owners: list[W | None] = [None]
        self._named: dict[int, list[HashRange]] = {}
        """What each worker has, by its object id, in order."""

    def add(self, worker: W) -> list[RangeMove[W]]:
        """Give the worker the ranges in its `sticky_ranges`; see `Selector.add`.

        Raises:
            ConsumerAssignError: the ranges are wrong in themselves, or another worker has one of the slots.
        """
        assert id(worker) not in self._named, f"worker {worker.name} joined twice"
        wanted = validated_ranges(worker.sticky_ranges)
        for piece in wanted:
            conflict = self._conflict(piece)
            if conflict is not None:
                taken, owner = conflict
                message = f"Range conflict with consumer {owner.name}: {piece} overlaps its {taken}"
                raise ConsumerAssignError(message)
        self._named[id(worker)] = wanted
        if len(wanted) <= SPLICED_MAX:
            for piece in wanted:
                self._put_in(piece, worker)
        else:
            self._write(sorted([*self._pieces, *((piece, worker) for piece in wanted)], key=_start))
        return merge_moves(RangeMove(start, end, None, worker) for start, end in wanted)

    def in_the_way(self, ranges: Sequence[tuple[int, int]]) -> W | None:
        """Return the worker that `add` would name to one who wants these; None if they are free, or wrong."""
        try:
            wanted = validated_ranges(ranges)
        except ConsumerAssignError:
            return None
        conflicts = (self._conflict(piece) for piece in wanted)
        return next((conflict[1] for conflict in conflicts if conflict is not None), None)

    def remove(self, worker: W) -> list[RangeMove[W]]:
        """Leave the worker's slots without an owner; see `Selector.remove`."""
        named = self._named.pop(id(worker), [])
        if len(named) <= SPLICED_MAX:
            for piece in named:
                self._take_out(piece)
        else:
            self._write([(piece, owner) for piece, owner in self._pieces if owner is not worker])
        return merge_moves(RangeMove(start, end, worker, None) for start, end in named)

    def select(self, slot: int) -> W | None:
        """Return the worker that named the slot, None if there is none."""
        return self._owners[bisect_left(self._upper_bounds, slot)]

    def select_each(self, slots: Iterable[int]) -> Iterator[W | None]:
        """See `Selector.select_each`."""
        return map(self.select, slots)

    def ranges(self, worker: W) -> list[HashRange]:
        """See `Selector.ranges`."""
        return merge(self._named.get(id(worker), ()))

    def assignment(self) -> list[tuple[HashRange, W]]:
        """See `Selector.assignment`."""
        return merge_assignment(self._pieces)

    def copy(self) -> StickyRanges[W]:
        """See `Selector.copy`."""
        twin: StickyRanges[W] = StickyRanges()
        twin._named = self._named.copy()
        twin._write(self._pieces.copy())
        return twin

    def _conflict(self, wanted: HashRange) -> tuple[HashRange, W] | None:
        """Return the lowest granted range that shares a slot with the wanted one, and its owner.

        Not by a look at each: a client may name half of all slots one by one, and another client the other half.
        """
        at = bisect_left(self._pieces, wanted.start, key=_end)
        return self._pieces[at] if at < len(self._pieces) and self._pieces[at][0].start <= wanted.end else None

    def _put_in(self, piece: HashRange, worker: W) -> None:
        """Grant one more range, which lies in a hole."""
        self._pieces.insert(bisect_left(self._pieces, piece.start, key=_end), (piece, worker))
        hole = bisect_left(self._upper_bounds, piece.start)
        first, last = self._upper_bounds[hole - 1] + 1 if hole else 0, self._upper_bounds[hole]
        upper_bounds: list[int] = [piece.end]
        owners: list[W | None] = [worker]
        if first < piece.start:
            upper_bounds.insert(0, piece.start - 1)
            owners.insert(0, None)
        if piece.end < last:
            upper_bounds.append(last)
            owners.append(None)
        self._upper_bounds[hole : hole + 1] = upper_bounds
        self._owners[hole : hole + 1] = owners

    def _take_out(self, piece: HashRange) -> None:
        """Make a granted range a hole, one with the holes beside it."""
        del self._pieces[bisect_left(self._pieces, piece.start, key=_end)]
        first = last = bisect_left(self._upper_bounds, piece.start)
        if first and self._owners[first - 1] is None:
            first -= 1
        if last + 1 < len(self._owners) and self._owners[last + 1] is None:
            last += 1
        self._upper_bounds[first : last + 1] = [self._upper_bounds[last]]
        self._owners[first : last + 1] = [None]

    def _write(self, pieces: Assignment[W]) -> None:
        """Make these the granted ranges, and write anew what `select` looks at."""
        upper_bounds: list[int] = []
        owners: list[W | None] = []
        next_slot = 0
        for (start, end), owner in pieces:
            if next_slot < start:
                upper_bounds.append(start - 1)
                owners.append(None)
            upper_bounds.append(end)
            owners.append(owner)
            next_slot = end + 1
        if next_slot <= LAST_SLOT:
            upper_bounds.append(LAST_SLOT)
            owners.append(None)
        self._pieces, self._upper_bounds, self._owners = pieces, upper_bounds, owners


def validated_ranges(ranges: Sequence[tuple[int, int]]) -> list[HashRange]:
    """Return the ranges that a worker wants, sorted.

    Raises:
        ConsumerAssignError: there are none, one is outside the space or ends before it starts, or two overlap. Words
            as the broker's where it has some; the bounds are checked by the clients only, and not by all of them.
    """
    if len(ranges) > RANGE_SLOT_COUNT:  # a frame has room for many more, which are not sorted to be told so
        message = f"Consumer's own ranges conflict: {len(ranges)} ranges of {RANGE_SLOT_COUNT} slots"
        raise ConsumerAssignError(message)
    wanted = sorted(HashRange(start, end) for start, end in ranges)
    if not wanted:
        message = "Ranges for KeyShared policy must not be empty."
        raise ConsumerAssignError(message)
    for piece in wanted:
        if piece.start > piece.end:
            message = f"Fixed hash range start > end for range: {piece}"
            raise ConsumerAssignError(message)
        if piece.start < 0 or piece.end > LAST_SLOT:
            message = f"Ranges must be [0, {LAST_SLOT}] but provided range is {piece}"
            raise ConsumerAssignError(message)
    for piece, following in pairwise(wanted):
        if piece.overlaps(following):
            message = f"Consumer's own ranges conflict: {piece} overlaps with {following}"
            raise ConsumerAssignError(message)
    return wanted


def _start(piece: tuple[HashRange, object]) -> int:
    return piece[0].start


def _end(piece: tuple[HashRange, object]) -> int:
    return piece[0].end
