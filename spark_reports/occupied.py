"""When workers had something to do: what capacity is made of."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import RUN, WORKER


def holdings(deliveries: DataFrame) -> DataFrame:
    """A row for each delivery of each message: from `sent_ns` to `until_ns`, `how` it ended (null if it did not).

    An end tells when its delivery was sent, so a delivery counts even if its row `sent` is not here. With
    `ahead_ns`, what the wall's clock was ahead of the run's, and `life_ended_ns`, when the last of the subscription
    is known in this run.
    """
    run_ended = deliveries.groupBy(*RUN).agg(F.max("at_ns").alias("life_ended_ns"))
    ended = F.col("event") != "sent"
    return (
        deliveries.groupBy(*WORKER, "life", "ledger", "entry", "batch_index", "attempt", "sent_ns")
        .agg(
            F.min(F.when(ended, F.col("at_ns"))).alias("ended_ns"),
            F.min_by(F.when(ended, F.col("event")), F.when(ended, F.col("at_ns"))).alias("how"),
            F.max(F.col("wall_ns") - F.col("at_ns")).alias("ahead_ns"),
        )
        .join(F.broadcast(run_ended), list(RUN))
        # Never backwards: one row that is wrong should not be the end of a report.
        .withColumn("until_ns", F.greatest("sent_ns", F.coalesce("ended_ns", "life_ended_ns")))
        .drop("ended_ns")
    )


def occupied_times(held: DataFrame) -> DataFrame:
    """Each worker's occupied times in each run, which do not overlap: from `sent_ns` to `until_ns`, and `ahead_ns`."""
    in_time = Window.partitionBy(*WORKER, "life").orderBy("sent_ns", "until_ns", "ledger", "entry", "batch_index")
    before = F.max("until_ns").over(in_time.rowsBetween(Window.unboundedPreceding, -1))
    anew = F.when(F.col("sent_ns") > before, 1).otherwise(0)
    run = F.sum("anew").over(in_time.rowsBetween(Window.unboundedPreceding, 0))
    return (
        held.withColumn("anew", anew)
        .withColumn("run", run)
        .groupBy(*WORKER, "life", "run")
        .agg(
            F.min("sent_ns").alias("sent_ns"),
            F.max("until_ns").alias("until_ns"),
            F.max("ahead_ns").alias("ahead_ns"),
        )
        .drop("run")
    )


def within_windows(occupied: DataFrame, window_ns: Column) -> DataFrame:
    """How much of which windows that is: `occupied_ns`, more than nothing."""
    began, ended = F.col("sent_ns") + F.col("ahead_ns"), F.col("until_ns") + F.col("ahead_ns")
    start = F.col("window_start_ns")
    overlap = F.least("ended_ns", start + window_ns) - F.greatest("began_ns", start)
    windows = F.sequence(began - began % window_ns, ended - ended % window_ns, window_ns)
    return (
        occupied.withColumns({"began_ns": began, "ended_ns": ended})
        .withColumn("window_start_ns", F.explode(windows))
        .select(*WORKER, "window_start_ns", overlap.alias("occupied_ns"))
        .where(F.col("occupied_ns") > 0)
    )
