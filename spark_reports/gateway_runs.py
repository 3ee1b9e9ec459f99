"""The runs of gateways in a journal, and their anomalies: killed, two with one name at once, clocks that jumped.

No anomaly makes the audit wrong, because it compares only times of one run's own clock. But the last rows of a run that
was killed are missing; and partitions, `--from` and `--to`, and everything that is drawn over time go by the wall
clock.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import RUN
from spark_reports.holdings import goes_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

ODD_NS: Final = 1_000_000_000
"""Less is what clocks do."""
SEEN: Final = ("rows", "first_wall_ns", "last_wall_ns", "ahead_min_ns", "ahead_max_ns")


def presence(deliveries: DataFrame, counted: DataFrame) -> DataFrame:
    """Who took part in what, and how much of it: a small table from one look at all rows.

    Args:
        deliveries: rows of the journal's table of this name.
        counted: what `coverage.counted` gives.

    Returns:
        `gateway`, `life`, `topic`, `subscription`, `consumer`; `rows` and the other columns that `runs` needs;
        `deliveries` (its rows `sent`), `counted` (what the gateway counted of run and subscription, or null),
        `sent_then` (rows `sent` of that time), and `goes_whole`, for `holdings.numbered`.
    """
    at = F.col("at_ns")
    sent = F.col("event") == "sent"
    then = sent & (at > F.col("since_ns")) & (at <= F.col("until_ns"))
    return (
        deliveries.join(F.broadcast(counted), list(RUN), "left")
        .groupBy("gateway", *RUN, "consumer")
        .agg(
            *_seen(),
            F.count(F.when(sent, 1)).alias("deliveries"),
            F.max("counted").alias("counted"),
            F.count(F.when(then, 1)).alias("sent_then"),
            goes_whole(),
        )
    )


def runs(present: DataFrame, tables: Sequence[DataFrame] = (), killed: Collection[str] = ()) -> DataFrame:
    """Every run, in the order in which a gateway's began.

    Args:
        present: what `presence` gives.
        tables: rows of the journal's other tables.
        killed: runs of which it is known (`reading.Journal.killed`).

    Returns:
        `gateway`, `life`, `rows`, `deliveries` (of these, sent messages), `first_wall_ns`, `last_wall_ns`,
        `clock_moved_ns` (how far the wall clock moved against the run's own), `beside` (a run of the same gateway that
        had not ended when this one began, or null), `killed`.
    """
    seen = [table.groupBy("gateway", "life").agg(*_seen(), F.lit(0).alias("deliveries")) for table in tables]
    found = (
        reduce(DataFrame.unionByName, seen, present.select("gateway", "life", *SEEN, "deliveries"))
        .groupBy("gateway", "life")
        .agg(
            F.sum("rows").alias("rows"),
            F.sum("deliveries").alias("deliveries"),
            F.min("first_wall_ns").alias("first_wall_ns"),
            F.max("last_wall_ns").alias("last_wall_ns"),
            (F.max("ahead_max_ns") - F.min("ahead_min_ns")).alias("clock_moved_ns"),
        )
    )
    in_time = Window.partitionBy("gateway").orderBy("first_wall_ns", "life")
    before = F.max(F.struct("last_wall_ns", "life")).over(in_time.rowsBetween(Window.unboundedPreceding, -1))
    return (
        found.withColumn("before", before)
        .withColumn(
            "beside", F.when(F.col("before.last_wall_ns") > F.col("first_wall_ns") + ODD_NS, F.col("before.life"))
        )
        .drop("before")
        .withColumn("killed", F.col("life").isin(*killed))
        .orderBy("gateway", "first_wall_ns", "life")
    )


def _seen() -> list[Column]:
    """Aggregates that `runs` is made of: `SEEN`."""
    ahead = F.col("wall_ns") - F.col("at_ns")
    found = (F.count(F.lit(1)), F.min("wall_ns"), F.max("wall_ns"), F.min(ahead), F.max(ahead))
    return [column.alias(name) for column, name in zip(found, SEEN, strict=True)]


def odd(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs with anomalies, of the rows that `runs` gives."""
    return [run for run in found if run["beside"] or run["clock_moved_ns"] > ODD_NS or run["killed"]]
