"""How long messages take: in the gateway, at workers, and both together; who is slow, and which messages were slowest.

- *waiting*: from a message's arrival from the broker until it is written to a worker's socket, at its first attempt
  only. What a redelivered message waited is mostly what it spent at a former worker.
- *processing*: from being given to the worker until it is acknowledged, of the delivery that is acknowledged.
- *end to end*: from its arrival to its acknowledgement, all attempts included.

The first two are what the metrics call dispatch latency and ack latency; the moment between a message's being given to
a worker and its being written is in both. Another run gets unacknowledged messages from the broker again: the time
that it took in the run before is not in these numbers.

Differences are of one run's clock, each within one row; no two rows are compared. So a file that is missing, or a
limit of time, makes fewer numbers and no wrong ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import SUBSCRIPTION, WORKER, message_name, wall_ns_of, window_start_ns
from spark_reports.quantiles import ACCURACY, quantiles

if TYPE_CHECKING:
    from pyspark.sql import Column


def by_consumer(deliveries: DataFrame) -> DataFrame:
    """How long the messages of each consumer took.

    Args:
        deliveries: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `consumer`, `messages` (sent to it, each time that one was), `acked` (by it); then
        `waiting_`, `processing_` and `end_to_end_`, each with `p50_ms`, `p95_ms`, `p99_ms` and `max_ms`: null where no
        message has that time. A message's whole time counts for the consumer that acknowledged it.
    """
    return deliveries.groupBy(*WORKER).agg(*_times()).orderBy(*WORKER)


def over_time(deliveries: DataFrame, window_s: int = 10) -> DataFrame:
    """How long each subscription's messages took in the course of time, for a plot.

    A time counts where it ended: waiting in the window in which the message was sent, the others in that of its
    acknowledgement. Where nothing was sent nor acknowledged there is no row.

    Args:
        deliveries: rows of the journal's table of this name.
        window_s: a window's width; windows begin at its multiples since 1970.

    Returns:
        `topic`, `subscription`, `window_start_ns` (by the wall clock), and `by_consumer`'s columns from `messages` on.

    Raises:
        ValueError: `window_s` is not above 0.
    """
    if window_s <= 0:
        raise ValueError(f"window_s is {window_s}; it should be above 0")
    start = window_start_ns(F.col("wall_ns"), window_s)
    return (
        deliveries.where(F.col("event").isin("sent", "acked"))
        .withColumn("window_start_ns", start)
        .groupBy(*SUBSCRIPTION, "window_start_ns")
        .agg(*_times())
        .orderBy(*SUBSCRIPTION, "window_start_ns")
    )


def stragglers(deliveries: DataFrame, factor: float = 3.0, messages_min: int = 20) -> DataFrame:
    """Consumers that take much longer for a message than the subscription's others do; the worst first.

    Args:
        deliveries: rows of the journal's table of this name.
        factor: how many times the usual p95 a straggler's is, at least. The usual one is the median of all consumers'
            p95, its own among them; of an even number the lower of the two in the middle, so that of two consumers the
            slower one can be found.
        messages_min: who acknowledged fewer messages is neither judged nor compared with.

    Returns:
        `topic`, `subscription`, `consumer`, `messages` (acknowledged by it), `processing_p95_ms`, `others_p95_ms` (the
        usual one), `factor` (the first by the second; null if the second is 0).
    """
    everyone = Window.partitionBy(*SUBSCRIPTION)
    usual = F.percentile_approx("processing_p95_ms", 0.5, ACCURACY).over(everyone)
    slow, others = F.col("processing_p95_ms"), F.col("others_p95_ms")
    return (
        deliveries.where(F.col("event") == "acked")
        .groupBy(*WORKER)
        .agg(
            F.count(F.lit(1)).alias("messages"),
            F.percentile_approx(_ms("sent_ns", "at_ns"), 0.95, ACCURACY).alias("processing_p95_ms"),
        )
        .where(F.col("messages") >= messages_min)
        .withColumn("others_p95_ms", usual)
        .where((slow > 0) & (slow >= factor * others))
        .withColumn("factor", F.when(others > 0, slow / others))
        .orderBy(F.desc_nulls_first("factor"), F.desc("processing_p95_ms"), *WORKER)
    )


def slowest(deliveries: DataFrame, count: int = 20) -> DataFrame:
    """Single deliveries at whose end the message had been in the gateway and at workers for longest.

    Args:
        deliveries: rows of the journal's table of this name. Those that have ended count, however they did: a worker
            that sat on a message and gave it back is seen too. What lasts still is not.
        count: maximum number of rows.

    Returns:
        `topic`, `subscription`, `gateway`, `message` (`ledger:entry:batch_index`), `consumer`, `key` (null unless the
        journal has keys), `key_digest`, `slot`, `attempt`, `how` it ended (`acked`, `returned`, `dropped`),
        `waiting_ms` (until it was given to the worker; null unless it is the first attempt), `processing_ms` (since
        then), `end_to_end_ms` (from the message's arrival to this delivery's end), and by the wall clock
        `received_wall_ns`, `sent_wall_ns`, `ended_wall_ns`.
    """
    place = ("ledger", "entry", "batch_index")
    longest = (
        deliveries.where(F.col("event") != "sent")
        .withColumn("end_to_end_ms", _ms("received_ns", "at_ns"))
        .orderBy(F.desc("end_to_end_ms"), *SUBSCRIPTION, "life", *place, "attempt", "consumer")
        .limit(count)
    )
    return longest.select(
        *SUBSCRIPTION,
        "gateway",
        message_name().alias("message"),
        "consumer",
        "key",
        "key_digest",
        "slot",
        "attempt",
        F.col("event").alias("how"),
        F.when(F.col("attempt") == 1, _ms("received_ns", "sent_ns")).alias("waiting_ms"),
        _ms("sent_ns", "at_ns").alias("processing_ms"),
        "end_to_end_ms",
        wall_ns_of("received_ns").alias("received_wall_ns"),
        wall_ns_of("sent_ns").alias("sent_wall_ns"),
        F.col("wall_ns").alias("ended_wall_ns"),
    )


def _times() -> list[Column]:
    """Aggregates that `by_consumer` and `over_time` have in common."""
    sent, acked = F.col("event") == "sent", F.col("event") == "acked"
    times = {
        # Not `sent_ns`: in the turn that brings a message it is often the same as `received_ns`.
        "waiting": F.when(sent & (F.col("attempt") == 1), _ms("received_ns", "at_ns")),
        "processing": F.when(acked, _ms("sent_ns", "at_ns")),
        "end_to_end": F.when(acked, _ms("received_ns", "at_ns")),
    }
    aggregates = [F.count(F.when(sent, 1)).alias("messages"), F.count(F.when(acked, 1)).alias("acked")]
    for name, time in times.items():
        aggregates += [*quantiles(time, f"{name}_"), F.max(time).alias(f"{name}_max_ms")]
    return aggregates


def _ms(begin: str, end: str) -> Column:
    """Between two moments of one row."""
    return (F.col(end) - F.col(begin)) / 1e6
