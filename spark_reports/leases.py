"""Groups of replicas from their own account: who led, which streams came and went, how long streams stood still.

Each replica's journal has what that replica knew (`proxy/net/group/audit_log.py`): `group_session` tells the whole set
of its leases whenever that changes, so what it gained and lost is the difference between two of them in one run. A
process that is killed says nothing more: its losses are in no journal.

What happened first at two replicas is not asked of their clocks. Each lease has the leader's version, an epoch and a
number that never repeat and only grow; a stream's holders follow each other in that order.

Give these jobs all events: from the middle of a run on, the first set of leases looks gained.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.quantiles import quantiles

GROUP: Final = ("topic", "subscription")
STREAM: Final = (*GROUP, "streams_count", "stream")
"""Of how many streams it is one, too: after another cut the same number means other slots."""

KINDS: Final = "group_"
"""Kinds of events that groups tell begin so."""
MEMBERSHIP: Final = ("group_joined", "group_session", "group_left")

FACTS: Final = (
    "replica string, leader string, leads boolean, epoch long, version long, "
    "streams_count int, streams array<int>, reason string"
)
HELD: Final = "array<struct<streams_count: int, stream: int>>"


def changes(events: DataFrame) -> DataFrame:
    """What each replica told of its groups.

    Args:
        events: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `gateway`, `kind`, `count`, `first_wall_ns`, `last_wall_ns`.
    """
    return (
        events.where(F.col("kind").startswith(KINDS))
        .groupBy(*GROUP, "gateway", "kind")
        .agg(
            F.count(F.lit(1)).alias("count"),
            F.min("wall_ns").alias("first_wall_ns"),
            F.max("wall_ns").alias("last_wall_ns"),
        )
        .orderBy(*GROUP, "gateway", "kind")
    )


def leaders(events: DataFrame) -> DataFrame:
    """Who led each group, by epoch.

    A leader tells of itself (`group_leader`). One whose journal is not here is known by the sessions that it leased
    streams to; its epoch begins with the first of these then, a little late. Why a leader ceased no event says.

    Args:
        events: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `epoch`, `gateway` (null if none of its events is here), `replica` (the name by which
        the group knows it; null if no session was told of it), `from_wall_ns`, `ceased_wall_ns` (when it said that it
        leads no more; null if it never did), `until_wall_ns` (the next known epoch's beginning, by another machine's
        clock perhaps; null for the last).
    """
    told = _with_facts(events)
    in_order = Window.partitionBy(*GROUP, "gateway", "life").orderBy("number")
    own = (
        told.where(F.col("kind") == "group_leader")
        .withColumn("next", F.lead(F.struct("fact.leads", "wall_ns")).over(in_order))
        .where(F.col("fact.leads"))
        .select(
            *GROUP,
            F.col("fact.epoch").alias("epoch"),
            F.col("gateway").alias("own_gateway"),
            F.col("wall_ns").alias("own_wall_ns"),
            F.when(~F.col("next.leads"), F.col("next.wall_ns")).alias("ceased_wall_ns"),
        )
    )
    replicas = (
        told.where(F.col("fact.replica").isNotNull())
        .groupBy(*GROUP, F.col("fact.replica").alias("replica"))
        .agg(F.min("gateway").alias("gateway"))
    )
    heard = (
        told.where((F.col("kind") == "group_session") & F.col("fact.epoch").isNotNull())
        .groupBy(*GROUP, F.col("fact.epoch").alias("epoch"))
        .agg(F.min("fact.leader").alias("replica"), F.min("wall_ns").alias("heard_wall_ns"))
        .join(replicas, [*GROUP, "replica"], "left")
    )
    by_epoch = Window.partitionBy(*GROUP).orderBy("epoch")
    return (
        own.join(heard, [*GROUP, "epoch"], "full_outer")
        .withColumn("from_wall_ns", F.coalesce("own_wall_ns", "heard_wall_ns"))
        .select(
            *GROUP,
            "epoch",
            F.coalesce("own_gateway", "gateway").alias("gateway"),
            "replica",
            "from_wall_ns",
            "ceased_wall_ns",
            F.lead("from_wall_ns").over(by_epoch).alias("until_wall_ns"),
        )
        .orderBy(*GROUP, "epoch")
    )


def moves(events: DataFrame) -> DataFrame:
    """Each lease of a stream that a replica gained or lost.

    Args:
        events: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `gateway`, `wall_ns`, `streams_count` (into how many the group was cut), `stream`,
        `change` (`gained` or `lost`), `reason` (of a loss: why the session had no lease any more, or `group_left`;
        null where the leader took the stream back in order, and for a gain).
    """
    return (
        _moves(events)
        .select(*GROUP, "gateway", "wall_ns", "streams_count", "stream", "change", "reason")
        .orderBy(*GROUP, "wall_ns", "gateway", "change", "stream")
    )


def hand_overs(events: DataFrame) -> DataFrame:
    """Each time that a stream's lease went to its next holder, who may be the one before.

    A stream stands still from its holder's losing the lease; what workers have of it they finish in that time. It ends
    here when the next lease is known to its holder, which then has to subscribe at the broker still, unless it is the
    one before.

    Args:
        events: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `streams_count`, `stream`, `source` and `target` (gateways), `lost_wall_ns` (null if
        the source never said so: it was killed), `gained_wall_ns`, `pause_ms` (from the one to the other; null where
        the loss is, and 0 where the clocks have it before that), `reason` (as in `moves`). Where source and target are
        two machines, a pause is as exact as their wall clocks agree.
    """
    in_life = Window.partitionBy(*STREAM, "gateway", "life").orderBy("number")
    by_version = Window.partitionBy(*STREAM).orderBy("epoch", "version")
    lost, gained = F.col("lost.wall_ns"), F.col("next.wall_ns")
    return (
        _moves(events)
        # In one run of one replica gain and loss take turns.
        .withColumn("lost", F.lead(F.struct("wall_ns", "reason")).over(in_life))
        .where(F.col("change") == "gained")
        .withColumn("next", F.lead(F.struct("wall_ns", "gateway")).over(by_version))
        .where(F.col("next").isNotNull())
        .select(
            *STREAM,
            F.col("gateway").alias("source"),
            F.col("next.gateway").alias("target"),
            lost.alias("lost_wall_ns"),
            gained.alias("gained_wall_ns"),
            (F.when(gained < lost, 0).otherwise(gained - lost) / 1e6).alias("pause_ms"),
            F.col("lost.reason").alias("reason"),
        )
        .orderBy(*GROUP, "gained_wall_ns", "stream")
    )


def pauses(events: DataFrame) -> DataFrame:
    """How long the streams of each group stood still; see `hand_overs` for what a pause is, and how exact.

    Args:
        events: rows of the journal's table of this name.

    Returns:
        `topic`, `subscription`, `streams_moved` (leases that went to another gateway), `unknown` (of these, those whose
        loss without an event), and of the others' pauses `p50_ms`, `p95_ms`, `p99_ms`, `max_ms`. Apart from these are
        `leased_again` (leases that the same gateway got back, after a change of leaders mostly) and
        `leased_again_max_ms`.
    """
    moved = F.col("source") != F.col("target")
    pause, again = F.when(moved, F.col("pause_ms")), F.when(~moved, F.col("pause_ms"))
    return (
        hand_overs(events)
        .groupBy(*GROUP)
        .agg(
            F.count(F.when(moved, 1)).alias("streams_moved"),
            F.count(F.when(moved & F.col("pause_ms").isNull(), 1)).alias("unknown"),
            *quantiles(pause),
            F.max(pause).alias("max_ms"),
            F.count(F.when(~moved, 1)).alias("leased_again"),
            F.max(again).alias("leased_again_max_ms"),
        )
        .orderBy(*GROUP)
    )


def _with_facts(events: DataFrame) -> DataFrame:
    """Of groups, with `fact`: what the jobs here ask of `facts`; null each where an event does not have it."""
    return events.where(F.col("kind").startswith(KINDS)).withColumn("fact", F.from_json("facts", FACTS))


def _moves(events: DataFrame) -> DataFrame:
    """As `moves`, with `life`, `number`, and the `epoch` and `version` of the set that the event told."""
    in_order = Window.partitionBy(*GROUP, "gateway", "life").orderBy("number")
    nothing = F.array().cast(HELD)
    streams = F.transform(
        "fact.streams",
        lambda stream: F.struct(F.col("fact.streams_count").alias("streams_count"), stream.alias("stream")),
    )
    # Who has just joined or has left holds nothing.
    held = F.coalesce(F.when(F.col("kind") == "group_session", streams), nothing)
    # A session tells why; for the other kinds the kind is the reason.
    reason = F.when(F.col("kind") == "group_session", F.col("fact.reason")).otherwise(F.col("kind"))
    told = (
        _with_facts(events)
        .where(F.col("kind").isin(*MEMBERSHIP))
        .withColumn("held", held)
        .withColumn("before", F.coalesce(F.lag("held").over(in_order), nothing))
    )
    common = (*GROUP, "gateway", "life", "number", "wall_ns", "fact.epoch", "fact.version")
    gained = told.select(
        *common,
        F.lit("gained").alias("change"),
        F.lit(None).cast("string").alias("reason"),
        F.inline(F.array_except("held", "before")),
    )
    lost = told.select(
        *common,
        F.lit("lost").alias("change"),
        reason.alias("reason"),
        F.inline(F.array_except("before", "held")),
    )
    return gained.unionByName(lost)
