"""Hand-overs are told as they were, with what made them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from proxy.journal.schema import DRAINS
from spark_reports.drains import summary, worst
from spark_reports.schemas import spark_schema
from tests.reports.journal_made import MS, SUBSCRIPTION, TOPIC, WALL_NS, Life, frames


def drained(
    began: int, ended: int, slot: int, source: str, target: str | None, waiting: int = 0, life: str = "life-1"
) -> dict[str, Any]:
    """One row; times in milliseconds."""
    return {
        "life": life,
        "topic": TOPIC,
        "subscription": SUBSCRIPTION,
        "at_ns": ended * MS,
        "wall_ns": WALL_NS + ended * MS,
        "slot": slot,
        "source": source,
        "target": target,
        "began_ns": began * MS,
        "duration_ns": (ended - began) * MS,
        "waiting_messages": waiting,
        "date": "2027-01-15",
        "hour": "08",
        "gateway": "gw-1",
    }


def table(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Of these rows."""
    return spark.createDataFrame(list(rows), spark_schema(DRAINS))


def test_the_worker_that_others_waited_for_longest_comes_first(spark: SparkSession) -> None:
    """With how often, how long, and for how many messages."""
    quick = [drained(0, number, number, "quick", "x") for number in range(1, 101)]
    slow = [drained(0, 9_000, 5, "slow", "x", waiting=3), drained(0, 1_000, 6, "slow", None)]
    first, second = (row.asDict() for row in summary(table(spark, *quick, *slow)).collect())
    assert (first["holder"], first["hand_overs"], first["total_ms"], first["max_ms"]) == ("slow", 2, 10_000.0, 9_000.0)
    assert (first["waited"], first["waiting_messages"]) == (1, 3)
    assert (second["holder"], second["p50_ms"], second["p95_ms"], second["p99_ms"]) == ("quick", 50.0, 95.0, 99.0)


def test_the_worst_are_told_with_what_they_came_from(spark: SparkSession) -> None:
    """The last join or leave before the slot began to drain, in the same run; only those that somebody waited for."""
    life = Life().happened(5, "worker_joined", worker="w4").happened(50, "worker_left", worker="w1")
    life.happened(8, "upstream_lost")
    rows = table(
        spark,
        drained(10, 40, 1, "w1", "w4", waiting=2),
        drained(50, 60, 2, "w2", "w3", waiting=1),
        drained(10, 900, 3, "w1", "w4"),
        drained(1, 3, 4, "w1", "w2", waiting=1),
        drained(60, 61, 5, "w1", "w2", waiting=1, life="another"),
    )
    found = [row.asDict() for row in worst(rows, frames(spark, life)[1]).collect()]
    assert [(row["slot"], row["duration_ms"], row["cause"]) for row in found] == [
        (1, 30.0, "worker_joined w4"),
        (2, 10.0, "worker_left w1"),
        (4, 2.0, None),
        (5, 1.0, None),
    ]
    assert found[0]["began_wall_ns"] == WALL_NS + 10 * MS
    assert len(worst(rows, frames(spark, life)[1], 1).collect()) == 1
