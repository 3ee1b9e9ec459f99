"""Key of a delivery in its worker's pending acks: made from what is sent, and again from what a client acknowledges.

It is the packed position of a whole entry, and a negative number for a slice, whose id (`proxy.core.slice_id`) stands
where clients expect an entry id. So one table has both, and a lookup builds no object.

Specification: design section 3, "Mixed-key batches".
"""

from __future__ import annotations

from typing import Final

from proxy.core.positions import ENTRY_BITS, ENTRY_MASK, unpack
from proxy.core.slice_id import SLICE_FLAG, slice_id

_LEDGER_SHIFT: Final = 63
WIRE_ENTRY_MASK: Final = (1 << _LEDGER_SHIFT) - 1
"""Of a slice's key without its sign: the entry id by which a client knows it."""


def delivery_key(ledger: int, wire_entry: int, position: int) -> int:
    """Key of a delivery in a worker's pending acks, from what the client says in an ack.

    `position` is the packed position where `wire_entry` is a real entry; it is the key then.
    """
    if wire_entry & SLICE_FLAG:
        return -((ledger << _LEDGER_SHIFT) | wire_entry)
    return position


def wire_id(key: int) -> tuple[int, int]:
    """The (ledger, entry) by which a client knows the delivery with this key."""
    if key < 0:
        return (-key) >> _LEDGER_SHIFT, (-key) & WIRE_ENTRY_MASK
    return unpack(key)


def slice_key(position: int, indexes: tuple[int, ...] | None) -> int:
    """Pending key of the messages `indexes` of the entry at `position`."""
    if indexes is None:
        return position
    return -((position >> ENTRY_BITS << _LEDGER_SHIFT) | slice_id(position & ENTRY_MASK, indexes))
