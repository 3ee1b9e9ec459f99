"""Hand-overs: how long slots drained, who made others wait, and the worst with their story (PIP-379)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import SUBSCRIPTION
from spark_reports.quantiles import quantiles

CAUSES: Final = ("worker_joined", "worker_left")
"""Events that make slots drain."""
UNKNOWN: Final = "unknown"
MOVES: Final = "moves array<struct<start: int, end: int, source: string>>"


def with_causes(drains: DataFrame, events: DataFrame) -> DataFrame:
    """Each hand-over with what made its slot drain.

    The gateway writes it down. In a journal of version 1 it did not, and its events have times after the drains that
    they began, so that no order of times tells. There the cause is the event that took the slot from the worker that
    had its messages, while these drained: no second event can.

    Args:
        drains: rows of the journal's table of this name.
        events: likewise.

    Returns:
        `drains`' columns, with `cause` in words (`worker_joined w4`), or `unknown` where no row tells it.
    """
    change = F.struct(
        "at_ns",
        F.concat_ws(" ", "kind", "consumer").alias("words"),
        F.from_json("facts", MOVES)["moves"].alias("moves"),
    )
    by_subscription = (
        events.where(F.col("kind").isin(*CAUSES))
        .groupBy(*SUBSCRIPTION, "life")
        .agg(F.collect_list(change).alias("changes"))
    )
    joined = drains.join(F.broadcast(by_subscription), [*SUBSCRIPTION, "life"], "left")
    found = F.try_element_at(F.filter("changes", _took_the_slot), F.lit(1))["words"]
    written = F.when(F.col("cause").isNotNull(), F.concat_ws(" ", "cause", "cause_consumer"))
    return joined.withColumn("cause", F.coalesce(written, found, F.lit(UNKNOWN))).drop("changes", "cause_consumer")


def _took_the_slot(change: Column) -> Column:
    """Whether a change moved the drain's slot away from its holder while it drained."""
    in_time = (change["at_ns"] >= F.col("began_ns")) & (change["at_ns"] <= F.col("at_ns"))
    slot = F.col("slot")
    moved = F.exists(
        change["moves"],
        lambda move: (move["start"] <= slot) & (slot <= move["end"]) & (move["source"] == F.col("source")),
    )
    return in_time & F.coalesce(moved, F.lit(False))


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
            *quantiles(duration),
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
    longest = (
        drains.where(F.col("waiting_messages") > 0).orderBy(F.desc("duration_ns"), *SUBSCRIPTION, "slot").limit(count)
    )
    return (
        with_causes(longest, events)
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
        .orderBy(F.desc("duration_ms"), *SUBSCRIPTION, "slot")
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
