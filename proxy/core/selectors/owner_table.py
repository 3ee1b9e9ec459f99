"""The owner of every slot, written out.

Problem: the consistent hashing ring is asked for an owner once per message, and a bisection over the 10,000 points of
100 workers costs 360 ns, most of it waiting for memory. Rule kept: the table says for every slot what the ring says;
it is derived, changed only by the ring's own moves, and may be thrown away at any time.

Why not always: it is 131 KB, and a gateway may carry thousands of quiet subscriptions. So the ring makes one when it
has been asked often enough to repay the making. Why not a dictionary of the slots seen: it ends up forty times larger
than two bytes a slot, and must be emptied on every join.

Source: none, specific to Keyline; design, section 3 (numbers to hold).
"""

from __future__ import annotations

from array import array
from sys import byteorder
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.hash_ranges import RangeMove

W = TypeVar("W")

NO_OWNER: Final = 0

_INDEX_BYTES: Final = 2


class OwnerTable(Generic[W]):
    """Slot -> worker, as an array of small worker indexes.

    `workers[indexes[slot]]` is the owner; both are read directly where a call would cost as much as the lookup.
    """

    __slots__ = ("_free", "_index_by_id", "indexes", "workers")

    def __init__(self, upper_bounds: Iterable[int], owners: Iterable[W | None]) -> None:
        """Write out who owns the slots up to each bound, above the bound before it; the first range starts at slot 0.

        Cost: 5 ms for the 10,000 points of 100 workers, hence bytes and no ranges as objects.
        """
        self.workers: list[W | None] = [None]
        self._index_by_id: dict[int, int] = {}
        self._free: list[int] = []
        runs: list[bytes] = []
        first = 0
        for upper_bound, owner in zip(upper_bounds, owners, strict=True):
            index = NO_OWNER if owner is None else self._index(owner)
            runs.append(index.to_bytes(_INDEX_BYTES, byteorder) * (upper_bound + 1 - first))
            first = upper_bound + 1
        self.indexes = array("H", b"".join(runs))

    def apply(self, moves: Iterable[RangeMove[W]]) -> None:
        """Follow a join or a leave."""
        for start, end, _, after in moves:
            index = NO_OWNER if after is None else self._index(after)
            self.indexes[start : end + 1] = array("H", (index,)) * (end - start + 1)

    def forget(self, worker: W) -> None:
        """Drop a worker that owns nothing any more, so that its index can serve another."""
        index = self._index_by_id.pop(id(worker), NO_OWNER)
        if index != NO_OWNER:
            self.workers[index] = None
            self._free.append(index)

    def _index(self, worker: W) -> int:
        """Return the worker's index, giving it one on first sight."""
        index = self._index_by_id.get(id(worker), NO_OWNER)
        if index == NO_OWNER:
            if self._free:
                index = self._free.pop()
                self.workers[index] = worker
            else:
                index = len(self.workers)
                self.workers.append(worker)
            self._index_by_id[id(worker)] = index
        return index
