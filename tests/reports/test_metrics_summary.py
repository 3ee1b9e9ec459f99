"""What `/metrics` showed is summed up series by series, and counters over every beginning."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from admin_api.metrics import families
from proxy.journal.schema import METRICS
from spark_reports.metrics_summary import DRAINING, by_day, series
from spark_reports.schemas import spark_schema
from tests.reports.journal_made import MS, SUBSCRIPTION, TOPIC, WALL_NS

HASHES = "keyline_subscription_draining_hashes"
CLEARED = "keyline_subscription_draining_hashes_cleared_total"
STATE = "keyline_subscription_upstream_state"
READY = "keyline_gateway_ready"


def sample(
    at: int,
    name: str,
    value: float,
    *,
    subscription: str | None = SUBSCRIPTION,
    consumer: str | None = None,
    labels: dict[str, str] | None = None,
    life: str = "life-1",
    began: int = 0,
    gateway: str = "gw-1",
    date: str = "2027-01-15",
) -> dict[str, Any]:
    """One row; times in milliseconds of the wall clock, `began` that of the life's clock's beginning."""
    return {
        "life": life,
        "at_ns": (at - began) * MS,
        "wall_ns": WALL_NS + at * MS,
        "name": name,
        "topic": None if subscription is None else TOPIC,
        "subscription": subscription,
        "consumer": consumer,
        "labels": labels or {},
        "value": value,
        "date": date,
        "hour": "08",
        "gateway": gateway,
    }


def table(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Of these rows."""
    return spark.createDataFrame(list(rows), spark_schema(METRICS))


def days(metrics: DataFrame) -> list[dict[str, Any]]:
    """What `by_day` finds."""
    return [row.asDict() for row in by_day(metrics).collect()]


def test_chosen_series_are_told_sample_by_sample(spark: SparkSession) -> None:
    """In time, each by itself: gateways, subscriptions and consumers are not mixed."""
    consumers = "keyline_worker_draining_hashes"
    metrics = table(
        spark,
        sample(20, HASHES, 4.0),
        sample(10, HASHES, 3.0),
        sample(10, HASHES, 9.0, subscription="audit"),
        sample(10, HASHES, 8.0, gateway="gw-2", life="life-2"),
        sample(10, consumers, 1.0, consumer="w1"),
        sample(10, consumers, 2.0, consumer="w2"),
        sample(10, READY, 1.0, subscription=None),
    )
    found = series(metrics)
    assert found.columns[:6] == ["gateway", "topic", "subscription", "consumer", "name", "labels"]
    assert [tuple(row) for row in found.drop("topic", "labels").collect()] == [
        ("gw-1", "audit", None, HASHES, "life-1", WALL_NS + 10 * MS, 9.0),
        ("gw-1", SUBSCRIPTION, None, HASHES, "life-1", WALL_NS + 10 * MS, 3.0),
        ("gw-1", SUBSCRIPTION, None, HASHES, "life-1", WALL_NS + 20 * MS, 4.0),
        ("gw-1", SUBSCRIPTION, "w1", consumers, "life-1", WALL_NS + 10 * MS, 1.0),
        ("gw-1", SUBSCRIPTION, "w2", consumers, "life-1", WALL_NS + 10 * MS, 2.0),
        ("gw-2", SUBSCRIPTION, None, HASHES, "life-2", WALL_NS + 10 * MS, 8.0),
    ]
    (ready,) = series(metrics, [READY]).collect()
    assert (ready["topic"], ready["labels"], ready["value"]) == (None, "{}", 1.0)


def test_the_names_asked_for_are_exported() -> None:
    """Whoever renames a metric renames it here."""
    exported = {family.name for family in (*families.SUBSCRIPTION, *families.WORKER)}
    assert set(DRAINING) <= exported


def test_a_day_of_a_gauge_is_told_in_a_few_numbers(spark: SparkSession) -> None:
    """It has no increase; the last value is the latest one, whichever row comes last."""
    values = [sample(30, HASHES, 1.0), sample(10, HASHES, 6.0), sample(20, HASHES, 2.0)]
    audit = sample(10, HASHES, 50.0, subscription="audit")
    tomorrow = sample(86_400_000, HASHES, 7.0, date="2027-01-16")
    assert days(table(spark, *values, audit, tomorrow))[1] == {
        "date": "2027-01-15",
        "gateway": "gw-1",
        "topic": TOPIC,
        "subscription": SUBSCRIPTION,
        "consumer": None,
        "name": HASHES,
        "labels": "{}",
        "samples": 3,
        "min": 1.0,
        "mean": 3.0,
        "max": 6.0,
        "last": 1.0,
        "increase": None,
    }


def test_a_counter_grows_over_lives_and_midnight(spark: SparkSession) -> None:
    """What it had at the first snapshot counts nothing; a fall, and a life that comes later, begin at 0."""
    metrics = table(
        spark,
        sample(10, CLEARED, 100.0),
        sample(20, CLEARED, 130.0),
        sample(30, CLEARED, 5.0),  # the subscription ended and began anew
        sample(40, CLEARED, 6.0, life="life-2", began=35),
        sample(50, CLEARED, 6.0, life="life-2", began=35),
        sample(86_400_000, CLEARED, 16.0, life="life-2", began=35, date="2027-01-16"),
        sample(40, CLEARED, 1_000.0, gateway="gw-2", life="life-3"),
        sample(50, CLEARED, 1_001.0, gateway="gw-2", life="life-3"),
        sample(20, CLEARED, 7.0, subscription="late"),
    )
    assert [(row["date"], row["gateway"], row["subscription"], row["increase"]) for row in days(metrics)] == [
        ("2027-01-15", "gw-1", SUBSCRIPTION, 30.0 + 5.0 + 6.0),
        ("2027-01-15", "gw-1", "late", 7.0),
        ("2027-01-15", "gw-2", SUBSCRIPTION, 1.0),
        ("2027-01-16", "gw-1", SUBSCRIPTION, 10.0),
    ]


def test_both_numbers_of_a_histogram_are_counters(spark: SparkSession) -> None:
    """A gauge in seconds is none."""
    latency, wait = "keyline_subscription_ack_latency_seconds", "keyline_subscription_oldest_wait_seconds"
    names = (f"{latency}_count", f"{latency}_sum", wait)
    metrics = table(spark, *(sample(at, name, float(at)) for name in names for at in (10, 13)))
    assert [(row["name"], row["increase"]) for row in days(metrics)] == [
        (f"{latency}_count", 3.0),
        (f"{latency}_sum", 3.0),
        (wait, None),
    ]


def test_labels_tell_series_apart_in_whatever_order(spark: SparkSession) -> None:
    """Those of other values are another series."""
    metrics = table(
        spark,
        sample(10, STATE, 1.0, labels={"state": "ready", "also": "x"}),
        sample(20, STATE, 0.0, labels={"state": "ready", "also": "x"}),
        sample(10, STATE, 0.0, labels={"state": "closed", "also": "x"}),
    )
    # Python's maps reach Spark in an order of its own.
    turned = F.map_from_entries(F.reverse(F.map_entries("labels")))
    mixed = metrics.withColumn("labels", F.when(F.col("value") == 0, turned).otherwise(F.col("labels")))
    assert [(row["labels"], row["samples"], row["max"]) for row in days(mixed)] == [
        ('{"also":"x","state":"closed"}', 1, 0.0),
        ('{"also":"x","state":"ready"}', 2, 1.0),
    ]


def test_of_nothing_there_is_no_summary(spark: SparkSession) -> None:
    """An empty journal is no error, nor are names that nothing has."""
    assert days(table(spark)) == []
    assert series(table(spark)).collect() == []
    assert series(table(spark, sample(10, READY, 1.0)), []).collect() == []
