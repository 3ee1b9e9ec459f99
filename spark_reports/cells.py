"""Values as people read them; a column's name tells what it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

NOTHING: Final = "–"  # noqa: RUF001 - a dash, as in any table
UNSIGNED: Final = (1 << 64) - 1
MOMENTS: Final = ("_wall_ns", "window_start_ns", "first_sent_ns", "last_sent_ns")
SMALL: Final = 10
WORDS: Final = {"consumer": "worker", "consumers": "workers", "life": "run", "lives": "runs"}
"""For words in the journal's columns, which keep their names: the glossary in docs/concepts.md."""


def heading(column: str) -> str:
    """`processing_p95_ms` is `processing p95, ms`, and `other_consumer` is `other worker`."""
    column = "_".join(WORDS.get(word, word) for word in column.split("_"))
    if column.endswith(MOMENTS) or column == "wall_ns":
        return column.removesuffix("_ns").removesuffix("_wall").replace("_", " ").replace("wall", "at")
    for unit in ("ms", "s", "ns", "bytes"):
        if column.endswith(f"_{unit}") and not column.endswith("_per_s"):
            return f"{column.removesuffix(f'_{unit}').replace('_', ' ')}, {unit}"
    return column.replace("_per_s", " per s").replace("_", " ")


def is_number(value: object) -> bool:
    """Whether it stands at the right of its cell."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def cell(column: str, value: Any) -> str:
    """Its text."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column == "key_digest":
        return f"{value & UNSIGNED:016x}"
    if column.endswith(MOMENTS) or column == "wall_ns":
        return moment(value)
    if column.endswith("share"):
        return f"{value:.1%}"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < SMALL else f"{value:,.1f}"
    return f"{value:,}" if is_number(value) else str(value)


def moment(wall_ns: int) -> str:
    """Of the wall clock, in UTC."""
    return f"{datetime.fromtimestamp(wall_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
