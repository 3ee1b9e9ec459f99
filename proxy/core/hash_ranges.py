"""Ranges of hash slots, and what changes hands when workers join and leave.

Problem: after a join or a leave the dispatcher must look at the slots whose owner changed and at no others (design,
section 3), and stats must show ranges as the broker does. Rule kept: a list of moves covers exactly the slots whose
owner changed, sorted, and neighbouring pieces with the same owners before and after are one move.

Why not the broker's way (per worker, merged removed ranges and then added ranges, PIP-379 and apache/pulsar 24736):
two lists must then be applied in the right order, and getting that wrong is how issue 23845 came about. A move says
both sides at once and can be applied in any order.

Ranges and moves are named tuples, so that they unpack, sort and turn into JSON as the broker's ``[start, end]``.
Bounds are inclusive on both sides. Owners are compared by identity: two workers may share a name.

Source: facts 2.5 (snapshots and diffs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

W = TypeVar("W")


class HashRange(NamedTuple):
    """Slots from `start` to `end`, both inclusive."""

    start: int
    end: int

    @property
    def slot_count(self) -> int:
        """How many slots the range holds."""
        return self.end - self.start + 1

    def overlaps(self, other: HashRange) -> bool:
        """Tell whether some slot is in both ranges."""
        return self.start <= other.end and other.start <= self.end

    def __str__(self) -> str:
        """Return ``[start, end]``."""
        return f"[{self.start}, {self.end}]"


class RangeMove(NamedTuple, Generic[W]):
    """Slots from `start` to `end`, both inclusive, went from one owner to another; None is no owner."""

    start: int
    end: int
    before: W | None
    after: W | None


Assignment: TypeAlias = list[tuple[HashRange, W]]
"""Who owns what: sorted, without overlaps; slots that are not listed have no owner."""


def merge(ranges: Iterable[HashRange]) -> list[HashRange]:
    """Join adjacent and overlapping ranges. `ranges` must be sorted."""
    merged: list[HashRange] = []
    for start, end in ranges:
        if merged and start <= merged[-1].end + 1:
            last = merged[-1]
            assert start >= last.start, "ranges must be sorted"
            merged[-1] = HashRange(last.start, max(last.end, end))
        else:
            merged.append(HashRange(start, end))
    return merged


def merge_assignment(pieces: Iterable[tuple[HashRange, W]]) -> Assignment[W]:
    """Join adjacent ranges of the same owner. `pieces` must be sorted and free of overlaps."""
    merged: Assignment[W] = []
    for piece, owner in pieces:
        if merged and merged[-1][1] is owner and merged[-1][0].end + 1 == piece.start:
            merged[-1] = (HashRange(merged[-1][0].start, piece.end), owner)
        else:
            merged.append((piece, owner))
    return merged


def merge_moves(moves: Iterable[RangeMove[W]]) -> list[RangeMove[W]]:
    """Drop moves that change nothing and join adjacent ones with the same owners. `moves` must be sorted."""
    merged: list[RangeMove[W]] = []
    for move in moves:
        if move.before is move.after:
            continue
        last = merged[-1] if merged else None
        if last and last.end + 1 == move.start and last.before is move.before and last.after is move.after:
            merged[-1] = RangeMove(last.start, move.end, move.before, move.after)
        else:
            merged.append(move)
    return merged


def diff(before: Sequence[tuple[HashRange, W]], after: Sequence[tuple[HashRange, W]]) -> list[RangeMove[W]]:
    """Return the moves that lead from one assignment to the other.

    Both must be sorted and free of overlaps; they may have holes and need not cover the same slots.
    Cost: linear in the number of ranges of both.
    """
    edges = sorted({edge for pieces in (before, after) for (start, end), _ in pieces for edge in (start, end + 1)})
    owners_before = _owners_from(before, edges)
    owners_after = _owners_from(after, edges)
    return merge_moves(
        RangeMove(start, edges[index + 1] - 1, owners_before[index], owners_after[index])
        for index, start in enumerate(edges[:-1])
    )


def _owners_from(pieces: Sequence[tuple[HashRange, W]], edges: Sequence[int]) -> list[W | None]:
    """Return, for each edge, who owns the slots from it up to the next edge."""
    owners: list[W | None] = []
    at = 0
    for edge in edges:
        while at < len(pieces) and pieces[at][0].end < edge:
            at += 1
        covered = at < len(pieces) and pieces[at][0].start <= edge
        owners.append(pieces[at][1] if covered else None)
    return owners
