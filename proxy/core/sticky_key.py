"""From a key's bytes to its hash slot, exactly as the broker computes it.

Problem: a key's order is kept by sending all its messages to one worker, so the gateway must decide for every entry
which bytes are its key, and hash them. Rule kept: our slot equals the broker's for every entry, because operators
compare both sides' stats and because a subscription may be moved between a direct connection and the gateway.
Why not a hash of our own (Python's `hash` would be free): the numbers would agree with nothing an operator can see,
and sticky workers name slots of the broker's space in their policies.

Two spaces exist: consistent hashing uses slots 1..65535, auto-split and sticky ranges 0..65535 with slot 0 nudged
to 1. The same key therefore has different slots under different selectors. Slot 0 never holds a key in either.

Source: Pulsar's resolution of the sticky key, facts 1.1 to 1.4; `producer-sequence` since apache/pulsar 23219.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mmh3

if TYPE_CHECKING:
    from collections.abc import Iterable

CONSISTENT_SLOT_COUNT: Final = 65_535
"""Slots 1..65535 of the consistent hashing ring."""

RANGE_SLOT_COUNT: Final = 65_536
"""Slots 0..65535 of the range selectors."""

_MASK_31_BITS: Final = 0x7FFF_FFFF
_murmur: Final = mmh3.hash


def murmur31(key: bytes) -> int:
    """Return Murmur3 x86 32-bit of the key, seed 0, with the sign bit cleared: 0..2^31-1."""
    return _murmur(key, 0, False) & _MASK_31_BITS


def murmur31_each(keys: Iterable[bytes]) -> list[int]:
    """As `murmur31`, of each of these keys."""
    murmur = _murmur
    return [murmur(key, 0, False) & _MASK_31_BITS for key in keys]


def consistent_slot(murmur: int) -> int:
    """Return the slot of a key's hash on the consistent hashing ring: 1..65535."""
    return murmur % CONSISTENT_SLOT_COUNT + 1


def range_slot(murmur: int) -> int:
    """Return the slot of a key's hash for auto-split and sticky ranges: 1..65535, since 0 is replaced by 1."""
    return murmur % RANGE_SLOT_COUNT or 1
