"""Hand-overs are told as they were, with what made them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from proxy.journal.schema import DRAINS
from spark_reports.drains import summary, worst
from spark_reports.schemas import spark_schema
from tests.reports.journal_made import MS, SUBSCRIPTION, TOPIC, WALL_NS, Life, frames


def drained(
    began: int,
    ended: int,
    slot: int,
    source: str,
    target: str | None,
    waiting: int = 0,
    *,
    cause: str | None = None,
    by: str | None = None,
    life: str = "life-1",
) -> dict[str, Any]:
    """One row; times in milliseconds. Without a cause it is as version 1 wrote it."""
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
        "cause": cause,
        "cause_consumer": by,
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


def causes(spark: SparkSession, life: Life, *rows: dict[str, Any]) -> dict[int, str]:
    """By slot, of hand-overs that somebody waited for."""
    return {row["slot"]: row["cause"] for row in worst(table(spark, *rows), frames(spark, life)[1]).collect()}


def test_the_worst_are_told_with_what_they_came_from(spark: SparkSession) -> None:
    """As the gateway wrote it, whatever other events were near; only those that somebody waited for."""
    life = Life().happened(9, "worker_left", worker="w3").happened(10, "worker_joined", worker="w4")
    life.happened(50, "worker_left", worker="w1").happened(50, "operator_order", order="evict", worker="w1")
    rows = (
        drained(10, 40, 1, "w1", "w4", waiting=2, cause="worker_joined", by="w4"),
        drained(50, 60, 2, "w2", "w3", waiting=1, cause="worker_left", by="w1"),
        drained(10, 900, 3, "w1", "w4", cause="worker_joined", by="w4"),
    )
    found = [row.asDict() for row in worst(table(spark, *rows), frames(spark, life)[1]).collect()]
    assert [(row["slot"], row["duration_ms"], row["cause"]) for row in found] == [
        (1, 30.0, "worker_joined w4"),
        (2, 10.0, "worker_left w1"),
    ]
    assert found[0]["began_wall_ns"] == WALL_NS + 10 * MS
    assert len(worst(table(spark, *rows), frames(spark, life)[1], 1).collect()) == 1


def test_what_version_1_did_not_write_is_known_by_who_lost_the_slot_or_not_at_all(spark: SparkSession) -> None:
    """There, events are later than the drains that they began: the one before is another's cause."""

    def moves(start: int, end: int, source: str) -> dict[str, Any]:
        return {"moves": [{"start": start, "end": end, "source": source, "target": "w4"}]}

    life = Life().happened(8, "worker_left", worker="w3", **moves(0, 60_000, "w3"))
    life.happened(11, "worker_joined", worker="w4", **moves(1, 2, "w1"))
    life.happened(12, "worker_joined", worker="w5", **moves(3, 9, "w1"))
    life.happened(70, "worker_joined", worker="w6", **moves(0, 60_000, "w1"))
    rows = [
        drained(10, 40, 1, "w1", "w4", waiting=1),
        drained(10, 40, 3, "w1", "w5", waiting=1),
        drained(10, 41, 2, "w2", "w4", waiting=1),
        drained(10, 42, 30, "w1", "w4", waiting=1),
        drained(10, 43, 4, "w1", "w4", waiting=1, life="another"),
    ]
    assert causes(spark, life, *rows) == {
        1: "worker_joined w4",
        3: "worker_joined w5",
        2: "unknown",  # who had it did not lose it then
        30: "unknown",  # it was moved only after it had drained
        4: "unknown",
    }
