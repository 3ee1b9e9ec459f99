"""What policies and operators took from workers: ack leases, quarantines, dead letters, parked keys, orders.

These explain gaps of a worker, and messages that came again without its having asked for it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

KINDS: Final = (
    *("ack_lease_lost", "worker_quarantined", "quarantine_ended"),
    *("dead_letters", "dead_letters_wait", "parked", "parked_wait", "redriven", "parked_dropped", "redrive_failed"),
    "parked_gone",
)
ORDER: Final = "operator_order"
FACTS: Final = "order string, messages long, messages_count long, held_s double"


def by_worker(events: DataFrame) -> DataFrame:
    """How often each happened to each worker.

    Args:
        events: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `kind` (for an operator's order: `operator: ` and what it was), `consumer` (null if
        none is named), `count`, `messages` (that were concerned; null where no event says), `longest_held_s` (before a
        lease was lost), `first_wall_ns`, `last_wall_ns`.
    """
    told = events.where(F.col("kind").isin(*KINDS, ORDER)).withColumn("fact", F.from_json("facts", FACTS))
    ordered = F.concat(F.lit("operator: "), F.coalesce("fact.order", F.lit("?")))
    return (
        told.withColumn("kind", F.when(F.col("kind") == ORDER, ordered).otherwise(F.col("kind")))
        .groupBy("topic", "subscription", "kind", "consumer")
        .agg(
            F.count(F.lit(1)).alias("count"),
            F.sum(F.coalesce("fact.messages_count", "fact.messages")).alias("messages"),
            F.max("fact.held_s").alias("longest_held_s"),
            F.min("wall_ns").alias("first_wall_ns"),
            F.max("wall_ns").alias("last_wall_ns"),
        )
        .orderBy("topic", "subscription", "kind", "consumer")
    )
