"""Consistent hashing: the default selector, equal to the broker's ring point for point.

Problem: a join or a leave should move few keys, and operators compare our ranges with the broker's. Rule kept: the
same workers give the same ring as in the broker, name for name. Worker `name` with index n among its namesakes gets
`points_per_worker` points, each the slot of the bytes ``name NUL n NUL i``. A slot belongs to the owner of the
smallest point at or above it, wrapping round to the smallest point of all.

Where two workers have the same point the first keeps it and later ones queue behind it, first in first out; no worker
is replaced while present. So the ring does not depend on the order of joins except at colliding points.

The name's index is the lowest free one, so a worker that leaves and returns gets its old points back.

Layout: points in a sorted array and the numbers of their owners in a parallel one, which has one element more, a
repetition of its first: a slot above the last point bisects to that element, so a lookup needs no branch, and the
owners of an empty ring are ``[0]``, number 0 meaning no owner. Two bytes each, so that the ring of 1,000 workers stays
in a processor's cache; a worker's own points and those that wait are kept so, too. A join or leave goes once through
the worker's points and copies what lies between; why not insert one by one: that moves the whole ring's memory for each
point. A busy ring writes its owners out slot by slot (`owner_table`), because bisecting 10,000 points misses the
budget.

Moves are read off on the way: only pieces of the worker change hands, and the ring without it says who is on the other
side.

Source: facts 2.2; apache/pulsar 23441 and 23447 (collisions), 23315 (reporting).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from proxy.core.hash_ranges import HashRange, RangeMove, merge, merge_assignment, merge_moves
from proxy.core.selectors.base import Named
from proxy.core.selectors.owner_table import OwnerTable
from proxy.core.sticky_key import CONSISTENT_SLOT_COUNT, consistent_slot, murmur31

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

W = TypeVar("W", bound=Named)

DEFAULT_POINTS_PER_WORKER: Final = 100
"""The broker's subscriptionKeySharedConsistentHashingReplicaPoints."""

LOOKUPS_BEFORE_TABLE: Final = 8_192
"""Lookups by bisection before the owners are written out: together they cost about what the writing does."""

NO_OWNER: Final = 0
NUMBER_MAX: Final = 65_535
"""Numbers of workers fit 16 bits."""

FIRST_SLOT: Final = 1
LAST_SLOT: Final = CONSISTENT_SLOT_COUNT


class ConsistentHashing(Generic[W]):
    """The ring of the broker's ConsistentHashingStickyKeyConsumerSelector."""

    def __init__(
        self, points_per_worker: int = DEFAULT_POINTS_PER_WORKER, slot: Callable[[int], int] = consistent_slot
    ) -> None:
        """Start with no workers.

        `slot` gives a key's slot from its hash, 1..65535. A group's subscription takes `range_slot`, in whose space
        streams are cut. The points of workers, and so their ranges, are the broker's all the same.
        """
        assert points_per_worker >= 1
        self.range_size = CONSISTENT_SLOT_COUNT
        self.slot = slot
        self._points_per_worker = points_per_worker
        self._points = array("H")
        self._owners = array("H", [NO_OWNER])
        self._workers: list[W | None] = [None]
        """Number -> worker."""
        self._free: list[int] = []
        """Numbers below the length of that list that no worker has."""
        self._queued_points = array("H")
        self._queued = array("H")
        """Colliding points in ascending order, and the number of a worker that waits for each, first in first out: with
        1,000 workers half of all points collide."""
        self._members: dict[int, tuple[int, int, array[int]]] = {}
        """id(worker) -> (its number, index among its namesakes, its points in ascending order)."""
        self._indexes: dict[str, int] = {}
        """Name -> a bit for each index in use."""
        self._table: OwnerTable[W] | None = None
        self._lookups_until_table = LOOKUPS_BEFORE_TABLE

    def add(self, worker: W) -> list[RangeMove[W]]:
        """Put the worker's points on the ring; see `Selector.add`. A worker joins at most once."""
        assert id(worker) not in self._members, f"worker {worker.name} joined twice"
        index = self._take_index(worker.name)
        number = self._take_number(worker)
        wanted = ring_points(worker.name, index, self._points_per_worker)
        self._members[id(worker)] = (number, index, wanted)
        before, owners = self._points, self._owners
        points, new_owners = array("H"), array("H")
        moves: list[RangeMove[W]] = []
        copied = 0
        for point in wanted:
            at = bisect_left(before, point, copied)
            points += before[copied:at]
            new_owners += owners[copied:at]
            copied = at
            if at < len(before) and before[at] == point:
                behind = bisect_right(self._queued_points, point)
                self._queued_points.insert(behind, point)
                self._queued.insert(behind, number)
                continue
            start = points[-1] + 1 if points else FIRST_SLOT
            moves.append(RangeMove(start, point, self._workers[owners[at]], worker))
            points.append(point)
            new_owners.append(number)
        points += before[copied:]
        new_owners += owners[copied:-1]
        if new_owners[0] == number and points[-1] < LAST_SLOT:
            moves.append(RangeMove(points[-1] + 1, LAST_SLOT, self._workers[owners[-1]], worker))
        new_owners.append(new_owners[0])
        self._points, self._owners = points, new_owners
        return self._told(moves)

    def remove(self, worker: W) -> list[RangeMove[W]]:
        """Take the worker's points off the ring; see `Selector.remove`."""
        member = self._members.pop(id(worker), None)
        if member is None:
            return []
        number, index, held = member
        self._release_index(worker.name, index)
        before, owners = self._points, self._owners
        pieces: list[tuple[int, int]] = []
        points, new_owners = array("H"), array("H")
        copied = 0
        for point in held:
            at = bisect_left(before, point, copied)
            assert before[at] == point, "a member's point is on the ring"
            points += before[copied:at]
            new_owners += owners[copied:at]
            copied = at + 1
            owner = owners[at]
            if owner == number:
                pieces.append((before[at - 1] + 1 if at else FIRST_SLOT, point))
                owner = NO_OWNER
            owner = self._next_in_queue(point, owner, number)
            if owner:
                points.append(point)
                new_owners.append(owner)
        if owners[0] == number and before[-1] < LAST_SLOT:
            pieces.append((before[-1] + 1, LAST_SLOT))
        points += before[copied:]
        new_owners += owners[copied:-1]
        new_owners.append(new_owners[0] if new_owners else NO_OWNER)
        self._points, self._owners = points, new_owners
        if self._members:
            self._workers[number] = None
            self._free.append(number)
        else:
            self._workers, self._free = [None], []
        moves = self._told([RangeMove(start, end, worker, self._owner_on_ring(end)) for start, end in pieces])
        if self._table:
            self._table.forget(worker)
        return moves

    def select(self, slot: int) -> W | None:
        """Return the owner of the smallest point at or above the slot, else of the smallest point."""
        table = self._table
        if table is not None:
            return table.workers[table.indexes[slot]]
        self._lookups_until_table -= 1
        if not self._lookups_until_table:
            self._table = OwnerTable((*self._points, LAST_SLOT), map(self._workers.__getitem__, self._owners))
        return self._owner_on_ring(slot)

    def select_each(self, slots: Iterable[int]) -> Iterator[W | None]:
        """See `Selector.select_each`."""
        table = self._table
        if table is None:
            return map(self.select, slots)
        return map(table.workers.__getitem__, map(table.indexes.__getitem__, slots))

    def ranges(self, worker: W) -> list[HashRange]:
        """See `Selector.ranges`. The tail above the last point is a range of its own, ending at 65535."""
        member = self._members.get(id(worker))
        return merge(self._pieces(member[0], member[2])) if member else []

    def assignment(self) -> list[tuple[HashRange, W]]:
        """See `Selector.assignment`."""
        return merge_assignment(self._all_pieces())

    def copy(self) -> ConsistentHashing[W]:
        """See `Selector.copy`. The copy finds owners by bisection until it is asked often itself."""
        twin: ConsistentHashing[W] = ConsistentHashing(self._points_per_worker, self.slot)
        twin._points = self._points[:]
        twin._owners = self._owners[:]
        twin._workers = self._workers.copy()
        twin._free = self._free.copy()
        twin._queued_points = self._queued_points[:]
        twin._queued = self._queued[:]
        twin._members = self._members.copy()
        twin._indexes = self._indexes.copy()
        return twin

    def _owner_on_ring(self, slot: int) -> W | None:
        return self._workers[self._owners[bisect_left(self._points, slot)]]

    def _told(self, moves: Iterable[RangeMove[W]]) -> list[RangeMove[W]]:
        """What a join or leave returns, applied to the table."""
        merged = merge_moves(moves)
        if self._table:
            self._table.apply(merged)
        return merged

    def _take_number(self, worker: W) -> int:
        if self._free:
            number = self._free.pop()
            self._workers[number] = worker
            return number
        assert len(self._workers) <= NUMBER_MAX, "more workers than the ring can name"
        self._workers.append(worker)
        return len(self._workers) - 1

    def _take_index(self, name: str) -> int:
        """Give the lowest index no namesake uses."""
        used = self._indexes.get(name, 0)
        lowest = ~used & (used + 1)
        self._indexes[name] = used | lowest
        return lowest.bit_length() - 1

    def _release_index(self, name: str, index: int) -> None:
        self._indexes[name] &= ~(1 << index)
        if not self._indexes[name]:
            del self._indexes[name]

    def _next_in_queue(self, point: int, owner: int, leaving: int) -> int:
        """The next owner of a point when its owner or a waiting worker leaves; `owner` is another owner, or none."""
        at = bisect_left(self._queued_points, point)
        if at == len(self._queued_points) or self._queued_points[at] != point:
            return owner
        if owner:
            at = self._queued.index(leaving, at)
        else:
            owner = self._queued[at]
        self._queued_points.pop(at)
        self._queued.pop(at)
        return owner

    def _pieces(self, number: int, points: array[int]) -> Iterator[HashRange]:
        """Yield the slots of a worker with these points, one range per point it owns, then the tail if it has that."""
        for point in points:
            at = bisect_left(self._points, point)
            if self._owners[at] == number:
                yield HashRange(self._points[at - 1] + 1 if at else FIRST_SLOT, point)
        if self._owners[0] == number and self._points[-1] < LAST_SLOT:
            yield HashRange(self._points[-1] + 1, LAST_SLOT)

    def _all_pieces(self) -> Iterator[tuple[HashRange, W]]:
        """Yield every range between two points with its owner, then the tail."""
        start = FIRST_SLOT
        for point, number in zip((*self._points, LAST_SLOT), self._owners, strict=True):
            owner = self._workers[number]
            if owner is not None and start <= point:
                yield HashRange(start, point), owner
            start = point + 1


def ring_points(name: str, index: int, point_count: int) -> array[int]:
    """Return the points of a worker in ascending order, each once.

    A worker whose own points collide needs them once: the broker queues it behind itself, which no lookup can see.
    """
    prefix = f"{name}\0{index}\0"
    points = {consistent_slot(murmur31(f"{prefix}{number}".encode())) for number in range(point_count)}
    return array("H", sorted(points))
