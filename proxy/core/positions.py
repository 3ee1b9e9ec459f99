"""A position in a topic as one integer.

Problem: positions are compared, kept in sets and sorted for every message, and a pair (ledger, entry) costs a tuple
of three objects and a slow comparison. Rule kept: packed positions compare exactly as (ledger, entry) do, for every
pair that can occur, including entry -1, which Pulsar uses for "before the first entry of this ledger".

The packing is ``(ledger << 40) + entry``, a sum and not an "or": entry -1 of ledger 4 is one below entry 0 of
ledger 4. That integer could also be read as the last entry a 40-bit field holds in ledger 3, so that entry number is
given up: entries end at 2^40 - 2, a thousand times what a ledger can hold. Two things follow that callers may use:
for every entry >= 0 the packing is ``ledger << 40 | entry``, and ``position - 1`` is always the position before,
4:-1 for 4:0. Why not store entry + 1 in the low field: it keeps order too, and every debugger's hexadecimal view and
every inlined packing would be off by one.

Source: Pulsar's MessageIdData (ledgerId, entryId); PIP-282 writes positions as ``3:5``.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Position: TypeAlias = int
"""(ledger << 40) + entry."""

ENTRY_BITS: Final = 40
MAX_ENTRY: Final = (1 << ENTRY_BITS) - 2
"""Highest entry number in a ledger; the one above it is the next ledger's -1."""
MAX_LEDGER: Final = (1 << 63) - 1
"""Ledger ids are signed 64-bit numbers in Pulsar."""
BEFORE_FIRST_ENTRY: Final = -1

ENTRY_MASK: Final = (1 << ENTRY_BITS) - 1
"""For positions of real entries: `position >> ENTRY_BITS` is their ledger, `position & ENTRY_MASK` their entry."""


def is_packable(ledger: int, entry: int) -> bool:
    """Tell whether numbers a peer sent are a position; ask before `pack`, which asserts it."""
    return 0 <= ledger <= MAX_LEDGER and BEFORE_FIRST_ENTRY <= entry <= MAX_ENTRY


def pack(ledger: int, entry: int) -> Position:
    """Return the position of an entry, or of "before the first entry" for entry -1."""
    assert 0 <= ledger <= MAX_LEDGER, ledger
    assert BEFORE_FIRST_ENTRY <= entry <= MAX_ENTRY, entry
    return (ledger << ENTRY_BITS) + entry


def unpack(position: Position) -> tuple[int, int]:
    """Return (ledger, entry)."""
    above = position + 1
    return above >> ENTRY_BITS, (above & ENTRY_MASK) - 1


def entry_of(position: Position) -> int:
    """Return the entry number alone, -1 for "before the first entry"."""
    return ((position + 1) & ENTRY_MASK) - 1


def format_position(position: Position) -> str:
    """Return the position as Pulsar prints it, such as ``3:5`` or ``4:-1``."""
    ledger, entry = unpack(position)
    return f"{ledger}:{entry}"
