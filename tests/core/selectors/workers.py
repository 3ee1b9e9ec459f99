"""Workers for the selectors' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.hash_ranges import HashRange, RangeMove


class FakeWorker:
    """A name and wanted ranges; equal to every other worker, so that only identity tells them apart."""

    def __init__(self, name: str, sticky_ranges: Sequence[tuple[int, int]] = ()) -> None:
        """Give it a name others may have too."""
        self.name = name
        self.sticky_ranges = sticky_ranges

    def __eq__(self, other: object) -> bool:
        """Lie: a selector that compares with == mixes workers up."""
        return isinstance(other, FakeWorker)

    __hash__ = None  # type: ignore[assignment]  # nor may a selector rely on hashing

    def __repr__(self) -> str:
        """Show the name in failures."""
        return self.name


class Assigned(Protocol):
    """What has an assignment."""

    def assignment(self) -> list[tuple[HashRange, FakeWorker]]:
        """Return it."""


Owners = dict[int, FakeWorker]


def owners_by_slot(selector: Assigned) -> Owners:
    """Return the owner of every slot that has one."""
    owners: Owners = {}
    for (start, end), owner in selector.assignment():
        owners.update(dict.fromkeys(range(start, end + 1), owner))
    return owners


def same_owners(left: Owners, right: Owners) -> bool:
    """Compare by identity."""
    return left.keys() == right.keys() and all(left[slot] is right[slot] for slot in left)


def changed_slots(before: Owners, after: Owners) -> dict[int, tuple[int, int]]:
    """Return slot -> (id of the owner before, id of the owner after) where they differ."""
    return {
        slot: (id(earlier), id(later))
        for slot in before.keys() | after.keys()
        if (earlier := before.get(slot)) is not (later := after.get(slot))
    }


def moved_slots(moves: Iterable[RangeMove[FakeWorker]]) -> dict[int, tuple[int, int]]:
    """Return the same as `changed_slots`, from moves, and check that they are sorted and merged."""
    listed: dict[int, tuple[int, int]] = {}
    last: RangeMove[FakeWorker] | None = None
    for move in moves:
        assert move.start <= move.end
        if last is not None:
            assert last.end < move.start, "moves are sorted and do not overlap"
            same = last.before is move.before and last.after is move.after
            assert not (same and last.end + 1 == move.start), "neighbours are merged"
        last = move
        listed.update(dict.fromkeys(range(move.start, move.end + 1), (id(move.before), id(move.after))))
    return listed


def share(ranges: list[HashRange]) -> int:
    """Return how many slots the ranges hold."""
    return sum(piece.slot_count for piece in ranges)
