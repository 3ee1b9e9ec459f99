"""Periods are told in rates and means, and against the period before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from admin_api.metrics import families
from proxy.journal.schema import METRICS
from spark_reports.schemas import spark_schema
from spark_reports.service import ACKED, COMPARED, LONGEST_WAIT, NAMES, REDELIVERED, SENT, TIMES, by_period, with_before
from spark_reports.span import EVERYTHING, Span

MIDNIGHT = datetime(2026, 11, 24, tzinfo=UTC)
HOUR = timedelta(hours=1)


def sample(at: datetime, name: str, value: float, gateway: str = "gw-1", subscription: str = "s") -> dict[str, Any]:
    """One row."""
    wall_ns = int(at.timestamp()) * 1_000_000_000
    return {
        "life": f"life of {gateway}",
        "at_ns": wall_ns,
        "wall_ns": wall_ns,
        "name": name,
        "topic": "t",
        "subscription": subscription,
        "labels": {},
        "value": float(value),
        "gateway": gateway,
    }


def table(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Of these, after a first snapshot of each gateway a week before."""
    first = [
        sample(MIDNIGHT - timedelta(days=7), "keyline_gateway_ready", 1.0, gateway)
        for gateway in {row["gateway"] for row in rows}
    ]
    return spark.createDataFrame([*first, *rows], spark_schema(METRICS))


def told(metrics: DataFrame, span: Span = EVERYTHING) -> list[dict[str, Any]]:
    """What is found."""
    return [row.asDict() for row in by_period(metrics, span).collect()]


def test_the_names_asked_for_are_exported() -> None:
    """A metric that is renamed is renamed here too."""
    exported = {family.name for family in (*families.SUBSCRIPTION, *families.DURATIONS)}
    assert {SENT, ACKED, REDELIVERED, LONGEST_WAIT, *TIMES.values()} <= exported


def test_a_day_is_told_against_the_day_before(spark: SparkSession) -> None:
    """In rates over the time between samples: a day of which half was recorded is no worse for it."""
    yesterday, today = MIDNIGHT - 24 * HOUR, MIDNIGHT
    rows = []
    for begin, until_h, factor in ((yesterday, 20, 1), (today, 10, 2)):
        for hour in range(2, until_h + 1, 2):
            at, done = begin + hour * HOUR, (0 if begin == yesterday else 36_000) + hour * 1_800 * factor
            rows += [sample(at, name, done) for name in (ACKED, SENT, f"{TIMES['ack']}_count")]
            rows += [sample(at, f"{TIMES['ack']}_sum", done * 0.005), sample(at, LONGEST_WAIT, float(hour))]
    first, second = told(table(spark, *rows))
    assert (first["acked"], first["observed_s"], first["acked_per_s"]) == (36_000, 18 * 3_600.0, 36_000 / (18 * 3_600))
    assert (first["ack_ms"], first["longest_wait_s"], first["wait_ms"]) == (pytest.approx(5.0), 20.0, None)
    assert all(first[f"{name}_change"] is None for name in COMPARED)
    assert (second["acked"], second["observed_s"]) == (36_000, 14 * 3_600.0)
    assert second["acked_per_s_change"] == pytest.approx(18 / 14 - 1)
    assert (second["ack_ms_change"], second["longest_wait_s_change"]) == (pytest.approx(0.0), -0.5)
    assert second["window_start_ns"] == int(MIDNIGHT.timestamp()) * 1_000_000_000


def test_replicas_are_added_up_and_counters_may_restart(spark: SparkSession) -> None:
    """What a gateway's first snapshot has is not of this time; a series that comes later, or fell, begins at 0."""
    at = [MIDNIGHT + hour * HOUR for hour in range(4)]
    rows = [sample(moment, ACKED, value) for moment, value in zip(at, (10.0, 15.0, 5.0, 8.0), strict=True)]
    rows += [sample(moment, ACKED, value, "gw-2") for moment, value in zip(at[2:], (100.0, 101.0), strict=True)]
    rows += [
        sample(at[3], REDELIVERED, 3.0),
        sample(at[3], SENT, 30.0),
        sample(at[3], ACKED, 4.0, subscription="other"),
    ]
    first = sample(at[0], ACKED, 1_000.0, "gw-3"), sample(at[1], ACKED, 1_001.0, "gw-3")
    other, own = told(table(spark, *rows).unionByName(spark.createDataFrame(list(first), spark_schema(METRICS))))
    assert (other["subscription"], other["acked"]) == ("other", 4)
    assert own["acked"] == (10 + 5 + 5 + 3) + (100 + 1) + 1
    assert (own["redelivered"], own["redelivered_share"]) == (3, 0.1)


def test_a_span_is_compared_with_one_as_long_before_it(spark: SparkSession) -> None:
    """Longer ones day by day from their begin on; what is read reaches so far back."""
    rows = [sample(MIDNIGHT + hour * HOUR, ACKED, hour * 60.0 * (1 if hour <= 6 else 2)) for hour in range(13)]
    span = Span(MIDNIGHT + 7 * HOUR, MIDNIGHT + 10 * HOUR)
    assert with_before(span) == Span(MIDNIGHT + 4 * HOUR, MIDNIGHT + 10 * HOUR)
    (found,) = told(with_before(span).cut(table_with_places(spark, rows)), span)
    assert (found["acked"], found["observed_s"]) == ((9 * 120 - 6 * 60), 3 * 3_600.0)
    before = (6 - 4) * 60 / (2 * 3_600)  # what was at 04:00 is not known to be of this time
    assert found["acked_per_s_change"] == pytest.approx(found["acked_per_s"] / before - 1)
    days = Span(MIDNIGHT - 5 * HOUR, MIDNIGHT + 72 * HOUR)
    assert with_before(days) == Span(MIDNIGHT - 29 * HOUR, MIDNIGHT + 72 * HOUR)
    starts = [row["window_start_ns"] for row in told(table(spark, *rows), days)]
    assert starts == [int((MIDNIGHT - 5 * HOUR).timestamp()) * 1_000_000_000]


def table_with_places(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Of these, in the partitions in which they would be."""
    placed = []
    for row in rows:
        at = datetime.fromtimestamp(row["wall_ns"] / 1e9, UTC)
        placed.append(row | {"date": f"{at:%Y-%m-%d}", "hour": f"{at:%H}"})
    return spark.createDataFrame(placed, spark_schema(METRICS))


def test_without_metrics_there_is_nothing_to_tell(spark: SparkSession) -> None:
    """No error."""
    assert told(spark.createDataFrame([], spark_schema(METRICS))) == []
    assert len(NAMES) == len(set(NAMES))
