"""What workers do, and how many are needed, by numbers that can be checked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from proxy.journal.schema import METRICS
from spark_reports.capacity import forecast, rates, summary
from spark_reports.occupied import holdings
from spark_reports.schemas import spark_schema
from tests.reports.journal_made import MS, SUBSCRIPTION, TOPIC, WALL_NS, Life, frames

A = 11


def message(entry: int) -> tuple[int, int, int]:
    """Of the one ledger."""
    return 5, entry, -1


def measured(
    at: int, name: str, value: float, gateway: str = "gw-1", subscription: str | None = SUBSCRIPTION
) -> dict[str, Any]:
    """One row of metrics; milliseconds."""
    return {
        "life": f"life of {gateway}",
        "at_ns": at * MS,
        "wall_ns": WALL_NS + at * MS,
        "name": f"keyline_subscription_{name}",
        "topic": None if subscription is None else TOPIC,
        "subscription": subscription,
        "consumer": None,
        "labels": {},
        "value": float(value),
        "date": "2027-01-15",
        "hour": "08",
        "gateway": gateway,
    }


def received_before(life: Life, ms: int) -> Life:
    """All messages of the life came so much before they were sent."""
    for row in life.deliveries:
        row["received_ns"] -= ms * MS
    return life


def picked(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    """These columns."""
    return [tuple(row[name] for name in names) for row in rows]


def test_each_window_has_what_happened_in_it(spark: SparkSession) -> None:
    """Where a delivery reaches over windows, each has its part; arrivals are the subscription's only."""
    life = Life()
    life.did(2_000, "w1", message(1), A, ms=4_000)
    life.did(5_000, "w1", message(2), A, ms=3_000)
    life.did(9_000, "w1", message(3), A, ms=2_500)
    life.sent(15_000, "w2", message(4), A).returned(20_000, "w2", message(4), A)
    life.did(20_000, "w1", message(4), A, attempt=2, ms=1_000)
    received_before(life, 1_500)
    audit = Life(subscription="audit").did(30_000, "w1", message(1), A, ms=1_000)
    names = ("consumer", "window_start_ns", "arrived", "sent", "acked", "returned", "service_ms", "busy_share")
    rows = rates(frames(spark, life, audit)[0]).collect()
    first, second, third, fourth = (WALL_NS + number * 10_000 * MS for number in range(4))
    assert picked([row for row in rows if row["subscription"] == "billing"], *names) == [
        (None, first, 3, 3, 2, 0, 3_500.0, pytest.approx(0.7)),
        ("w1", first, None, 3, 2, 0, 3_500.0, pytest.approx(0.7)),
        (None, second, 1, 1, 1, 0, 2_500.0, pytest.approx((0.15 + 0.5) / 2)),
        ("w1", second, None, 0, 1, 0, 2_500.0, pytest.approx(0.15)),
        ("w2", second, None, 1, 0, 0, None, pytest.approx(0.5)),
        (None, third, 0, 1, 1, 1, 1_000.0, pytest.approx((0.1 + 0) / 2)),
        ("w1", third, None, 1, 1, 0, 1_000.0, pytest.approx(0.1)),
        ("w2", third, None, 0, 0, 1, None, 0.0),
    ]
    assert picked([row for row in rows if row["subscription"] == "audit"], *names) == [
        (None, fourth, 1, 1, 1, 0, 1_000.0, pytest.approx(0.1)),
        ("w1", fourth, None, 1, 1, 0, 1_000.0, pytest.approx(0.1)),
    ]


def test_a_worker_is_judged_by_the_time_in_which_it_had_something(spark: SparkSession) -> None:
    """Lives add up; what never ended was held to the end of what is known; other subscriptions do not count."""
    life, later = Life(), Life("life-2", gateway="gw-2")
    for number in range(10):
        life.did(1_000 + 100 * number, "w1", message(number), A, ms=200)  # 1.1 s
    life.did(4_000, "w1", message(20), A, ms=900)
    life.sent(3_000, "w2", message(30), A).returned(3_500, "w2", message(30), A)
    life.sent(3_500, "w2", message(30), A, attempt=2)
    life.did(4_900, "w3", message(40), A, ms=100)
    later.did(0, "w1", message(50), A, ms=2_000).did(4_000, "w3", message(51), A, ms=0)
    audit = Life(subscription="audit").did(1, "w1", message(1), A, ms=1)
    rows = summary(frames(spark, life, later, audit)[0]).collect()
    names = ("subscription", "consumer", "messages", "deliveries", "acked", "occupied_s", "acked_per_s")
    assert picked(rows, *names) == [
        ("audit", "w1", 1, 1, 1, 0.001, 1_000.0),
        ("billing", "w2", 1, 2, 0, 2.0, 0.0),
        ("billing", "w3", 2, 2, 2, 0.1, 20.0),
        ("billing", "w1", 12, 12, 12, 4.0, 3.0),
    ]
    assert [row["service_p50_ms"] for row in rows] == [1.0, None, 0.0, 200.0]
    assert [row["service_p95_ms"] for row in rows] == [1.0, None, 100.0, 2_000.0]
    assert [row["occupied_share"] for row in rows] == pytest.approx([1.0, 1.0, 1.0, 4.0 / (4.0 + 4.0)])


def test_the_forecast_says_whether_workers_keep_up(spark: SparkSession) -> None:
    """Two a second arrive in each subscription; a worker of one does five a second, of the other one."""
    quick, slow = Life(), Life(subscription="audit")
    for number in range(20):
        quick.did(500 * number + 500, "w1", message(number), A, ms=200)
        slow.sent(500 * number + 500, "w1", message(number), A)
    for number in range(10):
        slow.acked(1_000 * number + 1_500, "w1", message(number), A)
    quick.sent(10_000, "w1", message(99), A, attempt=3).returned(10_200, "w1", message(99), A, attempt=3)
    slow.dropped(10_500, "w1", message(19), A)
    received_before(quick, 500)
    received_before(slow, 500)
    growing, shrinking = (row.asDict() for row in forecast(frames(spark, quick, slow)[0], 9).collect())
    assert growing == {
        "topic": TOPIC,
        "subscription": "audit",
        "observed_s": 10.5,
        "arrived": 20,
        "arrival_per_s": pytest.approx(20 / 10.5),
        "acked": 10,
        "acked_per_s": pytest.approx(10 / 10.5),
        "workers": 1,
        "service_per_s": 1.0,
        "outstanding": 9,
        "growth_per_s": pytest.approx(20 / 10.5 - 1),
        "drained_in_s": None,
        "workers_needed": 2,
        "workers_needed_to_drain": 3,
    }
    assert shrinking["subscription"] == "billing"
    assert (shrinking["observed_s"], shrinking["arrived"], shrinking["acked"]) == (10.2, 21, 20)
    # Twenty in 4 s; the one given back took no time of its own, since the worker had another.
    assert (shrinking["service_per_s"], shrinking["outstanding"]) == (5.0, 1)
    assert shrinking["drained_in_s"] == pytest.approx(1 / (5 - 21 / 10.2))
    assert (shrinking["workers_needed"], shrinking["workers_needed_to_drain"]) == (1, 1)


def test_what_only_metrics_know_is_taken_from_them(spark: SparkSession) -> None:
    """The latest of each gateway that still tells, added up; where they say nothing, the deliveries do."""
    life = Life().did(0, "old", message(1), A, ms=1_000)
    life.did(200_000, "w1", message(2), A, ms=1_000).did(210_000, "w2", message(3), A, ms=1_000)
    audit = Life(subscription="audit").sent(0, "w1", message(1), A).sent(1_000, "w1", message(2), A)
    rows = [
        *(measured(0, name, 70, "gw-gone") for name in ("workers", "unacked_messages", "waiting_messages")),
        measured(100_000, "workers", 50),
        measured(160_000, "workers", 3),
        measured(220_000, "workers", 2, "gw-2"),
        measured(220_000, "waiting_messages", 30, "gw-2"),
        measured(220_000, "waiting_messages", 12),
        measured(220_000, "unacked_messages", 4),
        measured(220_000, "waiting_messages", 9, subscription=None),
    ]
    metrics = spark.createDataFrame(rows, spark_schema(METRICS))
    deliveries = frames(spark, life, audit)[0]
    names = ("subscription", "workers", "outstanding", "service_per_s", "workers_needed_to_drain")
    told = {row["subscription"]: row for row in forecast(deliveries, 10, metrics).collect()}
    assert picked([told["billing"], told["audit"]], *names) == [("billing", 5, 46, 5.0, 5), ("audit", 1, 2, 0.0, None)]
    alone = {row["subscription"]: row for row in forecast(deliveries, 10).collect()}
    assert picked([alone["billing"]], *names) == [("billing", 2, 0, 2.0, 1)]


def test_what_is_kept_of_deliveries_is_used(spark: SparkSession) -> None:
    """Results are the same, and no second look at the rows makes it again."""
    deliveries = frames(spark, Life().did(2_000, "w1", message(1), A, ms=4_000).did(9_000, "w2", message(2), A, ms=5))[
        0
    ]
    held = holdings(deliveries).cache()
    for told, alone in (
        (rates(deliveries, held=held), rates(deliveries)),
        (summary(deliveries, held), summary(deliveries)),
    ):
        assert told.collect() == alone.collect() != []
        assert "InMemoryTableScan" in told._jdf.queryExecution().executedPlan().toString()
    held.unpersist()


def test_nothing_happened_is_nothing_told(spark: SparkSession) -> None:
    """Empty tables give empty reports; one moment without length divides by nothing, and is told as unknown."""
    deliveries, metrics = frames(spark)[0], spark.createDataFrame([], spark_schema(METRICS))
    empty: list[DataFrame] = [rates(deliveries), summary(deliveries), forecast(deliveries, metrics=metrics)]
    assert [table.collect() for table in empty] == [[], [], []]
    moment = frames(spark, Life().did(5, "w1", message(1), A, ms=0))[0]
    (row,) = summary(moment).collect()
    assert (row["acked"], row["acked_per_s"], row["occupied_share"], row["service_p50_ms"]) == (1, None, None, 0.0)
    (row,) = forecast(moment, metrics=metrics).collect()
    assert picked([row], "arrival_per_s", "service_per_s", "drained_in_s", "workers_needed") == [(None,) * 4]
