"""Which worker holds the unacknowledged messages of each hash slot, and how many there are.

Problem: the contract of PIP-379 is that a key's unacknowledged messages are at one worker only, so for every message
the core asks who holds its slot, and for every acknowledgement whether the slot is free now. Rule kept: a slot with
something in flight has exactly one holder; at count zero it has none. Whether a slot drains is not stored: it does
exactly while its holder is not its owner, so no reference count can go stale (apache/pulsar 23845).

Why not one object per slot (PIP-379 counts 80 bytes each, 5 MB for all): a holder is a small worker index and a count
fits 32 bits, so two arrays of 6 bytes a slot hold the whole space in 393 KB. Why not the arrays always: most
subscriptions are quiet, and a gateway may carry thousands of them. So a table starts as a dictionary, turns into
arrays when that has become the smaller form, and back when nothing is in flight.

Messages of one slot may be at several workers when delivery is allowed out of order; that mode does not use this table.

Source: PIP-379, high level design 1 to 4 and its note on memory; design, section 3.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SLOT_COUNT: Final = 65_537
"""Slots 0..65536: both spaces of facts 1.2, and the upper bound the broker shows for auto-split ranges."""
NO_HOLDER: Final = 0
MAX_HOLDER: Final = 65_535
"""Worker indexes fit 16 bits; 0 means no worker."""

DENSE_THRESHOLD: Final = 4_096
"""Slots in flight above which arrays are used: a dictionary of this size takes 377 KB, and 600 KB soon after."""

_HOLDER_BITS: Final = 16
_HOLDER_MASK: Final = (1 << _HOLDER_BITS) - 1
_ONE_UNIT: Final = 1 << _HOLDER_BITS
_BYTES_PER_DICT_INT: Final = 32
"""Size of a Python integer above 2^30; slots and packed values are at most that."""


class SlotTable:
    """Holder and count of pending units for every slot that has any.

    The caller's word is trusted and checked: to hold a slot for a second worker or to release a free one is a bug in
    the core, so both fail an assertion instead of returning an error.
    """

    __slots__ = ("_busy_slot_count", "_counts", "_holders", "_sparse")

    def __init__(self) -> None:
        """Start with nothing in flight."""
        self._sparse: dict[int, int] | None = {}
        """Slot -> count << 16 | holder; None while the arrays are used."""
        self._holders = array("H")
        self._counts = array("I")
        self._busy_slot_count = 0
        """Kept while the arrays are used; the dictionary knows its own length."""

    def hold(self, slot: int, holder: int, count: int = 1) -> None:
        """Count more units in flight at the holder (1..65535), which must be the slot's holder if it has one."""
        taken = self.take(slot, holder, count)
        assert taken, f"slot {slot} is held by {self.holder(slot)}, not by {holder}"

    def take(self, slot: int, holder: int, count: int) -> bool:
        """As `hold`, where no other holds the slot; whether it was so."""
        sparse = self._sparse
        if sparse is None:
            if self._holders[slot] not in {NO_HOLDER, holder}:
                return False
            self._hold_dense(slot, holder, count)
        elif slot not in sparse:
            assert 0 <= slot < SLOT_COUNT, slot
            assert NO_HOLDER < holder <= MAX_HOLDER, holder
            sparse[slot] = count << _HOLDER_BITS | holder
            if len(sparse) > DENSE_THRESHOLD:
                self._to_arrays(sparse)
        else:
            packed = sparse[slot]
            if packed & _HOLDER_MASK != holder:
                return False
            sparse[slot] = packed + (count << _HOLDER_BITS)
        return True

    def hold_each(self, slots: Iterable[int], holder: int) -> None:
        """Count one more unit of each of these slots, one that is named twice two."""
        sparse = self._sparse
        if sparse is None:
            for slot in slots:
                self._hold_dense(slot, holder, 1)
            return
        assert NO_HOLDER < holder <= MAX_HOLDER, holder
        known = sparse.get
        for slot in slots:
            packed = known(slot, holder)
            assert packed & _HOLDER_MASK == holder, f"slot {slot} is held by {packed & _HOLDER_MASK}, not by {holder}"
            sparse[slot] = packed + _ONE_UNIT
        if len(sparse) > DENSE_THRESHOLD:
            self._to_arrays(sparse)

    def release(self, slot: int, count: int = 1) -> int:
        """Count units less and return the rest; at 0 the slot has no holder any more."""
        sparse = self._sparse
        if sparse is None:
            remaining = self._release_dense(slot, count)
            if not self._busy_slot_count:
                self._to_dictionary()
            return remaining
        try:
            packed = sparse[slot] - (count << _HOLDER_BITS)
        except KeyError:
            message = f"slot {slot} is free"
            raise AssertionError(message) from None
        if packed > _HOLDER_MASK:
            sparse[slot] = packed
            return packed >> _HOLDER_BITS
        assert packed >= 0, f"slot {slot} is free, or has fewer than {count} units in flight"
        del sparse[slot]
        return 0

    def release_each(self, slots: Iterable[int]) -> None:
        """Count one unit less of each of these slots, of one that is named twice two."""
        sparse = self._sparse
        if sparse is None:
            for slot in slots:
                self._release_dense(slot, 1)
            if not self._busy_slot_count:
                self._to_dictionary()
            return
        for slot in slots:
            packed = sparse[slot] - _ONE_UNIT
            if packed > _HOLDER_MASK:
                sparse[slot] = packed
            else:
                del sparse[slot]

    def holder(self, slot: int) -> int:
        """Return the worker index that holds the slot, 0 if none."""
        sparse = self._sparse
        if sparse is None:
            return self._holders[slot]
        return sparse[slot] & _HOLDER_MASK if slot in sparse else NO_HOLDER

    def count(self, slot: int) -> int:
        """Return the units in flight of the slot."""
        sparse = self._sparse
        if sparse is None:
            return self._counts[slot]
        return sparse.get(slot, 0) >> _HOLDER_BITS

    def in_range(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield (slot, holder, count) of the slots in flight from `start` to `end`, both inclusive, in order.

        What it yields is the state at the time of the call, so slots may be held and released meanwhile.
        """
        sparse = self._sparse
        if sparse is None:
            holders, counts = self._holders[start : end + 1], self._counts[start : end + 1]
            return (
                (slot, holder, counts[slot - start])
                for slot, holder in enumerate(holders, start)
                if holder != NO_HOLDER
            )
        if end - start < len(sparse):
            slots = [slot for slot in range(start, end + 1) if slot in sparse]
        else:
            slots = sorted(slot for slot in sparse if start <= slot <= end)
        found = [(slot, sparse[slot]) for slot in slots]
        return ((slot, packed & _HOLDER_MASK, packed >> _HOLDER_BITS) for slot, packed in found)

    def __len__(self) -> int:
        """Return how many slots have something in flight."""
        return self._busy_slot_count if self._sparse is None else len(self._sparse)

    def __bool__(self) -> bool:
        """Tell whether a slot has something in flight."""
        return len(self) > 0

    def memory_bytes(self) -> int:
        """Return the memory of the table itself, as an estimate from above while it is a dictionary."""
        total = sys.getsizeof(self._holders) + sys.getsizeof(self._counts)
        if self._sparse is not None:
            total += sys.getsizeof(self._sparse) + 2 * _BYTES_PER_DICT_INT * len(self._sparse)
        return total

    def _hold_dense(self, slot: int, holder: int, count: int) -> None:
        present = self._holders[slot]
        if present:
            assert present == holder, f"slot {slot} is held by {present}, not by {holder}"
            self._counts[slot] += count
        else:
            assert NO_HOLDER < holder <= MAX_HOLDER, holder
            self._holders[slot] = holder
            self._counts[slot] = count
            self._busy_slot_count += 1

    def _release_dense(self, slot: int, count: int) -> int:
        remaining = self._counts[slot] - count
        assert remaining >= 0, f"slot {slot} is free, or has fewer than {count} units in flight"
        self._counts[slot] = remaining
        if not remaining:
            self._holders[slot] = NO_HOLDER
            self._busy_slot_count -= 1
        return remaining

    def _to_arrays(self, sparse: dict[int, int]) -> None:
        """Leave the dictionary: it has become the larger form."""
        holders = array("H", bytes(2 * SLOT_COUNT))
        counts = array("I", bytes(4 * SLOT_COUNT))
        for slot, packed in sparse.items():
            holders[slot] = packed & _HOLDER_MASK
            counts[slot] = packed >> _HOLDER_BITS
        self._holders, self._counts = holders, counts
        self._busy_slot_count = len(sparse)
        self._sparse = None

    def _to_dictionary(self) -> None:
        """Give the arrays' memory back. Only when nothing is in flight, so thousands of holds pay for each switch."""
        self._sparse = {}
        self._holders, self._counts = array("H"), array("I")
