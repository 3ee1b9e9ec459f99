"""The last sent position of PIP-282: everything at or below it is scheduled to be sent.

Problem: a worker that joins may get a key's messages only once everything read for the key's former owner is out of
the way. The read position is no such limit, because entries are read and then wait (the PIP's two issues). PIP-282
keeps the last sent position and, above it, the set of individually sent positions.

Rule kept: both are derived from the complement on request: the highest position read, and the positions that
were read and never sent, which the dispatcher has anyway and bounds. Why not the PIP's two sets: nearly every message
goes out at once, and keeping them would cost the hot path for each. Entries the broker does not deliver, being
acknowledged already, count as sent.

Positions that were never sent may lie above the highest one read, if a seek came between; they say nothing. The
position before the first entry of ledger 4 is 4:-1, which compares with every entry as the last of ledger 3 does.

Source: PIP-282, design and implementation details.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.positions import format_position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.positions import Position


def last_sent_position(highest_read: Position, unsent: Iterable[Position]) -> Position | None:
    """Return the position before the lowest one that was not sent; None while nothing was read, `highest_read` < 0."""
    if highest_read < 0:
        return None
    return min((position - 1 for position in unsent if position <= highest_read), default=highest_read)


def individually_sent(highest_read: Position, unsent: Iterable[Position]) -> list[tuple[Position, Position]]:
    """Return the ranges sent above the last sent position, each (lower exclusive, upper inclusive), ascending."""
    lowers = sorted(position for position in unsent if position <= highest_read)
    uppers = [*(position - 1 for position in lowers[1:]), highest_read]
    return [(lower, upper) for lower, upper in zip(lowers, uppers, strict=False) if lower < upper]


def format_ranges(ranges: list[tuple[Position, Position]]) -> str:
    """Return ranges as PIP-282 prints them, such as ``[(3:4, 3:5], (3:7, 3:10]]``."""
    return "[" + ", ".join(f"({format_position(lower)}, {format_position(upper)}]" for lower, upper in ranges) + "]"
