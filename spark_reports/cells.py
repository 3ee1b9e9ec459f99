"""Values as people read them; a column's name tells what it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

NOTHING: Final = "–"  # noqa: RUF001 - a dash, as in any table
UNSIGNED: Final = (1 << 64) - 1
MOMENTS: Final = ("_wall_ns", "window_start_ns", "first_sent_ns", "last_sent_ns")
CODES: Final = ("key_digest",)
"""Columns of numbers that are no amounts."""
CHANGE: Final = "_change"
"""End of a column's name that tells how much more or less another is than before."""
MINUTE_NS: Final = 60_000_000_000
SMALL: Final = 10
WORDS: Final = {"consumer": "worker", "consumers": "workers", "life": "run", "lives": "runs"}
"""For words in the journal's columns, which keep their names: the glossary in docs/concepts.md."""


def heading(column: str) -> str:
    """`processing_p95_ms` is `processing p95, ms`, and `other_consumer` is `other worker`."""
    column = "_".join(WORDS.get(word, word) for word in column.split("_"))
    if is_moment(column):
        return column.removesuffix("_ns").removesuffix("_wall").replace("_", " ").replace("wall", "at")
    if column.endswith("_per_h"):
        return column.replace("_per_h", " per hour").replace("_", " ")
    for unit in ("ms", "s", "ns", "bytes"):
        if column.endswith(f"_{unit}") and not column.endswith("_per_s"):
            return f"{column.removesuffix(f'_{unit}').replace('_', ' ')}, {unit}"
    return column.replace("_per_s", " per s").replace("_", " ")


def is_moment(column: str) -> bool:
    """Whether it has moments of the wall clock."""
    return column.endswith(MOMENTS) or column == "wall_ns"


def is_number(value: object) -> bool:
    """Whether it stands at the right of its cell."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def cell(column: str, value: Any) -> str:
    """Its text."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column in CODES:
        return f"{value & UNSIGNED:016x}"
    if is_moment(column):
        return moment(value)
    if column.endswith("share"):
        return f"{value:.1%}"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < SMALL else f"{value:,.1f}"
    return f"{value:,}" if is_number(value) else str(value)


def change(share: float | None) -> str:
    """How much more or less, behind a value; nothing if that is not known."""
    return "" if share is None else f" ({share:+.0%})"


def moment(wall_ns: int) -> str:
    """Of the wall clock, in UTC; to the minute if it is a whole one."""
    at = datetime.fromtimestamp(wall_ns / 1e9, UTC)
    return f"{at:%Y-%m-%d %H:%M}" if wall_ns % MINUTE_NS == 0 else f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3]
