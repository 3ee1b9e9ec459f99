"""How much workers do, how much of their time they are at it, and how many are needed.

A worker is *occupied* while it has something unacknowledged. What it acknowledges in such a second is taken for what it
can do. That errs to the safe side: a worker that could do several at once and was given one could do more.

Times of a run's clock become wall times by each row's `wall_ns` less `at_ns`. What a worker has at the end of what is
known of its subscription in a run, it has had until then.

The journal knows only what the gateway took from the broker. While the look-ahead is full it takes no more than workers
do, so that real arrivals may be greater, and the broker's backlog is not in it. Where the journal has a sample of the
keys only (`journal_key_sample`), numbers are the sample's, and so is the occupied time: rates are too low.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import PLACE, SECOND_NS, SUBSCRIPTION, WORKER, wall_ns_of, window_start_ns
from spark_reports.occupied import holdings, occupied_times, within_windows
from spark_reports.quantiles import quantiles

MESSAGE: Final = (*SUBSCRIPTION, *PLACE)
RECENT_S: Final = 120
"""What is so old at the end is not of now: two of the snapshots that the table of metrics has by default."""
WORKERS: Final = "keyline_subscription_workers"
UNACKED: Final = "keyline_subscription_unacked_messages"
WAITING: Final = "keyline_subscription_waiting_messages"


def rates(deliveries: DataFrame, window_s: int = 10, held: DataFrame | None = None) -> DataFrame:
    """What came, went out and was done, by time.

    Args:
        deliveries: rows of the journal's table of this name.
        window_s: length of consecutive windows of wall time in seconds, counted from 1970.
        held: what `occupied.holdings` says of the same `deliveries`, where that is known already.

    Returns:
        A row for each worker and window in which it did or had something, and one of the whole subscription, whose
        `consumer` is null: `topic`, `subscription`, `consumer`, `window_start_ns`, `arrived` (messages that the gateway
        received, of those that it delivered later; null in a worker's row), `sent`, `acked`, `returned` (messages in
        this window), `service_ms` (from sending to acknowledgement, the mean of `acked`; null if there is none),
        `busy_share` (of the window in which the worker was occupied, 0 to 1; in the subscription's row the mean of its
        workers'); by subscription and time.
    """
    window_ns = F.lit(window_s * SECOND_NS).cast("long")
    happened = deliveries.select(
        *WORKER,
        window_start_ns(F.col("wall_ns"), window_s).alias("window_start_ns"),
        *(F.when(F.col("event") == event, 1).alias(event) for event in ("sent", "acked", "returned")),
        F.when(F.col("event") == "acked", F.col("at_ns") - F.col("sent_ns")).alias("service_ns"),
    )
    arrived = deliveries.where((F.col("event") == "sent") & (F.col("attempt") == 1)).select(
        *SUBSCRIPTION,
        window_start_ns(wall_ns_of("received_ns"), window_s).alias("window_start_ns"),
        F.lit(1).alias("arrived"),
    )
    occupied = within_windows(occupied_times(holdings(deliveries) if held is None else held), window_ns)
    by_worker = (
        happened.unionByName(occupied, allowMissingColumns=True)
        .unionByName(arrived, allowMissingColumns=True)
        .groupBy(*WORKER, "window_start_ns")
        .agg(
            F.sum("arrived").alias("arrived"),
            *(
                F.coalesce(F.sum(name), F.lit(0)).alias(name)
                for name in ("sent", "acked", "returned", "service_ns", "occupied_ns")
            ),
        )
        # One name at two gateways is occupied twice.
        .withColumn("busy_ns", F.least(F.col("occupied_ns"), window_ns))
        .withColumn("busy_share", F.col("busy_ns") / window_ns)
    )
    a_worker = F.col("consumer").isNotNull()
    whole = by_worker.groupBy(*SUBSCRIPTION, "window_start_ns").agg(
        F.coalesce(F.sum("arrived"), F.lit(0)).alias("arrived"),
        *(F.sum(name).alias(name) for name in ("sent", "acked", "returned", "service_ns")),
        # Whole numbers are added up and then divided: so the last digit does not depend on which came first.
        F.try_divide(F.sum(F.when(a_worker, F.col("busy_ns"))), F.count(F.when(a_worker, 1)) * window_ns).alias(
            "busy_share"
        ),
    )
    return (
        by_worker.where(F.col("consumer").isNotNull())
        .unionByName(whole, allowMissingColumns=True)
        .select(
            *WORKER,
            "window_start_ns",
            "arrived",
            "sent",
            "acked",
            "returned",
            (F.try_divide("service_ns", "acked") / 1e6).alias("service_ms"),
            "busy_share",
        )
        .orderBy(*SUBSCRIPTION, "window_start_ns", F.asc_nulls_first("consumer"))
    )


def summary(deliveries: DataFrame, held: DataFrame | None = None) -> DataFrame:
    """What each worker did, how fast, and how much of its time.

    Args:
        deliveries: rows of the journal's table of this name.
        held: what `occupied.holdings` says of the same `deliveries`, where that is known already.

    Returns:
        `topic`, `subscription`, `consumer`, `messages` (different ones that it had, run by run), `deliveries`,
        `acked` (of these), `occupied_s`, `acked_per_s` (in occupied time; null without any), `service_p50_ms`,
        `service_p95_ms`, `service_p99_ms` (from sending to acknowledgement; null if there is none), `occupied_share`
        (of the time from its first delivery to the last row of the subscription, in each run: a worker that left is
        idle from then on); the most occupied of a subscription first.
    """
    held = holdings(deliveries) if held is None else held
    acked = F.col("how") == "acked"
    did = held.groupBy(*WORKER).agg(
        F.count(F.lit(1)).alias("deliveries"),
        F.count(F.when(acked, 1)).alias("acked"),
        *quantiles(F.when(acked, (F.col("until_ns") - F.col("sent_ns")) / 1e6), "service_"),
    )
    # Apart from the quantiles: beside a count of different ones Spark would make a sketch of them for each message.
    here = (
        held.groupBy(*WORKER, "life")
        .agg(
            F.count_distinct("ledger", "entry", "batch_index").alias("messages"),
            (F.max("life_ended_ns") - F.min("sent_ns")).alias("here_ns"),
        )
        .groupBy(*WORKER)
        .agg(F.sum("messages").alias("messages"), F.sum("here_ns").alias("here_ns"))
    )
    occupied = (
        occupied_times(held).groupBy(*WORKER).agg(F.sum(F.col("until_ns") - F.col("sent_ns")).alias("occupied_ns"))
    )
    return (
        did.join(here, list(WORKER))
        .join(occupied, list(WORKER))
        .withColumn("occupied_s", F.col("occupied_ns") / SECOND_NS)
        .select(
            *WORKER,
            "messages",
            "deliveries",
            "acked",
            "occupied_s",
            F.try_divide("acked", "occupied_s").alias("acked_per_s"),
            "service_p50_ms",
            "service_p95_ms",
            "service_p99_ms",
            F.try_divide("occupied_ns", "here_ns").alias("occupied_share"),
        )
        .orderBy(*SUBSCRIPTION, F.desc("occupied_share"), "consumer")
    )


def forecast(
    deliveries: DataFrame,
    target_drain_s: int = 3_600,
    metrics: DataFrame | None = None,
    workers: DataFrame | None = None,
) -> DataFrame:
    """Whether workers keep up, and how many would.

    Rates are means over all of `deliveries`: give it the time that is to be judged. The number of workers needed takes
    for granted that keys are dealt evenly; `key_skew.what_if` tells whether they can be.

    Args:
        deliveries: rows of the journal's table of this name.
        target_drain_s: in how many seconds what is outstanding ought to be done.
        metrics: rows of the journal's table of this name. With them, workers that are idle and messages that were never
            sent count too: `workers` is the gateways' own count, `outstanding` what waits and what workers have.
        workers: what `summary` says of the same `deliveries`, where that is known already.

    Returns:
        - `topic`, `subscription`;
        - `observed_s`: from the first arrival to the last row, by wall time;
        - `arrived`, `arrival_per_s`: different messages that were delivered, and this by `observed_s`;
        - `acked`, `acked_per_s`: acknowledgements, and these by `observed_s`;
        - `workers`: now, which is those with a row in the last `RECENT_S` of the subscription, unless `metrics` tell;
        - `service_per_s`: messages that this number of workers acknowledges if all are occupied, at the mean rate;
        - `outstanding`: messages that were sent and neither acknowledged nor dropped by the end, those given back
          included, unless `metrics` tell;
        - `growth_per_s`: `arrival_per_s` less `service_per_s`;
        - `drained_in_s`: until nothing is outstanding; null if that grows, or stays;
        - `workers_needed`: so that as much is done as arrives;
        - `workers_needed_to_drain`: so that besides what is outstanding is done in `target_drain_s`.

        What would be divided by nothing is null: without an acknowledgement the number of needed workers is unknown.
    """
    totals = _totals(deliveries).join(_workers_seen(deliveries), list(SUBSCRIPTION))
    if metrics is None:
        known = totals.withColumn("workers", F.col("seen")).withColumn("outstanding", F.col("unfinished"))
    else:
        known = (
            totals.join(_gauges(metrics), list(SUBSCRIPTION), "left")
            .withColumn("workers", F.coalesce(F.col(WORKERS).cast("long"), "seen"))
            .withColumn("outstanding", F.coalesce((F.col(UNACKED) + F.col(WAITING)).cast("long"), "unfinished"))
        )
    occupied_ns = F.sum(F.round(F.col("occupied_s") * SECOND_NS).cast("long"))
    pace = (
        (summary(deliveries) if workers is None else workers)
        .groupBy(*SUBSCRIPTION)
        .agg(F.try_divide(F.sum("acked") * SECOND_NS, occupied_ns).alias("each_per_s"))
    )
    arrival, service, growth = F.col("arrival_per_s"), F.col("service_per_s"), F.col("growth_per_s")
    return (
        known.join(pace, list(SUBSCRIPTION))
        .withColumn("arrival_per_s", F.try_divide("arrived", "observed_s"))
        .withColumn("acked_per_s", F.try_divide("acked", "observed_s"))
        .withColumn("service_per_s", F.col("workers") * F.col("each_per_s"))
        .withColumn("growth_per_s", arrival - service)
        .select(
            *SUBSCRIPTION,
            "observed_s",
            "arrived",
            "arrival_per_s",
            "acked",
            "acked_per_s",
            "workers",
            "service_per_s",
            "outstanding",
            "growth_per_s",
            F.when(growth < 0, F.try_divide(F.col("outstanding"), -growth)).alias("drained_in_s"),
            _workers_for(arrival).alias("workers_needed"),
            _workers_for(arrival + F.col("outstanding") / target_drain_s).alias("workers_needed_to_drain"),
        )
        .orderBy(F.desc("growth_per_s"), *SUBSCRIPTION)
    )


def _workers_for(per_s: Column) -> Column:
    """Whole ones; rounded first, so that a last digit does not cost a worker."""
    return F.ceil(F.round(F.try_divide(per_s, F.col("each_per_s")), 6))


def _totals(deliveries: DataFrame) -> DataFrame:
    """By subscription: `observed_s`, `arrived`, `acked`, `unfinished`.

    Told by each message's last row. In one moment a message is given back before it is sent again, and sent before
    that ends.
    """
    in_order = F.struct("wall_ns", "attempt", F.col("event") != "sent")
    return (
        deliveries.groupBy(*MESSAGE)
        .agg(
            F.max_by("event", in_order).alias("last"),
            F.count(F.when(F.col("event") == "acked", 1)).alias("acked"),
            F.min(wall_ns_of("received_ns")).alias("first_ns"),
            F.max("wall_ns").alias("last_ns"),
        )
        .groupBy(*SUBSCRIPTION)
        .agg(
            ((F.max("last_ns") - F.min("first_ns")) / SECOND_NS).alias("observed_s"),
            F.count(F.lit(1)).alias("arrived"),
            F.sum("acked").alias("acked"),
            F.count(F.when(F.col("last").isin("sent", "returned"), 1)).alias("unfinished"),
        )
    )


def _workers_seen(deliveries: DataFrame) -> DataFrame:
    """By subscription: `seen`, workers that something was heard of lately."""
    last = F.max("last_ns").over(Window.partitionBy(*SUBSCRIPTION))
    return (
        deliveries.groupBy(*WORKER)
        .agg(F.max("wall_ns").alias("last_ns"))
        .withColumn("recent", F.col("last_ns") >= last - RECENT_S * SECOND_NS)
        .groupBy(*SUBSCRIPTION)
        .agg(F.count(F.when(F.col("recent"), 1)).alias("seen"))
    )


def _gauges(metrics: DataFrame) -> DataFrame:
    """By subscription: the latest numbers, each gateway's added up, but for gateways that ceased to tell of it."""
    names = (WORKERS, UNACKED, WAITING)
    last = F.max("wall_ns").over(Window.partitionBy(*SUBSCRIPTION))
    return (
        metrics.where(F.col("name").isin(*names))
        .withColumn("last_ns", last)
        .where(F.col("wall_ns") >= F.col("last_ns") - RECENT_S * SECOND_NS)
        .groupBy(*SUBSCRIPTION, "gateway", "name")
        .agg(F.max_by("value", "wall_ns").alias("value"))
        .groupBy(*SUBSCRIPTION)
        .agg(*(F.sum(F.when(F.col("name") == name, F.col("value"))).alias(name) for name in names))
    )
