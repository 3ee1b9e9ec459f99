"""Which hash slots drain, since when: PIP-379's stats, derived and not registered.

Whether a message may go out never asks this table; the dispatcher compares a slot's holder with its owner. The table
records the moments a slot entered and left that state, so that the stats and hand-over times can be told. Nothing can
hang on an entry here: the reference that a hash's return left behind in the broker (apache/pulsar issue 23845) has no
counterpart.

Memory: two bytes a slot once many drain, for the change that began it; the changes themselves are few. With the
holder's table that makes 8 bytes a slot, 0.5 MB for all 65,536, a tenth of PIP-379's 5 MB.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SLOT_COUNT: Final = 65_537
"""Slots 0 to 65,536: the auto-split selector's first range ends there."""
SPARSE_MAX: Final = 1_024
"""Draining slots up to which a dict (about 90 bytes a slot) is smaller than the array (131 KB)."""
CHANGES_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Change:
    """A membership change, the cause of a drain."""

    at: float
    worker: str
    """Who joined or left."""
    joined: bool


class DrainingHashes:
    """The slots that drain, each with the membership change that began it."""

    __slots__ = ("_by_slot", "_changes", "_free", "_population", "_sparse", "count")

    def __init__(self) -> None:
        """None drains."""
        self._sparse: dict[int, int] | None = {}
        self._by_slot: array[int] | None = None
        self._changes: dict[int, Change] = {}
        self._population: dict[int, int] = {}
        self._free = 0
        self.count = 0
        """How many slots drain; to be read where a call for it would cost."""

    def __len__(self) -> int:
        """How many slots drain."""
        return self.count

    def __bool__(self) -> bool:
        """Whether a slot drains."""
        return self.count > 0

    def __contains__(self, slot: int) -> bool:
        """Whether the slot drains."""
        return self._change_of(slot) != 0

    def new_change(self, change: Change) -> int:
        """A membership change begins; its number is passed to `begin` for each slot that it moved."""
        for _ in range(CHANGES_MAX):
            self._free = self._free % CHANGES_MAX + 1
            if self._free not in self._population:
                break
        self._changes[self._free] = change
        return self._free

    def end_of_change(self, change: int) -> None:
        """All slots of the change were begun; a change that moved nothing in flight is forgotten."""
        if change not in self._population:
            self._changes.pop(change, None)

    def begin(self, slots: Sequence[int], change: int) -> int:
        """These slots begin to drain; returns how many did not already (a slot's first change counts)."""
        table: array[int] | dict[int, int]
        if self._by_slot is not None:
            table = self._by_slot
            fresh = [slot for slot in slots if not table[slot]]
        else:
            assert self._sparse is not None
            sparse = self._sparse
            fresh = [slot for slot in slots if slot not in sparse]
            table = self._to_array(sparse) if len(sparse) + len(fresh) > SPARSE_MAX else sparse
        for slot in fresh:
            table[slot] = change
        if fresh:
            self._population[change] = self._population.get(change, 0) + len(fresh)
            self.count += len(fresh)
        return len(fresh)

    def end(self, slot: int) -> Change | None:
        """The slot drains no more; returns the change that began it, None if it did not drain."""
        change = self._change_of(slot)
        if not change:
            return None
        if self._by_slot is not None:
            self._by_slot[slot] = 0
        elif self._sparse is not None:
            del self._sparse[slot]
        began = self._changes[change]
        self.count -= 1
        self._population[change] -= 1
        if not self._population[change]:
            del self._population[change]
            del self._changes[change]
        if not self._population:
            self._by_slot, self._sparse = None, {}
        return began

    def since(self, slot: int) -> float | None:
        """When the slot began to drain, None if it does not."""
        change = self._change_of(slot)
        return self._changes[change].at if change else None

    def slots(self) -> Iterator[int]:
        """Every draining slot, ascending."""
        if self._by_slot is not None:
            return compress(range(SLOT_COUNT), self._by_slot)
        return iter(sorted(self._sparse or ()))

    def memory_bytes(self) -> int:
        """Bytes the table takes, the changes aside."""
        return 2 * SLOT_COUNT if self._by_slot is not None else 90 * len(self._sparse or ())

    def _change_of(self, slot: int) -> int:
        if self._by_slot is not None:
            return self._by_slot[slot]
        return self._sparse.get(slot, 0) if self._sparse is not None else 0

    def _to_array(self, sparse: dict[int, int]) -> array[int]:
        table = array("H", bytes(2 * SLOT_COUNT))
        for slot, change in sparse.items():
            table[slot] = change
        self._by_slot, self._sparse = table, None
        return table
