"""What `/metrics` showed in the course of time: series for plots, and each day in a few numbers (`docs/metrics.md`).

A series is a metric's name, whose it is and all its other labels. Spark groups by no map, so labels are told as JSON
with their names in order: equal labels are equal texts. Nulls (no topic, no consumer) are a value like others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column

SERIES: Final = ("gateway", "topic", "subscription", "consumer", "name", "labels")

DRAINING: Final = (
    "keyline_subscription_draining_hashes",
    "keyline_subscription_draining_hashes_unacked_messages",
    "keyline_subscription_draining_hashes_cleared_total",
    "keyline_worker_draining_hashes",
    "keyline_worker_draining_hashes_cleared_total",
)
"""PIP-379's numbers; a worker's are exported where `metrics_workers_max` lets them.

The last sent positions of PIP-282 are no metric: the admin API's consumers have them.
"""

COUNTERS: Final = r"(_total|_seconds_count|_seconds_sum)$"
"""Ends of counters' names, a histogram's two numbers among them. They fall only where a subscription restarted."""

DIGITS: Final = 9
"""Behind the point, of sums: the last ones would depend on which number came first."""


def series(metrics: DataFrame, names: Iterable[str] = DRAINING) -> DataFrame:
    """Chosen metrics as they were sampled.

    Args:
        metrics: rows of the journal's table of this name.
        names: as they are exported.

    Returns:
        `gateway`, `topic`, `subscription`, `consumer`, `name`, `labels` (JSON), `life`, `wall_ns`, `value`; a series'
        samples one after another.
    """
    return (
        _identified(metrics.where(F.col("name").isin(*names)))
        .select(*SERIES, "life", "wall_ns", "value")
        .orderBy(*SERIES, "wall_ns")
    )


def by_day(metrics: DataFrame) -> DataFrame:
    """Each series by days of UTC.

    Within one run a counter grows by the difference between a sample and the one before it, also over midnight. One
    that fell restarted at 0 and has grown to its value, as in Prometheus. So has one whose run or subscription
    began after the gateway's first snapshot here. What counters had counted at that first snapshot is not known to be
    of this time, and counts nothing.

    A worker that `metrics_workers_max` kept out of earlier snapshots comes in with all that it has counted in its
    run.

    Args:
        metrics: rows of the journal's table of this name.

    Returns:
        `date`, `gateway`, `topic`, `subscription`, `consumer`, `name`, `labels` (JSON), `samples`, `min`, `mean`,
        `max`, `last`, and `increase`, which is null for what is no counter. Values are in the unit that the name tells.
    """
    rows = _identified(metrics)
    first = rows.groupBy("gateway").agg(F.min("wall_ns").alias("first_wall_ns"))
    value, before = F.col("value"), F.col("before")
    grown = (
        F.when(~F.col("name").rlike(COUNTERS), None)
        .when(before <= value, value - before)
        .when(before.isNull() & (F.col("wall_ns") == F.col("first_wall_ns")), 0.0)
        .otherwise(value)
    )
    return (
        rows.join(F.broadcast(first), "gateway")
        .withColumn("before", F.lag("value").over(Window.partitionBy(*SERIES, "life").orderBy("at_ns")))
        .withColumn("grown", grown)
        .groupBy("date", *SERIES)
        .agg(
            F.count(F.lit(1)).alias("samples"),
            F.min("value").alias("min"),
            F.round(F.mean("value"), DIGITS).alias("mean"),
            F.max("value").alias("max"),
            F.max_by("value", F.struct("wall_ns", "at_ns")).alias("last"),
            F.round(F.sum("grown"), DIGITS).alias("increase"),
        )
        .orderBy("date", *SERIES)
    )


def _identified(metrics: DataFrame) -> DataFrame:
    """With labels as a text that tells them apart."""
    return metrics.withColumn("labels", _canonical(F.col("labels")))


def _canonical(labels: Column) -> Column:
    """Maps with the same entries in another order are the same."""
    in_order = F.map_from_entries(F.array_sort(F.map_entries(labels)))
    return F.coalesce(F.to_json(in_order), F.lit("{}"))
