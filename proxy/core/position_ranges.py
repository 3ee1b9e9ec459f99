"""A compact set of positions: closed ranges of packed integers.

Problem: when the broker restarts it may have forgotten acknowledgements and deliver those entries again; the gateway
must know for hours of traffic that they were acknowledged (guarantee G4). Rule kept: a member is a position that was
added and neither removed nor forgotten; membership is never claimed wrongly. Memory is bounded: above `max_ranges`
the lowest ranges are forgotten and counted, because a forgotten position costs at most a duplicate, while a refused
one would cost the newest, likeliest redelivery. They are forgotten a 64th of the bound at a time: taking the first
element off a list of 50,000 shifts all others, which one by one would cost more than everything else here.

Why ranges and not a `set`: acknowledgements fill up behind the slowest worker, so a million of them is a few hundred
ranges, and the set would be 60 MB. Why not a bitmap per ledger, as the broker's cursor has: it is smaller only when
most positions are isolated, and needs the same sorted list of ledgers on top.

Positions of different ledgers never join into one range: between them lies 4:-1, which no entry has.

Source: design, guarantee G4; positions as packed by `proxy.core.positions`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.core.positions import Position

_FORGOTTEN_SHARE: Final = 64
"""Divisor: this part of `max_ranges` is forgotten at a time."""


class PositionRanges:
    """A set of positions.

    Cost: `add` constant at or above the highest range, else a bisection and at worst one shift of the range list;
    `in` a bisection.
    """

    __slots__ = ("_ends", "_starts", "max_ranges")

    def __init__(self, max_ranges: int) -> None:
        """Start empty, to hold at most `max_ranges` ranges."""
        assert max_ranges >= 1, max_ranges
        self.max_ranges = max_ranges
        self._starts: list[Position] = []
        self._ends: list[Position] = []

    def add(self, position: Position) -> None:
        """Make a position a member; adding it again changes nothing."""
        ends = self._ends
        if ends:
            gap = position - ends[-1]
            if gap == 1:
                ends[-1] = position
                return
            if gap <= 0:
                self._add_below(position)
                return
        ends.append(position)
        self._starts.append(position)
        if len(ends) > self.max_ranges:
            self._forget_lowest()

    def add_each(self, positions: Iterable[Position]) -> None:
        """Make these members; ascending, most cost no call."""
        ends = self._ends
        for position in positions:
            if ends and position == ends[-1] + 1:
                ends[-1] = position
            else:
                self.add(position)

    def __contains__(self, position: Position) -> bool:
        """Tell whether a position is a member."""
        index = bisect_left(self._ends, position)
        return index < len(self._ends) and self._starts[index] <= position

    def last_below(self, position: Position) -> Position | None:
        """Return the highest member below a position; None without any."""
        index = bisect_left(self._starts, position)
        return min(self._ends[index - 1], position - 1) if index else None

    def update(self, others: PositionRanges) -> None:
        """Make all members of another set members. Cost: linear in the ranges of both."""
        ranges = sorted([*self, *others])
        self.clear()
        for start, end in ranges:
            if self._ends and start <= self._ends[-1] + 1:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)
        while len(self._ends) > self.max_ranges:
            self._forget_lowest()

    def clear(self) -> None:
        """Drop every member."""
        self._starts.clear()
        self._ends.clear()

    def __len__(self) -> int:
        """Return how many ranges there are."""
        return len(self._ends)

    def __bool__(self) -> bool:
        """Tell whether there is a range."""
        return bool(self._ends)

    def __iter__(self) -> Iterator[tuple[Position, Position]]:
        """Yield the ranges, each (first, last), both inclusive, ascending."""
        return zip(self._starts, self._ends, strict=True)

    def _add_below(self, position: Position) -> None:
        """Add a position that is not above the highest range."""
        starts, ends = self._starts, self._ends
        above = bisect_right(starts, position)
        joins_lower = above > 0 and ends[above - 1] >= position - 1
        if joins_lower and ends[above - 1] >= position:
            return
        joins_upper = above < len(starts) and starts[above] == position + 1
        if joins_lower and joins_upper:
            ends[above - 1] = ends[above]
            del starts[above]
            del ends[above]
        elif joins_lower:
            ends[above - 1] = position
        elif joins_upper:
            starts[above] = position
        else:
            starts.insert(above, position)
            ends.insert(above, position)
            if len(ends) > self.max_ranges:
                self._forget_lowest()

    def _forget_lowest(self) -> None:
        range_count = max(1, self.max_ranges // _FORGOTTEN_SHARE)
        del self._starts[:range_count]
        del self._ends[:range_count]
