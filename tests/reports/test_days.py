"""Daily runs: only days whose files are others are made anew, and running again adds nothing twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from integration.journals.make import make
from integration.journals.plan import Known, Plan
from spark_reports import run
from spark_reports.days import DayReport, daily, days_of
from spark_reports.place import JournalError
from spark_reports.span import EVERYTHING, Span

BEGIN = datetime(2027, 1, 15, 21, 40, tzinfo=UTC)
PLAN = Plan(messages=9_000, keys=50, workers=3, rate_per_s=1, begin_s=int(BEGIN.timestamp()), faults=2)
"""Two and a half hours, over midnight."""


@pytest.fixture(autouse=True)
def audit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days are about which files are read: the other jobs and the page have their own tests."""
    monkeypatch.setattr(run, "all_jobs", list)
    monkeypatch.setattr(run, "page", lambda *_: "a page")


@pytest.fixture
def journal(tmp_path: Path) -> tuple[Path, Known]:
    """Two days of one gateway."""
    return tmp_path / "journal", make(PLAN, tmp_path / "journal")


def brought(spark: SparkSession | None, root: Path, out: Path, span: Span = EVERYTHING) -> list[DayReport]:
    """Up to date."""
    return daily(spark, str(root), out, days_of(str(root), out, span))


def counted(out: Path) -> list[dict[str, Any]]:
    """What the days' audits counted."""
    return [json.loads(path.read_text())["totals"] for path in sorted((out / "days").glob("*/audit.json"))]


def told(found: list[DayReport]) -> list[tuple[str, bool]]:
    """Which days, and whether they were made."""
    return [(str(one.day), one.made) for one in found]


def test_late_files_make_their_days_anew(spark: SparkSession, journal: tuple[Path, Known], tmp_path: Path) -> None:
    """Days sum up to the whole; a file of an hour that the neighbour reads at its edge makes that one anew too."""
    (root, known), out = journal, tmp_path / "out"
    late = {hour: next(root.glob(f"deliveries/date=*/hour={hour}/*/*.parquet")) for hour in ("21", "23")}
    for path in late.values():
        path.rename(tmp_path / path.parts[-3])
    assert told(brought(spark, root, out)) == [("2027-01-15", True), ("2027-01-16", True)]
    assert sum(day["messages"] for day in counted(out)) < known.messages
    assert told(brought(None, root, out)) == [("2027-01-15", False), ("2027-01-16", False)], "it needs no Spark"
    (tmp_path / "hour=21").rename(late["21"])
    assert told(brought(spark, root, out)) == [("2027-01-15", True), ("2027-01-16", False)]
    (tmp_path / "hour=23").rename(late["23"])
    found = brought(spark, root, out)
    assert told(found) == [("2027-01-15", True), ("2027-01-16", True)]
    for name in ("messages", "deliveries", "returned"):
        assert sum(day[name] for day in counted(out)) == getattr(known, name), name
    assert sum(one.violations for one in found) == sum(known.violations.values())
    listed = (out / "index.html").read_text()
    assert all(f'href="days/{one.day}/index.html"' in listed and one.line in listed for one in found)


def test_only_the_days_that_are_asked_for(spark: SparkSession, journal: tuple[Path, Known], tmp_path: Path) -> None:
    """By their dates; a time without any says so."""
    root, midnight = journal[0], datetime(2027, 1, 16, tzinfo=UTC)
    assert told(brought(spark, root, tmp_path / "out", Span(since=midnight))) == [("2027-01-16", True)]
    with pytest.raises(JournalError, match="no file of a journal in that time"):
        days_of(str(root), tmp_path / "out", Span(since=datetime(2028, 1, 1, tzinfo=UTC)))
