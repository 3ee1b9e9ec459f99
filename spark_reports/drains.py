"""Hand-overs: how long slots drained, who made others wait, and the worst with their story (PIP-379)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import SUBSCRIPTION
from spark_reports.quantiles import quantiles

CAUSES: Final = ("worker_joined", "worker_left", "operator_order")
"""Events that make slots drain."""


def with_causes(drains: DataFrame, events: DataFrame) -> DataFrame:
    """Each hand-over with what made its slot drain.

    Args:
        drains: rows of the journal's table of this name.
        events: likewise.

    Returns:
        `drains`' columns, and `cause` (`worker_joined w4`; null if no event of before is in the journal).
    """
    told = F.struct("at_ns", F.concat_ws(" ", "kind", "consumer").alias("words"))
    by_subscription = (
        events.where(F.col("kind").isin(*CAUSES))
        .groupBy(*SUBSCRIPTION, "life")
        .agg(F.array_sort(F.collect_list(told)).alias("causes"))
    )
    joined = drains.join(F.broadcast(by_subscription), [*SUBSCRIPTION, "life"], "left")
    before = F.filter("causes", lambda cause: cause["at_ns"] <= F.col("began_ns"))
    return joined.withColumn("cause", F.try_element_at(before, F.lit(-1))["words"]).drop("causes")


def summary(drains: DataFrame) -> DataFrame:
    """How long hand-overs took, by the worker that others waited for; the longest time in all first.

    Args:
        drains: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `holder` (that worker), `hand_overs`, `total_ms`, `p50_ms`, `p95_ms`, `p99_ms`,
        `max_ms`, `waited` (hand-overs at whose end a message waited), `waiting_messages` (of these, in all).
    """
    duration = F.col("duration_ns") / 1e6
    return (
        drains.groupBy(*SUBSCRIPTION, F.col("source").alias("holder"))
        .agg(
            F.count(F.lit(1)).alias("hand_overs"),
            (F.sum("duration_ns") / 1e6).alias("total_ms"),
            *quantiles(duration, "ms"),
            F.max(duration).alias("max_ms"),
            F.count(F.when(F.col("waiting_messages") > 0, 1)).alias("waited"),
            F.sum("waiting_messages").alias("waiting_messages"),
        )
        .orderBy(F.desc("total_ms"), *SUBSCRIPTION, "holder")
    )


def worst(drains: DataFrame, events: DataFrame, count: int = 20) -> DataFrame:
    """The longest hand-overs with waiting messages at their end, with their causes.

    Args:
        drains: rows of the journal's table of this name.
        events: likewise.
        count: maximum number of rows.

    Returns:
        `topic`, `subscription`, `gateway`, `slot`, `holder`, `owner`, `began_wall_ns`, `duration_ms`,
        `waiting_messages`, `cause`.
    """
    return (
        with_causes(drains.where(F.col("waiting_messages") > 0), events)
        .select(
            *SUBSCRIPTION,
            "gateway",
            "slot",
            F.col("source").alias("holder"),
            F.col("target").alias("owner"),
            (F.col("wall_ns") - F.col("duration_ns")).alias("began_wall_ns"),
            (F.col("duration_ns") / 1e6).alias("duration_ms"),
            "waiting_messages",
            "cause",
        )
        .orderBy(F.desc("duration_ms"), "slot")
        .limit(count)
    )


def timeline(drains: DataFrame, count: int = 2_000) -> DataFrame:
    """Hand-overs one by one, for a plot: the longest, as time went.

    Args:
        drains: rows of the journal's table of this name.
        count: maximum number of rows.

    Returns:
        `topic`, `subscription`, `slot`, `holder`, `owner`, `began_wall_ns`, `ended_wall_ns`, `duration_ms`.
    """
    return (
        drains.select(
            *SUBSCRIPTION,
            "slot",
            F.col("source").alias("holder"),
            F.col("target").alias("owner"),
            (F.col("wall_ns") - F.col("duration_ns")).alias("began_wall_ns"),
            F.col("wall_ns").alias("ended_wall_ns"),
            (F.col("duration_ns") / 1e6).alias("duration_ms"),
        )
        .orderBy(F.desc("duration_ms"), "began_wall_ns", "slot")
        .limit(count)
        .orderBy("began_wall_ns", "slot")
    )
