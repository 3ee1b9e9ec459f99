"""The last sent position of PIP-282: everything at or below it is scheduled to be sent.

Problem: a worker that joins may get a key's messages only once everything read for the key's former owner is out of
the way. The read position is no such limit, because entries are read and then wait (the PIP's two issues). PIP-282
keeps the last sent position and, above it, the set of individually sent positions.

Rule kept: `position` and `individually_sent` are the PIP's, step by step. What is stored is the complement: the
positions that were read and not sent, and the highest position read. Why: a message that goes out at once, which is
nearly every message, then costs one comparison and leaves nothing behind, where a set of sent positions gains and
merges a range for each. While nothing waits the memory is one integer; while something waits it is what waits, which
the dispatcher's own limits bound already, where the set of sent ranges grows with every hole.

The position before a held one is entry - 1, and for the first entry of a ledger the last position read of the ledger
before it, so that neither a range nor the last sent position names entries that never were. Where that one is
unknown, because nothing was read before, 4:-1 is shown for 4:0. Both compare alike with every position that exists:
no entry lies between them. Entries the broker does not deliver, being acknowledged already, count as sent.

The lowest held position comes from a heap whose stale members are skipped when they surface and swept when they
outnumber the others. Why not a sorted container: two thirds of a microsecond against two, on each blocked message.

Source: PIP-282, design and implementation details.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heapify, heappop, heappush

from proxy.core.positions import ENTRY_BITS, Position, entry_of, format_position

LEDGER_ENDS_KEPT = 64
"""Ends of ledgers remembered whether or not something waits, for positions held some time after they were read."""

_STALE_SLACK = 64
"""Stale heap members tolerated however few positions are held, so that a small heap is not swept all the time."""


class LastSentPosition:
    """Read, held and sent positions of one subscription.

    Cost: `read` one comparison; `hold` and `sent` logarithmic in what is held; `position` constant, amortised.
    """

    __slots__ = ("_heap", "_held", "_highest", "_ledger_ends")

    def __init__(self, initial: Position | None = None) -> None:
        """Start after `initial`, with everything up to it sent; None if nothing is known."""
        self._highest = initial
        self._held: set[Position] = set()
        self._heap: list[Position] = []
        self._ledger_ends: list[Position] = []
        """Highest position read of each ledger that was left, ascending."""

    def read(self, position: Position) -> None:
        """Note that the broker delivered a position. A redelivered one, lower than the highest, changes nothing."""
        highest = self._highest
        if highest is None:
            self._highest = position
        elif position > highest:
            if position >> ENTRY_BITS != highest >> ENTRY_BITS:
                self._leave_ledger(highest)
            self._highest = position

    def hold(self, position: Position) -> None:
        """Note that a position that was read could not be sent at once; holding it again changes nothing."""
        assert self._highest is not None, "a position is read before it is held"
        assert position <= self._highest, f"{format_position(position)} is held and was not read"
        if position not in self._held:
            self._held.add(position)
            heappush(self._heap, position)

    def sent(self, position: Position) -> None:
        """Note that a position is scheduled to be sent. Positions that never waited need no call, and may have one."""
        held = self._held
        if position in held:
            held.discard(position)
            if len(self._heap) > 2 * len(held) + _STALE_SLACK:
                self._heap = list(held)
                heapify(self._heap)

    @property
    def position(self) -> Position | None:
        """The last sent position; None while nothing was read."""
        lowest = self._lowest_held()
        return self._highest if lowest is None else self._before(lowest)

    @property
    def highest_read(self) -> Position | None:
        """The highest position read; None while nothing was read."""
        return self._highest

    @property
    def held_count(self) -> int:
        """How many positions were read and wait."""
        return len(self._held)

    def is_held(self, position: Position) -> bool:
        """Tell whether a position waits."""
        return position in self._held

    def individually_sent(self) -> list[tuple[Position, Position]]:
        """Return the ranges sent above `position`, each (lower exclusive, upper inclusive), ascending.

        Cost: sorts what is held; meant for stats and tests.
        """
        if self._highest is None:
            return []
        held = sorted(self._held)
        uppers = [self._before(position) for position in held[1:]] + [self._highest]
        return [(lower, upper) for lower, upper in zip(held, uppers, strict=False) if lower < upper]

    def _lowest_held(self) -> Position | None:
        heap, held = self._heap, self._held
        while heap and heap[0] not in held:
            heappop(heap)
        return heap[0] if heap else None

    def _leave_ledger(self, last: Position) -> None:
        """Remember where a ledger ended; once there are many, forget the ends that no held position can ask for."""
        ends = self._ledger_ends
        ends.append(last)
        if len(ends) > LEDGER_ENDS_KEPT:
            lowest = self._lowest_held()
            needed_from = len(ends) if lowest is None else bisect_left(ends, lowest)
            del ends[: max(needed_from - 1, 0)]

    def _before(self, position: Position) -> Position:
        """Return the position before one that was read."""
        if entry_of(position) > 0:
            return position - 1
        index = bisect_left(self._ledger_ends, position)
        return self._ledger_ends[index - 1] if index else position - 1


def format_ranges(ranges: list[tuple[Position, Position]]) -> str:
    """Return ranges as PIP-282 prints them, such as ``[(3:4, 3:5], (3:7, 3:10]]``."""
    return "[" + ", ".join(f"({format_position(lower)}, {format_position(upper)}]" for lower, upper in ranges) + "]"
