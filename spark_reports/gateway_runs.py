"""The runs of gateways in a journal, and their anomalies: killed, two with one name at once, clocks that jumped.

No anomaly makes the audit wrong, because it compares only times of one run's own clock. But the last rows of a run that
was killed are missing; and partitions, `--from` and `--to`, and everything that is drawn over time go by the wall
clock.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

ODD_NS: Final = 1_000_000_000
"""Less is what clocks do."""


def runs(tables: Sequence[DataFrame], killed: Collection[str] = ()) -> DataFrame:
    """Every run, in the order in which a gateway's began.

    Args:
        tables: rows of any of the journal's tables.
        killed: runs of which it is known (`reading.Journal.killed`).

    Returns:
        `gateway`, `life`, `rows`, `first_wall_ns`, `last_wall_ns`, `clock_moved_ns` (how far the wall clock moved
        against the run's own), `beside` (a run of the same gateway that had not ended when this one began, or null),
        `killed`.
    """
    columns = [table.select("gateway", "life", "at_ns", "wall_ns") for table in tables]
    ahead = F.col("wall_ns") - F.col("at_ns")
    found = (
        reduce(DataFrame.unionByName, columns)
        .groupBy("gateway", "life")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.min("wall_ns").alias("first_wall_ns"),
            F.max("wall_ns").alias("last_wall_ns"),
            (F.max(ahead) - F.min(ahead)).alias("clock_moved_ns"),
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


def odd(found: DataFrame) -> DataFrame:
    """The runs with anomalies.

    Args:
        found: what `runs` gives.

    Returns:
        The same columns.
    """
    return found.where(F.col("beside").isNotNull() | (F.col("clock_moved_ns") > ODD_NS) | F.col("killed"))
