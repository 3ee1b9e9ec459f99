"""Proves or refutes the gateway's contract from the record of messages: order, one holder, nothing lost or repeated.

A *holding* is one delivery of one message to one worker: from when it was given to the worker until it was
acknowledged, given back or dropped there. Five questions, each with its evidence:

- `overlap`: two workers held messages of one key at the same time.
- `inversion`: a message was delivered for the first time after a later one of its key.
- `never_acked`: what was delivered ended without an acknowledgement, and was never delivered again in that life.
- `never_delivered`: an acknowledgement of what that worker was never sent.
- `repeated`: a message was delivered again though nobody had given it back, nor the gateway dropped it.

Compared are times of one `life` of one gateway only, whose clock never goes back. Order is looked at within one life of
the subscription (a seek or a replay begins another). Subscriptions in the mode `unordered` promise no order: they are
left out of the first two questions.

DataFrame API and built-in functions only: everything of a key is brought together once, by the hash of its topic,
subscription, life and digest, and each question is a window or a sum over that.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

KEY: Final = ("topic", "subscription", "life", "key_digest")
MESSAGE: Final = (*KEY, "ledger", "entry", "batch_index")
DELIVERY: Final = (*MESSAGE, "consumer", "attempt")

VIOLATIONS: Final = (
    "violation",
    "gateway",
    *KEY,
    "slot",
    "message",
    "consumer",
    "at_ns",
    "other",
    "other_consumer",
    "detail",
)
"""Columns of what `violations` gives: the message and worker it is about, and the other one of a pair, if it is one."""

MARKERS: Final = ("subscription_began", "group_replayed")
"""Events behind which messages of before may come once more, in their order."""


def holdings(deliveries: DataFrame) -> DataFrame:
    """One row for each delivery of each message.

    Args:
        deliveries: rows of the journal's table of this name.

    Returns:
        `DELIVERY`, `gateway`, `slot`, `sent_ns` (null if no row says that it was sent), `ended_ns` and `how` (null
        while it lasts), `ends` (how many rows say that it ended).
    """
    ended = F.col("event") != "sent"
    return (
        deliveries.repartition(*KEY)
        .groupBy(*DELIVERY)
        .agg(
            F.min("gateway").alias("gateway"),
            F.min("slot").alias("slot"),
            F.min(F.when(~ended, F.col("sent_ns"))).alias("sent_ns"),
            F.min(F.when(ended, F.col("at_ns"))).alias("ended_ns"),
            F.min_by(F.when(ended, F.col("event")), F.when(ended, F.col("at_ns"))).alias("how"),
            F.count(F.when(ended, 1)).alias("ends"),
        )
    )


def violations(deliveries: DataFrame, events: DataFrame) -> DataFrame:
    """Everything that must not be; empty if the contract was kept.

    Args:
        deliveries: rows of the journal's table of this name.
        events: likewise.

    Returns:
        `VIOLATIONS`, one row for each.
    """
    held = _in_segments(holdings(deliveries), events).cache()
    ordered = held.where(~F.col("unordered"))
    found = (
        overlaps(ordered),
        inversions(ordered),
        _never_acked(held),
        _never_delivered(held),
        _repeated(held),
    )
    result = found[0]
    for each in found[1:]:
        result = result.unionByName(each)
    return result


def overlaps(held: DataFrame) -> DataFrame:
    """Two workers that held messages of one key at once: runs of one worker's deliveries must not overlap."""
    in_time = Window.partitionBy(*KEY).orderBy("sent_ns", "ledger", "entry", "batch_index")
    changes = F.coalesce((F.lag("consumer").over(in_time) != F.col("consumer")).cast("int"), F.lit(0))
    run = F.sum("changes").over(in_time.rowsBetween(Window.unboundedPreceding, 0))
    runs = (
        held.where(F.col("sent_ns").isNotNull())
        .withColumn("changes", changes)
        .withColumn("run", run)
        .groupBy(*KEY, "run", "consumer")
        .agg(
            F.min("gateway").alias("gateway"),
            F.min("slot").alias("slot"),
            F.min("sent_ns").alias("at_ns"),
            F.min_by(_message(), F.col("sent_ns")).alias("message"),
            F.max(F.struct(_until(), _message().alias("message"), F.col("consumer"))).alias("last"),
        )
    )
    before = F.max("last").over(Window.partitionBy(*KEY).orderBy("run").rowsBetween(Window.unboundedPreceding, -1))
    return _found(
        "overlap",
        runs.withColumn("before", before).where(F.col("before.until_ns") > F.col("at_ns")),
        other=F.col("before.message"),
        other_consumer=F.col("before.consumer"),
        detail=F.concat(
            ((F.col("before.until_ns") - F.col("at_ns")) / 1e6).cast("string"), F.lit(" ms before its end")
        ),
    )


def inversions(held: DataFrame) -> DataFrame:
    """First deliveries that came after one of a later message of the key."""
    place = F.struct("ledger", "entry", "batch_index")
    first = (
        held.where(F.col("sent_ns").isNotNull())
        .groupBy(*MESSAGE, "segment")
        .agg(
            F.min("gateway").alias("gateway"),
            F.min("slot").alias("slot"),
            F.min("sent_ns").alias("at_ns"),
            F.min_by("consumer", "sent_ns").alias("consumer"),
        )
        .withColumn("place", place)
        .withColumn("message", _message())
    )
    # Of those that left in the same moment none is before another.
    earlier = Window.partitionBy(*KEY, "segment").orderBy("at_ns").rangeBetween(Window.unboundedPreceding, -1)
    ahead = F.max(F.struct("place", "message", "consumer")).over(earlier)
    return _found(
        "inversion",
        first.withColumn("ahead", ahead).where(F.col("ahead.place") > F.col("place")),
        other=F.col("ahead.message"),
        other_consumer=F.col("ahead.consumer"),
        detail=F.lit("delivered after a later message of its key"),
    )


def totals(deliveries: DataFrame) -> DataFrame:
    """What there was to be judged: one row.

    Returns:
        `messages` (different ones that were sent), `deliveries`, `acked` (different ones), `returned`, `dropped`,
        `keys`, `consumers`, `lives`, `gateways`: numbers.
    """
    message = F.struct("topic", "subscription", "ledger", "entry", "batch_index")
    sent, acked = F.col("event") == "sent", F.col("event") == "acked"
    return deliveries.agg(
        F.count_distinct(F.when(sent, message)).alias("messages"),
        F.count(F.when(sent, 1)).alias("deliveries"),
        F.count_distinct(F.when(acked, message)).alias("acked"),
        F.count(F.when(F.col("event") == "returned", 1)).alias("returned"),
        F.count(F.when(F.col("event") == "dropped", 1)).alias("dropped"),
        F.count_distinct("topic", "subscription", "key_digest").alias("keys"),
        F.count_distinct("topic", "subscription", "consumer").alias("consumers"),
        F.count_distinct("life").alias("lives"),
        F.count_distinct("gateway").alias("gateways"),
    )


def _in_segments(held: DataFrame, events: DataFrame) -> DataFrame:
    """With `segment`, how often the subscription began before, and `unordered`, whether it promises no order."""
    markers = (
        events.where(F.col("kind").isin(*MARKERS))
        .groupBy("topic", "subscription", "life")
        .agg(
            F.array_sort(F.collect_list("at_ns")).alias("marks"),
            F.max(F.get_json_object("facts", "$.ordering_mode") == "unordered").alias("unordered"),
        )
    )
    joined = held.join(F.broadcast(markers), ["topic", "subscription", "life"], "left")
    passed = F.size(F.filter("marks", lambda mark: mark <= F.col("sent_ns")))
    return (
        joined.withColumn("segment", F.when(F.col("marks").isNull(), F.lit(0)).otherwise(passed))
        .withColumn("unordered", F.coalesce("unordered", F.lit(False)))
        .drop("marks")
    )


def _never_acked(held: DataFrame) -> DataFrame:
    """Given back or lost by a worker, and never delivered again by a gateway that went on."""
    by_message = held.groupBy(*MESSAGE).agg(
        F.min("gateway").alias("gateway"),
        F.min("slot").alias("slot"),
        F.max("sent_ns").alias("at_ns"),
        F.max_by("consumer", "sent_ns").alias("consumer"),
        F.max_by("how", "sent_ns").alias("how"),  # of those without a time Spark takes none
        F.max((F.col("how") == "acked").cast("int")).alias("acked"),
    )
    lost = by_message.where((F.coalesce("acked", F.lit(0)) == 0) & (F.col("how") == "returned"))
    return _found("never_acked", lost.withColumn("message", _message()), detail=F.lit("given back, and not sent again"))


def _never_delivered(held: DataFrame) -> DataFrame:
    """Acknowledged by a worker that was never sent it; an ack may name an earlier delivery than the last."""
    by_worker = held.groupBy(*MESSAGE, "consumer").agg(
        F.min("gateway").alias("gateway"),
        F.min("slot").alias("slot"),
        F.min(F.when(F.col("how") == "acked", F.col("ended_ns"))).alias("at_ns"),
        F.count("sent_ns").alias("sent"),
    )
    odd = by_worker.where((F.col("sent") == 0) & F.col("at_ns").isNotNull())
    return _found(
        "never_delivered", odd.withColumn("message", _message()), detail=F.lit("acknowledged, and never sent")
    )


def _repeated(held: DataFrame) -> DataFrame:
    """Delivered again in one life though nobody had given it back."""
    in_time = Window.partitionBy(*MESSAGE, "segment").orderBy("sent_ns")
    again = (
        held.where(F.col("sent_ns").isNotNull())
        .withColumn("before_how", F.lag("how").over(in_time))
        .withColumn("before_ended_ns", F.lag("ended_ns").over(in_time))
        .withColumn("before_consumer", F.lag("consumer").over(in_time))
        .withColumn("number", F.row_number().over(in_time))
        .where(F.col("number") > 1)
    )
    back = F.col("before_how").isin("returned", "dropped") & (F.col("before_ended_ns") <= F.col("sent_ns"))
    return _found(
        "repeated",
        again.where(~F.coalesce(back, F.lit(False)))
        .withColumn("at_ns", F.col("sent_ns"))
        .withColumn("message", _message()),
        other=_message(),
        other_consumer=F.col("before_consumer"),
        detail=F.concat(F.lit("the delivery before "), F.coalesce("before_how", F.lit("had not ended"))),
    )


def _message() -> Column:
    """How people name a message."""
    return F.concat_ws(":", "ledger", "entry", "batch_index")


def _until() -> Column:
    """When a holding surely ended; one that never did lasted for ever."""
    return F.coalesce("ended_ns", F.lit((1 << 63) - 1)).alias("until_ns")


def _found(
    violation: str,
    rows: DataFrame,
    *,
    detail: Column,
    other: Column | None = None,
    other_consumer: Column | None = None,
) -> DataFrame:
    nobody = F.lit(None).cast("string")
    return rows.select(
        F.lit(violation).alias("violation"),
        "gateway",
        *KEY,
        "slot",
        "message",
        "consumer",
        "at_ns",
        (nobody if other is None else other).alias("other"),
        (nobody if other_consumer is None else other_consumer).alias("other_consumer"),
        detail.alias("detail"),
    )
