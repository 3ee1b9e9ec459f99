"""What columns are called and how values are written."""

from __future__ import annotations

import pytest

from spark_reports.cells import NOTHING, cell, heading


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("processing_p95_ms", "processing p95, ms"),
        ("began_wall_ns", "began"),
        ("wall_ns", "at"),
        ("window_start_ns", "window start"),
        ("arrival_per_s", "arrival per s"),
        ("observed_s", "observed, s"),
        ("traffic_share", "traffic share"),
        ("life", "run"),
        ("other_consumer", "other worker"),
        ("again_in_another_life", "again in another run"),
    ],
)
def test_headings(column: str, words: str) -> None:
    """Units behind a comma; stored names in the glossary's words."""
    assert heading(column) == words


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("messages", 12_345, "12,345"),
        ("p95_ms", 1_234.56, "1,234.6"),
        ("p95_ms", 0.126, "0.13"),
        ("traffic_share", 0.256, "25.6%"),
        ("key_digest", -1, "ffffffffffffffff"),
        ("at_wall_ns", 1_800_000_000_123_456_789, "2027-01-15 08:00:00.123"),
        ("acked", True, "yes"),
        ("consumer", "w1", "w1"),
        ("consumer", None, NOTHING),
    ],
)
def test_cells(column: str, value: object, text: str) -> None:
    """By the column's name and the value's kind."""
    assert cell(column, value) == text
