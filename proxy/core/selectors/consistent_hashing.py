"""Consistent hashing: the default selector, equal to the broker's ring point for point.

Problem: a join or a leave should move few keys, and operators compare our ranges with the broker's. Rule kept: the
same workers give the same ring as in the broker, name for name. Worker `name` with index n among its namesakes gets
`points_per_worker` points, each the slot of the bytes ``name NUL n NUL i``. A slot belongs to the owner of the
smallest point at or above it, wrapping round to the smallest point of all.

Where two workers have the same point the first keeps it and later ones queue behind it, first in first out; nobody is
replaced while present. So the ring does not depend on the order of joins except at colliding points.

The name's index is the lowest free one, so a worker that leaves and returns gets its old points back.

Layout: points in a sorted list and owners in a parallel one, which has one element more, a repetition of its first:
a slot above the last point bisects to that element, so a lookup needs no branch, and an empty ring is the owner list
``[None]``. A join inserts its points in place, which moves memory, not objects; why not `sortedcontainers`: it makes
joins of hundreds of workers cheaper, which are cheap, and lookups dearer, which outnumber them by millions. A busy
ring writes its owners out slot by slot (`owner_table`), because bisecting 10,000 points misses the budget.

Moves are read off the ring that contains the worker: its own pieces are all that can change hands, and the ring
without it says who is on the other side.

Source: facts 2.2; apache/pulsar 23441 and 23447 (collisions), 23315 (reporting).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Generic, TypeVar

from proxy.core.hash_ranges import HashRange, RangeMove, merge, merge_assignment, merge_moves
from proxy.core.selectors.base import Named
from proxy.core.selectors.owner_table import OwnerTable
from proxy.core.sticky_key import CONSISTENT_SLOT_COUNT, consistent_slot, murmur31

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

W = TypeVar("W", bound=Named)

DEFAULT_POINTS_PER_WORKER = 100
"""The broker's subscriptionKeySharedConsistentHashingReplicaPoints."""

LOOKUPS_BEFORE_TABLE = 8_192
"""Lookups by bisection before the owners are written out: together they cost about what the writing does."""

FIRST_SLOT = 1
LAST_SLOT = CONSISTENT_SLOT_COUNT


class ConsistentHashing(Generic[W]):
    """The ring of the broker's ConsistentHashingStickyKeyConsumerSelector."""

    range_size = CONSISTENT_SLOT_COUNT

    def __init__(
        self, points_per_worker: int = DEFAULT_POINTS_PER_WORKER, slot: Callable[[int], int] = consistent_slot
    ) -> None:
        """Start with no workers.

        `slot` gives a key's slot from its hash, 1..65535. A group's subscription takes `range_slot`, in whose space
        streams are cut. The points of workers, and so their ranges, are the broker's all the same.
        """
        assert points_per_worker >= 1
        self.slot = slot
        self._points_per_worker = points_per_worker
        self._points: list[int] = []
        self._owners: list[W | None] = [None]
        self._queues: dict[int, list[W]] = {}
        """Colliding point -> workers waiting for it, first in first out."""
        self._members: dict[int, tuple[W, int, list[int]]] = {}
        """id(worker) -> (worker, index among its namesakes, its points in ascending order)."""
        self._indexes: dict[str, set[int]] = {}
        """Name -> indexes in use."""
        self._table: OwnerTable[W] | None = None
        self._lookups_until_table = LOOKUPS_BEFORE_TABLE

    def add(self, worker: W) -> list[RangeMove[W]]:
        """Put the worker's points on the ring. Never refused; see `Selector.add`."""
        assert id(worker) not in self._members, f"worker {worker.name} joined twice"
        index = self._take_index(worker.name)
        points = ring_points(worker.name, index, self._points_per_worker)
        self._members[id(worker)] = (worker, index, points)
        previous = {slot: self._owner_on_ring(slot) for slot in (*points, LAST_SLOT)}
        for point in points:
            self._insert(point, worker)
        self._owners[-1] = self._owners[0]
        moves = merge_moves(RangeMove(start, end, previous[end], worker) for start, end in self._pieces(worker, points))
        if self._table:
            self._table.apply(moves)
        return moves

    def remove(self, worker: W) -> list[RangeMove[W]]:
        """Take the worker's points off the ring; see `Selector.remove`."""
        member = self._members.pop(id(worker), None)
        if member is None:
            return []
        _, index, points = member
        pieces = list(self._pieces(worker, points))
        self._release_index(worker.name, index)
        for point in points:
            self._withdraw(point, worker)
        self._owners[-1] = self._owners[0] if self._points else None
        moves = merge_moves(RangeMove(start, end, worker, self._owner_on_ring(end)) for start, end in pieces)
        if self._table:
            self._table.apply(moves)
            self._table.forget(worker)
        return moves

    def select(self, slot: int) -> W | None:
        """Return the owner of the smallest point at or above the slot, else of the smallest point."""
        table = self._table
        if table is not None:
            return table.workers[table.indexes[slot]]
        self._lookups_until_table -= 1
        if not self._lookups_until_table:
            self._table = OwnerTable((*self._points, LAST_SLOT), self._owners)
        return self._owner_on_ring(slot)

    def ranges(self, worker: W) -> list[HashRange]:
        """See `Selector.ranges`. The tail above the last point is a range of its own, ending at 65535."""
        member = self._members.get(id(worker))
        return merge(self._pieces(worker, member[2])) if member else []

    def assignment(self) -> list[tuple[HashRange, W]]:
        """See `Selector.assignment`."""
        return merge_assignment(self._all_pieces())

    def copy(self) -> ConsistentHashing[W]:
        """See `Selector.copy`. The copy finds owners by bisection until it is asked often itself."""
        twin: ConsistentHashing[W] = ConsistentHashing(self._points_per_worker, self.slot)
        twin._points = self._points.copy()
        twin._owners = self._owners.copy()
        twin._queues = {point: queue.copy() for point, queue in self._queues.items()}
        twin._members = self._members.copy()
        twin._indexes = {name: indexes.copy() for name, indexes in self._indexes.items()}
        return twin

    def _owner_on_ring(self, slot: int) -> W | None:
        return self._owners[bisect_left(self._points, slot)]

    def _take_index(self, name: str) -> int:
        """Give the lowest index no namesake uses."""
        used = self._indexes.setdefault(name, set())
        index = 0
        while index in used:
            index += 1
        used.add(index)
        return index

    def _release_index(self, name: str, index: int) -> None:
        used = self._indexes[name]
        used.remove(index)
        if not used:
            del self._indexes[name]

    def _insert(self, point: int, worker: W) -> None:
        """Own a point, or queue for it if another worker has it."""
        at = bisect_left(self._points, point)
        if at < len(self._points) and self._points[at] == point:
            self._queues.setdefault(point, []).append(worker)
        else:
            self._points.insert(at, point)
            self._owners.insert(at, worker)

    def _withdraw(self, point: int, worker: W) -> None:
        """Give a point to the first in its queue, or delete it; or leave its queue."""
        at = bisect_left(self._points, point)
        assert self._points[at] == point, "a member's point is on the ring"
        waiting = [other for other in self._queues.pop(point, ()) if other is not worker]
        if self._owners[at] is worker:
            if not waiting:
                del self._points[at]
                del self._owners[at]
                return
            self._owners[at] = waiting.pop(0)
        if waiting:
            self._queues[point] = waiting

    def _pieces(self, worker: W, points: list[int]) -> Iterator[HashRange]:
        """Yield the slots of a worker with these points, one range per point it owns, then the tail if it has that."""
        for point in points:
            at = bisect_left(self._points, point)
            if self._owners[at] is worker:
                yield HashRange(self._points[at - 1] + 1 if at else FIRST_SLOT, point)
        if self._owners[0] is worker and self._points[-1] < LAST_SLOT:
            yield HashRange(self._points[-1] + 1, LAST_SLOT)

    def _all_pieces(self) -> Iterator[tuple[HashRange, W]]:
        """Yield every range between two points with its owner, then the tail."""
        start = FIRST_SLOT
        for point, owner in zip((*self._points, LAST_SLOT), self._owners, strict=True):
            if owner is not None and start <= point:
                yield HashRange(start, point), owner
            start = point + 1


def ring_points(name: str, index: int, point_count: int) -> list[int]:
    """Return the points of a worker in ascending order, each once.

    A worker whose own points collide needs them once: the broker queues it behind itself, which no lookup can see.
    """
    prefix = f"{name}\0{index}\0"
    return sorted({consistent_slot(murmur31(f"{prefix}{number}".encode())) for number in range(point_count)})
