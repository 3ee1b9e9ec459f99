"""What came back from workers: who gave back most, when a storm of it blew, and which messages never get through.

Two tables tell of it. `redeliveries` is always written and counts by occasion: a worker gave messages back, let them
time out, or left. `deliveries` is there only with `journal_deliveries`, and names the messages.

`attempt` begins at 1 in each run of the gateway, so a message that is poison over several runs has a row for each.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import RUN, SUBSCRIPTION, message_name, wall_ns_of, window_start_ns

MESSAGE: Final = (*RUN, "ledger", "entry", "batch_index")
STORM_MESSAGES: Final = 1_000
"""A client's receiver queue, by default: what one worker that leaves gives back at the most is no storm."""
POISON_ATTEMPTS: Final = 3
"""One failure may be chance, and the next a worker that left."""


def by_consumer(redeliveries: DataFrame) -> DataFrame:
    """Which workers messages came back from.

    Args:
        redeliveries: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `consumer`, `occasions`, `messages`, `first_wall_ns`, `last_wall_ns` (of the
        occasions); most messages first.
    """
    return (
        redeliveries.groupBy(*SUBSCRIPTION, "consumer")
        .agg(
            F.count(F.lit(1)).alias("occasions"),
            F.sum("messages").alias("messages"),
            F.min("wall_ns").alias("first_wall_ns"),
            F.max("wall_ns").alias("last_wall_ns"),
        )
        .orderBy(F.desc("messages"), *SUBSCRIPTION, "consumer")
    )


def storms(redeliveries: DataFrame, window_s: int = 60, threshold: int = STORM_MESSAGES) -> DataFrame:
    """Times in which very many messages of a subscription came back.

    Args:
        redeliveries: rows of the journal's table of this name.
        window_s: length of consecutive windows in seconds, counted from 1970.
        threshold: told are windows with more messages than this.

    Returns:
        `topic`, `subscription`, `window_start_ns` (wall time), `messages`, `occasions`, `consumers` (how many they
        came from); most messages first.
    """
    start = window_start_ns(F.col("wall_ns"), window_s)
    return (
        redeliveries.groupBy(*SUBSCRIPTION, start.alias("window_start_ns"))
        .agg(
            F.sum("messages").alias("messages"),
            F.count(F.lit(1)).alias("occasions"),
            F.count_distinct("consumer").alias("consumers"),
        )
        .where(F.col("messages") > threshold)
        .orderBy(F.desc("messages"), *SUBSCRIPTION, "window_start_ns")
    )


def poisoned(deliveries: DataFrame, attempts_min: int = POISON_ATTEMPTS, count: int = 20) -> DataFrame:
    """Messages that were delivered again and again.

    Args:
        deliveries: rows of the journal's table of this name.
        attempts_min: minimum number of deliveries in one run.
        count: maximum number of rows.

    Returns:
        `topic`, `subscription`, `life`, `key_digest`, `key` (null unless the journal has plain keys), `slot`, `message`
        (`ledger:entry:batch_index`), `attempts` (the greatest), `consumers` (how many had it), `acked` (whether it
        ever was, in this run), `first_sent_ns`, `last_sent_ns` (wall time); most attempts first.
    """
    return (
        _often_delivered(deliveries, attempts_min)
        .select(
            *RUN,
            "key_digest",
            "key",
            "slot",
            message_name().alias("message"),
            "attempts",
            "consumers",
            F.col("acked_ns").isNotNull().alias("acked"),
            "first_sent_ns",
            "last_sent_ns",
        )
        .orderBy(F.desc("attempts"), "first_sent_ns", *RUN, "message")
        .limit(count)
    )


def poisoned_keys(deliveries: DataFrame, attempts_min: int = POISON_ATTEMPTS, count: int = 20) -> DataFrame:
    """Keys with such messages, and how long the first of these was in the way.

    A key counts as blocked from the first delivery of its first such message until this message's acknowledgement. If
    there is none, until the gateway dropped it, or else until the last row of the subscription in that run: so long it
    is known to have been unacknowledged.

    Args:
        deliveries: rows of the journal's table of this name.
        attempts_min: as in `poisoned`.
        count: maximum number of rows.

    Returns:
        `topic`, `subscription`, `life`, `key_digest`, `key` (null unless the journal has plain keys), `slot`,
        `messages` (poisoned ones), `unacked_messages` (of these, never acknowledged), `in_vain` (deliveries of these
        that were given back), `first_sent_ns` (wall time), `blocked_ms`; most deliveries in vain first.
    """
    run_ended = deliveries.groupBy(*RUN).agg(F.max("at_ns").alias("life_ended_ns"))
    until = F.coalesce("acked_ns", F.when(F.col("last.event") == "dropped", F.col("last.at_ns")), "life_ended_ns")
    first = Window.partitionBy(*RUN, "key_digest").orderBy("began_ns", "ledger", "entry", "batch_index")
    return (
        _often_delivered(deliveries, attempts_min)
        .join(F.broadcast(run_ended), list(RUN))
        .withColumn("blocked_ms", (until - F.col("began_ns")) / 1e6)
        .withColumn("place", F.row_number().over(first))
        .groupBy(*RUN, "key_digest")
        .agg(
            F.max("key").alias("key"),
            F.max("slot").alias("slot"),
            F.count(F.lit(1)).alias("messages"),
            F.count(F.when(F.col("acked_ns").isNull(), 1)).alias("unacked_messages"),
            F.sum("in_vain").alias("in_vain"),
            F.min("first_sent_ns").alias("first_sent_ns"),
            F.max(F.when(F.col("place") == 1, F.col("blocked_ms"))).alias("blocked_ms"),
        )
        .orderBy(F.desc("in_vain"), F.desc("blocked_ms"), *RUN, "key_digest")
        .limit(count)
    )


def _often_delivered(deliveries: DataFrame, attempts_min: int) -> DataFrame:
    """A row for each message of each run with that many deliveries or more; times are by the run's clock."""
    sent_wall_ns = wall_ns_of("sent_ns")
    # Few messages are, so these are looked for first: by a filter that reading the files can use.
    often = deliveries.where(F.col("attempt") >= attempts_min).select(*MESSAGE).distinct()
    return (
        deliveries.join(often, list(MESSAGE), "left_semi")
        .groupBy(*MESSAGE)
        .agg(
            F.max("key_digest").alias("key_digest"),
            F.max("key").alias("key"),
            F.max("slot").alias("slot"),
            F.max("attempt").alias("attempts"),
            F.count_distinct("consumer").alias("consumers"),
            F.max(_at("acked")).alias("acked_ns"),
            F.count(_at("returned")).alias("in_vain"),
            F.max(F.struct("at_ns", "attempt", F.col("event") != "sent", "event")).alias("last"),
            F.min("sent_ns").alias("began_ns"),
            F.min(sent_wall_ns).alias("first_sent_ns"),
            F.max(sent_wall_ns).alias("last_sent_ns"),
        )
    )


def _at(event: str) -> Column:
    """When this happened; null if another thing did."""
    return F.when(F.col("event") == event, F.col("at_ns"))
