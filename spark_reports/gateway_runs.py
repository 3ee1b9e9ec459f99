"""The lives of gateways in a journal, and what is odd about them: killed, two of one name at once, clocks that jumped.

None makes the audit wrong, which compares times of one life's own clock only. But the last rows of a life that was
killed are missing; and partitions, `--from` and `--to`, and everything that is drawn over time go by the wall clock.
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
    """Every life, in the order in which a gateway's began.

    Args:
        tables: rows of any of the journal's tables.
        killed: lives of which it is known (`reading.Journal.killed`).

    Returns:
        `gateway`, `life`, `rows`, `first_wall_ns`, `last_wall_ns`, `clock_moved_ns` (how far the wall clock moved
        against the life's own), `beside` (a life of the same gateway that had not ended when this one began, or null),
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
    """Those that somebody should know of.

    Args:
        found: what `lives` gives.

    Returns:
        The same columns.
    """
    return found.where(F.col("beside").isNotNull() | (F.col("clock_moved_ns") > ODD_NS) | F.col("killed"))
