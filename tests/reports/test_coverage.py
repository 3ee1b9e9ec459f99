"""How much was judged is told by two measures: the time that is recorded, and what gateways counted by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from spark_reports.coverage import Coverage, coverage
from spark_reports.place import place_at
from spark_reports.reading import Journal, Skipped
from spark_reports.span import Span, nanoseconds
from tests.reports.journal_made import WALL_NS, Life, looked_at

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
NOON_NS, HOUR_NS = nanoseconds(NOON), 3_600_000_000_000
MINUTE_NS = HOUR_NS // 60
COUNTED = "keyline_subscription_sent_messages_total"
LOST_ROWS = "keyline_gateway_journal_rows_dropped_total"


def run(begin_h: float, end_h: float, deliveries: int = 1) -> dict[str, Any]:
    """A row of `gateway_runs.runs`, by hours after noon."""
    first, last = (NOON_NS + round(hours * HOUR_NS) for hours in (begin_h, end_h))
    return {"first_wall_ns": first, "last_wall_ns": last, "deliveries": deliveries}


def shares(*runs: dict[str, Any], skipped: tuple[Skipped, ...] = ()) -> float:
    """Of noon to four o'clock."""
    journal = Journal(place_at("journal"), skipped=list(skipped))
    return coverage(journal, Span(NOON, NOON + timedelta(hours=4)), runs, []).time_share


def test_time_is_what_some_gateway_recorded() -> None:
    """Once, however many did; who recorded no delivery counts for nothing, nor does an hour with a broken file."""
    assert shares(run(0, 4)) == 1.0
    assert shares(run(0, 1), run(0.5, 2), run(3, 4, deliveries=0)) == 0.5
    broken = Skipped("deliveries", "j/deliveries/date=2026-11-24/hour=13/gateway=g/x.parquet", "it is cut off")
    assert shares(run(0, 2), skipped=(broken,)) == 0.25
    other = Skipped("drains", "j/drains/date=2026-11-24/hour=13/gateway=g/x.parquet", "it is cut off")
    assert shares(run(0, 2), skipped=(other,)) == 0.5
    assert shares() == 0.0


def test_without_ends_the_journals_own_are_asked_for() -> None:
    """A gap between two runs is not judged."""
    found = coverage(Journal(place_at("journal")), Span(), [run(0, 1), run(3, 4)], [(100, 90), (50, 60), (7, 0)])
    assert (found.time_share, found.counted, found.found) == (0.5, 157, 140)
    assert found.deliveries_share == 140 / 157


def test_shares_are_rounded_down() -> None:
    """All is only what is all."""
    words = Coverage(NOON_NS, NOON_NS + MINUTE_NS, MINUTE_NS - 1, 100_000, 99_999).words
    assert words == (
        "judged: 99.9% of the time from 2026-11-24 12:00 to 2026-11-24 12:01 UTC; 99.9% of 100,000 "
        "deliveries that the gateways counted"
    )
    assert Coverage(0, 0, 0, 0, 0).words.endswith("; the gateways' own counts are not in the journal")


def test_rows_are_compared_with_what_the_gateway_had_counted(spark: SparkSession) -> None:
    """From the subscription's beginning, or else from the first snapshot, to the last; the counter may restart."""
    begun = Life("begun").happened(5, "subscription_began").counted(100, COUNTED, 2.0)
    begun.did(10, "w1", (1, 1, -1), 1).did(20, "w1", (1, 2, -1), 2).did(150, "w1", (1, 3, -1), 3)
    midst = Life("midst").counted(100, COUNTED, 40.0).counted(200, COUNTED, 41.0).counted(300, COUNTED, 1.0)
    for at in (10, 110, 210, 310):
        midst.did(at, "w1", (2, at, -1), at)
    missing = Life("missing").counted(100, COUNTED, 3.0).counted(200, COUNTED, 8.0).did(150, "w1", (3, 1, -1), 1)
    found = looked_at(spark, begun, midst, missing)
    assert found.counts == [(2, 2), (2, 2), (5, 1)]
    assert {row["life"]: row["deliveries"] for row in found.runs} == {"begun": 3, "midst": 4, "missing": 1}
    assert found.totals == {"consumers": 1, "lives": 3, "gateways": 1}


def test_a_look_at_a_span_counts_what_is_in_it(spark: SparkSession) -> None:
    """Who took part around it is known; rows that were lost are of all gateways' kinds of rows."""
    minute, begin = 60_000, datetime.fromtimestamp(WALL_NS // 1_000_000_000, UTC)
    life = Life().did(0, "before", (1, 1, -1), 1).did(30 * minute, "around", (1, 2, -1), 1)
    life.did(90 * minute, "inside", (1, 3, -1), 1).counted(91 * minute, LOST_ROWS, 3.0)
    other = Life("life-2", gateway="gw-2").counted(92 * minute, LOST_ROWS, 4.0).counted(200 * minute, LOST_ROWS, 9.0)
    span = Span(begin + timedelta(minutes=90), begin + timedelta(hours=2))
    found = looked_at(spark, life, other, span=span)
    assert [row["consumer"] for row in found.parties] == ["around", "inside"]
    assert found.totals == {"consumers": 1, "lives": 1, "gateways": 1}
    assert [(row["life"], row["rows"], row["deliveries"]) for row in found.runs] == [("life-1", 3, 1), ("life-2", 1, 0)]
    assert found.rows_lost == 7
