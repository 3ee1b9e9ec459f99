"""What may make a report less than the truth is said in words."""

from __future__ import annotations

from typing import Any

from spark_reports.coverage import Coverage
from spark_reports.reading import Skipped
from spark_reports.report import Report


def caveats(
    *, rows_lost: int = 0, skipped: tuple[Skipped, ...] = (), odd_runs: tuple[dict[str, Any], ...] = ()
) -> list[str]:
    """Of a report that found nothing."""
    return Report(
        source="journal",
        totals={},
        violations=0,
        by_kind={},
        evidence=[],
        files=1,
        rows_lost=rows_lost,
        skipped=list(skipped),
        odd_runs=list(odd_runs),
        coverage=Coverage(0, 0, 0, 0, 0),
    ).caveats


def life(beside: str | None, moved_ns: int, *, killed: bool = False) -> dict[str, Any]:
    """One that `gateway_runs.odd` gives."""
    return {"gateway": "gw-1", "life": "b", "beside": beside, "clock_moved_ns": moved_ns, "killed": killed}


def test_nothing_to_say() -> None:
    """A whole journal."""
    assert caveats() == []


def test_each_has_its_words() -> None:
    """What, where, and what it means or should be."""
    found = caveats(
        rows_lost=1_234,
        skipped=(Skipped("drains", "drains/x.parquet", "it is no whole Parquet file"),),
        odd_runs=(life("a", 0), life(None, 3_600_500_000_000), life("a", 2_000_000_000), life(None, 0, killed=True)),
    )
    beside = "gateway gw-1: two processes had this name at once, runs a and b; names should be each replica's own"
    moved = "gateway gw-1: the wall clock moved by {} s in run b; times over the wall clock, and what a day or hour is"
    assert found == [
        "not in the report: drains/x.parquet: it is no whole Parquet file",
        "the gateways lost 1,234 rows of their journals; what they said is not known",
        beside,
        f"{moved.format('3,600.5')}, are as wrong",
        beside,
        f"{moved.format('2.0')}, are as wrong",
        "gateway gw-1: run b was killed; what it did in its last second or so is in no journal",
    ]
