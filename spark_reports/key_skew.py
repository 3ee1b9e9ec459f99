"""How unevenly messages fall on keys, hash slots and workers, and what another selector or more workers would change.

A key's messages go to one worker at a time, so the greatest key bounds what any assignment can reach. These reports say
how far from even a subscription is, and whether that is the keys' fault or the assignment's.

Counted is what was sent for the first time (`attempt` 1): what comes again says nothing of the keys. What another run
of the gateway sends once more counts again. Where the journal has a sample of the keys only (`journal_key_sample`),
all numbers are the sample's, and shares are shares of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from proxy.core.selectors.auto_split import AutoSplit
from proxy.core.selectors.consistent_hashing import DEFAULT_POINTS_PER_WORKER, ConsistentHashing
from spark_reports.columns import SUBSCRIPTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.core.selectors.base import Selector


TOP_KEYS: Final = 10
"""Keys in `top_10_share`."""
CONSUMERS: Final = (1, 2, 4, 8, 16, 32, 64)
EVEN: Final = 1.25
"""Ratio up to which two shares count as equal; a ring of 100 points for each worker is hardly more even."""
BUCKET_BITS: Final = 8
"""Ranges are joined by buckets of 256 slots: an equality that Spark can hash, before the comparison that it cannot."""
RANGES: Final[dict[str, pa.DataType]] = {
    "selector": pa.string(),
    "consumers": pa.int32(),
    "worker": pa.string(),
    "start": pa.int32(),
    "end": pa.int32(),
}


def heavy_hitters(deliveries: DataFrame, count: int = 20) -> DataFrame:
    """The keys with most messages.

    Args:
        deliveries: rows of the journal's table of this name.
        count: maximum number for each subscription, so that a busy one does not hide the others.

    Returns:
        `topic`, `subscription`, `key_digest`, `key` (null unless the journal has plain keys), `slot` (its latest),
        `messages`, `bytes`, `share` (of the subscription's messages, 0 to 1), `consumers` (how many had some of it);
        by subscription, most messages first.
    """
    whole = Window.partitionBy(*SUBSCRIPTION)
    place = F.row_number().over(whole.orderBy(F.desc("messages"), "key_digest"))
    return (
        _by_key(deliveries)
        .withColumn("share", F.col("messages") / F.sum("messages").over(whole))
        .withColumn("place", place)
        .where(F.col("place") <= count)
        .select(*SUBSCRIPTION, "key_digest", "key", "slot", "messages", "bytes", "share", "consumers")
        .orderBy(*SUBSCRIPTION, F.desc("messages"), "key_digest")
    )


def gini(deliveries: DataFrame) -> DataFrame:
    """How unevenly messages fall on the keys that were seen.

    Args:
        deliveries: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `keys`, `messages`, `gini` (0 if all keys have as many; towards 1, and never above
        `1 - 1 / keys`, the more one has), `top_share` (the greatest key's), `top_10_share` (the ten greatest keys').
    """
    steps, keys, size = _steps(deliveries), F.col("keys").cast("double"), F.col("size")
    # The sum of the ranks of keys that are equal, counted from 1 at the smallest.
    ranks = keys * F.col("keys_before") + keys * (keys + 1) / 2
    above = F.col("all_keys") - F.col("keys_before") - F.col("keys")
    of_the_top = F.greatest(F.lit(0), F.least(F.col("keys"), F.lit(TOP_KEYS) - above))
    return (
        steps.groupBy(*SUBSCRIPTION)
        .agg(
            F.sum("keys").alias("keys"),
            F.sum(size * F.col("keys")).alias("messages"),
            F.sum(size * ranks).alias("ranked"),
            F.max("size").alias("top"),
            F.sum(size * of_the_top).alias("top_10"),
        )
        .select(
            *SUBSCRIPTION,
            "keys",
            "messages",
            (2 * F.col("ranked") / F.col("messages") / F.col("keys") - 1 - 1 / F.col("keys")).alias("gini"),
            (F.col("top") / F.col("messages")).alias("top_share"),
            (F.col("top_10") / F.col("messages")).alias("top_10_share"),
        )
        .orderBy(F.desc("gini"), *SUBSCRIPTION)
    )


def curve(deliveries: DataFrame, points: int = 50) -> DataFrame:
    """The Lorenz curve, for a plot: which share of the messages the smallest keys have together.

    Args:
        deliveries: rows of the journal's table of this name.
        points: steps of the plot's axis, at least 1.

    Returns:
        `topic`, `subscription`, `keys_share` (in steps of 1 / `points`), `messages_share`; for each subscription
        `points` + 1 rows from 0, 0 to 1, 1. Between two keys the curve is a straight line.
    """
    through = F.col("keys_before") + F.col("keys")
    first = F.when(F.col("keys_before") == 0, F.lit(0)).otherwise(
        F.floor(F.col("keys_before") * points / F.col("all_keys")) + 1
    )
    last = F.floor(through * points / F.col("all_keys"))
    inside = F.col("point") * F.col("all_keys") / points - F.col("keys_before")
    return (
        _steps(deliveries)
        .withColumn("first", first.cast("int"))
        .withColumn("last", last.cast("int"))
        .where(F.col("first") <= F.col("last"))  # of the others `sequence` would count downwards
        .withColumn("point", F.explode(F.sequence("first", "last")))
        .select(
            *SUBSCRIPTION,
            (F.col("point") / points).alias("keys_share"),
            ((F.col("messages_before") + inside * F.col("size")) / F.col("all_messages")).alias("messages_share"),
        )
        .orderBy(*SUBSCRIPTION, "keys_share")
    )


def shares(deliveries: DataFrame) -> DataFrame:
    """Each worker's share of the traffic against its share of the hash space.

    The hash space is the slots that were seen. The ranges that events tell are no better ground: an event lists 300 of
    them at most, the one that began it all may be older than the journal, and a range does not say what lies in it. A
    slot that moved counts for each worker that had it.

    Args:
        deliveries: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `consumer`, `messages`, `traffic_share` (of the subscription's messages), `slots` (of
        which it was sent something), `slots_share` (of all workers' `slots`), `ratio` (`traffic_share` to
        `slots_share`: above 1 its slots are busier than the average); the greatest ratio of a subscription first.
    """
    whole = Window.partitionBy(*SUBSCRIPTION)
    return (
        _first_sent(deliveries)
        .groupBy(*SUBSCRIPTION, "consumer")
        .agg(F.count(F.lit(1)).alias("messages"), F.count_distinct("slot").alias("slots"))
        .withColumn("traffic_share", F.col("messages") / F.sum("messages").over(whole))
        .withColumn("slots_share", F.col("slots") / F.sum("slots").over(whole))
        .withColumn("ratio", F.col("traffic_share") / F.col("slots_share"))
        .select(*SUBSCRIPTION, "consumer", "messages", "traffic_share", "slots", "slots_share", "ratio")
        .orderBy(*SUBSCRIPTION, F.desc("ratio"), "consumer")
    )


def what_if(
    deliveries: DataFrame, consumers: Sequence[int] = CONSUMERS, points: int = DEFAULT_POINTS_PER_WORKER
) -> DataFrame:
    """The load of the busiest worker, for each selector and number of workers.

    The selectors are the gateway's own. Workers are named `w1`, `w2` and so on, and join in this order: with other
    names the ring is another one, and as even on the average. Sticky ranges are left out, for each worker chooses its
    own. The journal has a key's slot by the selector that was in force. Under another the key has another slot, as
    random as this one: so rows of the other selector tell how even it would be, not which worker would have which key.

    Verdicts, the first that holds:

    - `even enough`: the busiest has at most `EVEN` times the ideal share.
    - `one key is the bound`: it has at most `EVEN` times the heaviest key's share, below which nothing can bring it.
    - `another selector helps`: with as many workers another selector's busiest has less by `EVEN` or more.
    - `more consumers help`: likewise this selector's busiest, with one of the greater numbers that were asked for.
    - `unevenly dealt`: none of these.

    Args:
        deliveries: rows of the journal's table of this name.
        consumers: numbers of workers, each at least 1.
        points: of each worker on the ring, as in the setting `consistent_hashing_points`.

    Returns:
        `topic`, `subscription`, `selector` (as in the setting of this name), `consumers`, `busiest_share`,
        `ideal_share` (1 / `consumers`), `heaviest_key_share` (all shares are of the subscription's messages, 0 to 1),
        `verdict`.
    """
    keys = _by_key(deliveries)
    by_slot = keys.groupBy(*SUBSCRIPTION, "slot").agg(F.sum("messages").alias("messages"))
    totals = keys.groupBy(*SUBSCRIPTION).agg(
        F.sum("messages").alias("all_messages"), F.max("messages").alias("heaviest")
    )
    dealt = deliveries.sparkSession.createDataFrame(_dealt(consumers, points))
    ranges = dealt.withColumn("bucket", F.explode(F.sequence(_bucket("start"), _bucket("end"))))
    by_worker = (
        by_slot.withColumn("bucket", _bucket("slot"))
        .join(F.broadcast(ranges), "bucket")
        .where(F.col("slot").between(F.col("start"), F.col("end")))
        .groupBy(*SUBSCRIPTION, "selector", "consumers", "worker")
        .agg(F.sum("messages").alias("messages"))
    )
    return (
        by_worker.groupBy(*SUBSCRIPTION, "selector", "consumers")
        .agg(F.max("messages").alias("busiest"))
        .join(totals, list(SUBSCRIPTION))
        .select(
            *SUBSCRIPTION,
            "selector",
            "consumers",
            (F.col("busiest") / F.col("all_messages")).alias("busiest_share"),
            (1 / F.col("consumers")).alias("ideal_share"),
            (F.col("heaviest") / F.col("all_messages")).alias("heaviest_key_share"),
        )
        .withColumn("verdict", _verdict())
        .orderBy(*SUBSCRIPTION, "selector", "consumers")
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """A worker that might be; selectors tell workers apart by identity."""

    name: str


def _dealt(consumers: Sequence[int], points: int) -> pa.Table:
    """`RANGES`: who would own what. As Arrow's, for a list starts a Python beside Spark."""
    rows = [dict(zip(RANGES, row, strict=True)) for row in _ranges(consumers, points)]
    return pa.Table.from_pylist(rows, pa.schema(RANGES))


def _ranges(consumers: Sequence[int], points: int) -> Iterator[tuple[str, int, str, int, int]]:
    for count in sorted(set(consumers)):
        selectors: dict[str, Selector[_Candidate]] = {
            "auto_split": AutoSplit(),
            "consistent_hashing": ConsistentHashing(points),
        }
        for name, selector in selectors.items():
            for number in range(1, count + 1):
                selector.add(_Candidate(f"w{number}"))
            for (start, end), worker in selector.assignment():
                yield name, count, worker.name, start, end


def _verdict() -> Column:
    busiest = F.col("busiest_share")
    others = F.min(busiest).over(Window.partitionBy(*SUBSCRIPTION, "consumers"))
    greater = Window.partitionBy(*SUBSCRIPTION, "selector").orderBy("consumers")
    more = F.min(busiest).over(greater.rowsBetween(1, Window.unboundedFollowing))
    return (
        F.when(busiest <= EVEN * F.col("ideal_share"), "even enough")
        .when(busiest <= EVEN * F.col("heaviest_key_share"), "one key is the bound")
        .when(busiest >= EVEN * others, "another selector helps")
        .when(busiest >= EVEN * more, "more consumers help")
        .otherwise("unevenly dealt")
    )


def _bucket(slot: str) -> Column:
    return F.shiftright(slot, BUCKET_BITS)


def _first_sent(deliveries: DataFrame) -> DataFrame:
    return deliveries.where((F.col("event") == "sent") & (F.col("attempt") == 1))


def _by_key(deliveries: DataFrame) -> DataFrame:
    """A row for each key of each subscription."""
    return (
        _first_sent(deliveries)
        .groupBy(*SUBSCRIPTION, "key_digest")
        .agg(
            F.max("key").alias("key"),
            F.max_by("slot", "wall_ns").alias("slot"),
            F.count(F.lit(1)).alias("messages"),
            F.sum("size_bytes").alias("bytes"),
            F.count_distinct("consumer").alias("consumers"),
        )
    )


def _steps(deliveries: DataFrame) -> DataFrame:
    """The Lorenz curve's corners: `size` (messages of one key), `keys` with that size, and the sums before them.

    Keys with as many messages are one row, so that windows run over few rows however many keys there are.
    """
    sizes = (
        _first_sent(deliveries)
        .groupBy(*SUBSCRIPTION, "key_digest")
        .agg(F.count(F.lit(1)).alias("size"))
        .groupBy(*SUBSCRIPTION, "size")
        .agg(F.count(F.lit(1)).alias("keys"))
        .withColumn("messages", F.col("size") * F.col("keys"))
    )
    whole = Window.partitionBy(*SUBSCRIPTION)
    before = whole.orderBy("size").rowsBetween(Window.unboundedPreceding, -1)
    return (
        sizes.withColumn("keys_before", F.coalesce(F.sum("keys").over(before), F.lit(0)))
        .withColumn("messages_before", F.coalesce(F.sum("messages").over(before), F.lit(0)))
        .withColumn("all_keys", F.sum("keys").over(whole))
        .withColumn("all_messages", F.sum("messages").over(whole))
        .drop("messages")
    )
