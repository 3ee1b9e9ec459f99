"""How each subscription fared, period by period, against the period before: what a gateway's metrics say of it.

From the journal's table of metrics, or from what Prometheus scraped of the same gateways (`keyline export-metrics`):
the same numbers, as far as both looked at the same moments.

A counter's increase is of the period in which the later of two samples lies, and of the time between them; rates are by
the sum of these times, so that a period of which only a part was recorded compares with a whole one. A sample without
one before counts from 0, unless it is of the gateway's first moment in the journal: what was before is not known then.
A counter that fell restarted at 0. Replicas' numbers are added up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import SECOND_NS, SUBSCRIPTION
from spark_reports.span import EVERYTHING, nanoseconds

if TYPE_CHECKING:
    from spark_reports.span import Span

DAY_NS: Final = 86_400 * SECOND_NS
_OF: Final = "keyline_subscription_"
SENT: Final = f"{_OF}sent_messages_total"
ACKED: Final = f"{_OF}acked_messages_total"
REDELIVERED: Final = f"{_OF}redelivered_messages_total"
LONGEST_WAIT: Final = f"{_OF}oldest_wait_seconds"
TIMES: Final = {
    "dispatch": f"{_OF}dispatch_latency_seconds",
    "ack": f"{_OF}ack_latency_seconds",
    "wait": f"{_OF}blocked_time_seconds",
    "hand_over": f"{_OF}hand_over_duration_seconds",
}
"""Histograms, which are exported as a count and a sum."""
NAMES: Final = (
    SENT,
    ACKED,
    REDELIVERED,
    LONGEST_WAIT,
    *(f"{name}_{end}" for name in TIMES.values() for end in ("count", "sum")),
)
COMPARED: Final = (
    "acked_per_s",
    "dispatch_ms",
    "ack_ms",
    "waits_per_h",
    "wait_ms",
    "longest_wait_s",
    "hand_overs_per_h",
    "hand_over_ms",
    "redelivered_share",
)
"""Columns that have one with `_change` beside them."""
SERIES: Final = ("gateway", "life", *SUBSCRIPTION, "name")


def by_period(metrics: DataFrame, span: Span = EVERYTHING) -> DataFrame:
    """Each subscription's throughput, latency, waits, hand-overs and redeliveries.

    Args:
        metrics: rows of the journal's table of this name, of `with_before(span)`.
        span: what is told. Periods are days of UTC; from its begin on if it has one, and shorter if it is.

    Returns:
        - `topic`, `subscription`, `window_start_ns` (wall time), `observed_s` (between samples);
        - `acked` (messages), `acked_per_s`;
        - `dispatch_ms` (mean time in the gateway until a message's first delivery), `ack_ms` (mean time at a worker);
        - `waits_per_h` (deliveries that could not be sent at once), `wait_ms` (mean), `longest_wait_s` (seen in any
          sample);
        - `hand_overs`, `hand_overs_per_h`, `hand_over_ms` (mean);
        - `redelivered` (messages), `redelivered_share` (of those that were sent);
        - for each of `COMPARED` its name with `_change`: the share by which it is more or less than in the period
          before; null if that is not in the journal, or was 0.
    """
    begin_ns, length_ns = _periods(span)
    grown = _grown(metrics)
    period = F.floor((F.col("wall_ns") - F.lit(begin_ns)) / F.lit(length_ns)).cast("long")
    totals = (
        grown.withColumn("window_start_ns", F.lit(begin_ns) + period * F.lit(length_ns))
        .groupBy(*SUBSCRIPTION, "window_start_ns")
        .agg(
            *_sums(),
            F.max(F.when(F.col("name") == LONGEST_WAIT, F.col("value"))).alias("longest_wait_s"),
            F.min(F.coalesce("before_wall_ns", "wall_ns")).alias("first_ns"),
            F.max("wall_ns").alias("last_ns"),
        )
    )
    told = _ratios(totals)
    before = told.select(
        *SUBSCRIPTION,
        (F.col("window_start_ns") + F.lit(length_ns)).alias("window_start_ns"),
        *(F.col(name).alias(f"{name}_before") for name in COMPARED),
    )
    changes = {f"{name}_change": F.try_divide(F.col(name), F.col(f"{name}_before")) - 1 for name in COMPARED}
    shown = [name for each in told.columns for name in (each, *([f"{each}_change"] if each in COMPARED else []))]
    return (
        told.join(before, [*SUBSCRIPTION, "window_start_ns"], "left")
        .withColumns(changes)
        .where(span.holds_period(F.col("window_start_ns"), length_ns))
        .select(*shown)
        .orderBy(*SUBSCRIPTION, "window_start_ns")
    )


def with_before(span: Span) -> Span:
    """What has to be read for `by_period`: the period before too."""
    return span.longer_before(_periods(span)[1])


def _periods(span: Span) -> tuple[int, int]:
    """Where one begins, and how long each is, in nanoseconds."""
    if span.since is None:
        return 0, DAY_NS
    begin_ns = nanoseconds(span.since)
    return begin_ns, DAY_NS if span.until is None else min(DAY_NS, nanoseconds(span.until) - begin_ns)


def _grown(metrics: DataFrame) -> DataFrame:
    """Samples with `grown` (what the counter has since the one before) and `before_wall_ns` (when that was)."""
    first = metrics.groupBy("gateway").agg(F.min("wall_ns").alias("first_wall_ns"))
    value, before = F.col("value"), F.col("before.value")
    unknown = F.col("before").isNull() & (F.col("wall_ns") == F.col("first_wall_ns"))
    in_time = Window.partitionBy(*SERIES).orderBy("at_ns")
    return (
        metrics.where(F.col("name").isin(*NAMES))
        .join(F.broadcast(first), "gateway")
        .withColumn("before", F.lag(F.struct("wall_ns", "value")).over(in_time))
        .withColumn("grown", F.when(unknown, 0.0).when(before <= value, value - before).otherwise(value))
        .withColumn("before_wall_ns", F.col("before.wall_ns"))
    )


def _sums() -> list[Column]:
    """Of each counter, what it has grown by."""
    counters = {"sent": SENT, "acked": ACKED, "redelivered": REDELIVERED}
    counters |= {f"{name}_{end}": f"{metric}_{end}" for name, metric in TIMES.items() for end in ("count", "sum")}
    return [
        F.round(F.sum(F.when(F.col("name") == metric, F.col("grown"))), 9).alias(name)
        for name, metric in counters.items()
    ]


def _ratios(totals: DataFrame) -> DataFrame:
    """What is told of a period."""
    observed_s = (F.col("last_ns") - F.col("first_ns")) / SECOND_NS
    per_h = {name: F.try_divide(F.col(f"{name}_count") * 3_600, F.col("observed_s")) for name in ("wait", "hand_over")}
    mean_ms = {name: F.try_divide(F.col(f"{name}_sum") * 1_000, F.col(f"{name}_count")) for name in TIMES}
    return totals.withColumn("observed_s", observed_s).select(
        *SUBSCRIPTION,
        "window_start_ns",
        "observed_s",
        F.col("acked").cast("long").alias("acked"),
        F.try_divide("acked", "observed_s").alias("acked_per_s"),
        mean_ms["dispatch"].alias("dispatch_ms"),
        mean_ms["ack"].alias("ack_ms"),
        per_h["wait"].alias("waits_per_h"),
        mean_ms["wait"].alias("wait_ms"),
        "longest_wait_s",
        F.col("hand_over_count").cast("long").alias("hand_overs"),
        per_h["hand_over"].alias("hand_overs_per_h"),
        mean_ms["hand_over"].alias("hand_over_ms"),
        F.col("redelivered").cast("long").alias("redelivered"),
        F.try_divide("redelivered", "sent").alias("redelivered_share"),
    )
