"""What replicas told of their groups is put together: who led, what moved, how long streams stood still."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_reports.leases import changes, hand_overs, leaders, moves, pauses
from tests.reports.journal_made import MS, SUBSCRIPTION, TOPIC, WALL_NS, Life, frames

Version = tuple[int, int]
"""Epoch and number."""


def events(spark: SparkSession, *lives: Life) -> DataFrame:
    """Of these lives."""
    return frames(spark, *lives)[1]


def rows(table: DataFrame) -> list[dict[str, Any]]:
    """In their order."""
    return [row.asDict() for row in table.collect()]


def wall(at: int) -> int:
    """A life's moment by the wall clock."""
    return WALL_NS + at * MS


class Replica(Life):
    """One life of a replica, told as `proxy.net.group.audit_log` does."""

    def __init__(self, gateway: str, life: str = "1", subscription: str = SUBSCRIPTION, streams_count: int = 4) -> None:
        super().__init__(f"{gateway}-life-{life}", gateway, subscription)
        self.replica = f"{gateway}-{life}"
        self._streams_count = streams_count

    def joined(self, at: int) -> None:
        """The group."""
        self.happened(at, "group_joined", replica=self.replica)

    def left(self, at: int) -> None:
        """The group."""
        self.happened(at, "group_left", replica=self.replica)

    def leads(self, at: int, epoch: int | None) -> None:
        """From now on, or no more."""
        self.happened(at, "group_leader", leads=epoch is not None, epoch=epoch)

    def leased(self, at: int, version: Version, *streams: int, leader: str = "a-1") -> None:
        """These streams and no others."""
        self._session(at, "replaying", leader, version, list(streams), None)

    def lost(self, at: int, reason: str) -> None:
        """All leases."""
        self._session(at, "connecting", None, None, [], reason)

    def _session(
        self, at: int, state: str, leader: str | None, version: Version | None, streams: list[int], reason: str | None
    ) -> None:
        epoch, number = version or (None, None)
        self.happened(
            at,
            "group_session",
            replica=self.replica,
            state=state,
            leader=leader,
            epoch=epoch,
            version=number,
            streams_count=self._streams_count,
            streams=streams,
            reason=reason,
        )


def test_changes_are_counted_by_gateway_and_kind(spark: SparkSession) -> None:
    """Over all its lives; what is not of groups is left out."""
    first, second, other = Replica("a"), Replica("a", "2"), Replica("a", subscription="audit")
    first.joined(1)
    first.happened(2, "worker_joined", worker="w1").happened(3, "group_replayed", problem=None)
    second.joined(50)
    other.joined(7)
    columns = ("topic", "subscription", "gateway", "kind", "count", "first_wall_ns", "last_wall_ns")
    found = changes(events(spark, first, second, other))
    assert tuple(found.columns) == columns
    assert [tuple(row) for row in found.collect()] == [
        (TOPIC, "audit", "a", "group_joined", 1, wall(7), wall(7)),
        (TOPIC, SUBSCRIPTION, "a", "group_joined", 2, wall(1), wall(50)),
        (TOPIC, SUBSCRIPTION, "a", "group_replayed", 1, wall(3), wall(3)),
    ]


def test_leaders_follow_each_other_by_epoch(spark: SparkSession) -> None:
    """One without a journal is known by its sessions; one that was killed has not said that it leads no more."""
    a, b, audit = Replica("a"), Replica("b"), Replica("b", subscription="audit")
    a.leads(10, 1)
    a.leased(12, (1, 1), 0)
    a.leads(100, None)
    b.joined(1)
    # a led again and did not say so; a session was told.
    b.leased(120, (2, 1), 1)
    b.leased(160, (3, 1), 1, leader="c-7")
    b.leased(170, (3, 2), 0, 1, leader="c-7")
    b.leads(200, 4)
    b.leased(205, (4, 1), 0, leader="b-1")
    audit.leads(50, 9)
    told = leaders(events(spark, a, b, audit))
    names = ("subscription", "epoch", "gateway", "replica", "from_wall_ns", "ceased_wall_ns", "until_wall_ns")
    assert [tuple(row[name] for name in names) for row in rows(told)] == [
        ("audit", 9, "b", None, wall(50), None, None),
        (SUBSCRIPTION, 1, "a", "a-1", wall(10), wall(100), wall(120)),
        (SUBSCRIPTION, 2, "a", "a-1", wall(120), None, wall(160)),
        (SUBSCRIPTION, 3, None, "c-7", wall(160), None, wall(200)),
        (SUBSCRIPTION, 4, "b", "b-1", wall(200), None, None),
    ]


def test_each_stream_that_comes_or_goes_is_a_move(spark: SparkSession) -> None:
    """By the difference to what was leased before in the same life and group, with the reason of a loss."""
    a, again, third = Replica("a"), Replica("a", "2"), Replica("a", "3")
    audit = Replica("a", subscription="audit", streams_count=8)
    a.joined(1)
    a.leased(10, (1, 1), 0, 1)
    a.leased(20, (1, 2), 1, 2)
    a.lost(30, "a leader began")
    a.leased(40, (2, 1), 2)
    a.left(50)
    again.joined(60)
    again.leased(70, (2, 5), 2)
    # It was killed: what the next life is leased it did not have before.
    third.leased(80, (3, 1), 2)
    audit.leased(15, (1, 1), 0)
    found = rows(moves(events(spark, a, again, third, audit)))
    columns = ("subscription", "gateway", "wall_ns", "streams_count", "stream", "change", "reason")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("audit", "a", wall(15), 8, 0, "gained", None),
        (SUBSCRIPTION, "a", wall(10), 4, 0, "gained", None),
        (SUBSCRIPTION, "a", wall(10), 4, 1, "gained", None),
        (SUBSCRIPTION, "a", wall(20), 4, 2, "gained", None),
        (SUBSCRIPTION, "a", wall(20), 4, 0, "lost", None),
        (SUBSCRIPTION, "a", wall(30), 4, 1, "lost", "a leader began"),
        (SUBSCRIPTION, "a", wall(30), 4, 2, "lost", "a leader began"),
        (SUBSCRIPTION, "a", wall(40), 4, 2, "gained", None),
        (SUBSCRIPTION, "a", wall(50), 4, 2, "lost", "group_left"),
        (SUBSCRIPTION, "a", wall(70), 4, 2, "gained", None),
        (SUBSCRIPTION, "a", wall(80), 4, 2, "gained", None),
    ]
    assert {row["topic"] for row in found} == {TOPIC}


def test_a_pause_is_from_one_holders_loss_to_the_nexts_gain(spark: SparkSession) -> None:
    """By versions, whatever the clocks say; unknown where the loss is in no journal."""
    a, b, c, audit = Replica("a"), Replica("b"), Replica("c"), Replica("b", subscription="audit")
    a.leased(10, (1, 1), 0, 1, 2, 3)
    a.leased(20, (1, 2), 1, 2, 3)
    b.leased(27, (1, 3), 0)
    # c's clock is behind: by it, c had stream 1 before a did.
    a.leased(30, (1, 4), 2, 3)
    c.leased(5, (1, 5), 1)
    a.lost(40, "a leader began")
    a.leased(52, (2, 1), 2, 3, leader="b-1")
    # a is killed here, and b gets what it had.
    b.leased(7_000, (2, 2), 0, 2, 3, leader="b-1")
    audit.leased(12, (1, 2), 0)
    told = events(spark, a, b, c, audit)
    columns = ("stream", "source", "target", "lost_wall_ns", "gained_wall_ns", "pause_ms", "reason")
    assert [tuple(row[name] for name in columns) for row in rows(hand_overs(told))] == [
        (1, "a", "c", wall(30), wall(5), 0.0, None),
        (0, "a", "b", wall(20), wall(27), 7.0, None),
        (2, "a", "a", wall(40), wall(52), 12.0, "a leader began"),
        (3, "a", "a", wall(40), wall(52), 12.0, "a leader began"),
        (2, "a", "b", None, wall(7_000), None, None),
        (3, "a", "b", None, wall(7_000), None, None),
    ]
    (row,) = rows(pauses(told))
    assert row == {
        "topic": TOPIC,
        "subscription": SUBSCRIPTION,
        "streams_moved": 4,
        "unknown": 2,
        "p50_ms": 0.0,
        "p95_ms": 7.0,
        "p99_ms": 7.0,
        "max_ms": 7.0,
        "leased_again": 2,
        "leased_again_max_ms": 12.0,
    }


def test_a_stream_of_another_cut_is_another_stream(spark: SparkSession) -> None:
    """Stream 0 of four is not what stream 0 of eight was; both are lost and gained."""
    a, b = Replica("a", streams_count=8), Replica("b", streams_count=4)
    a.leased(10, (1, 1), 0)
    a.left(20)
    b.leased(30, (1, 2), 0)
    told = events(spark, a, b)
    assert [(row["streams_count"], row["change"]) for row in rows(moves(told))] == [
        (8, "gained"),
        (8, "lost"),
        (4, "gained"),
    ]
    assert rows(hand_overs(told)) == []


def test_of_nothing_there_is_nothing_to_tell(spark: SparkSession) -> None:
    """A gateway that is alone has no group, and an empty journal is no error."""
    for told in (events(spark), events(spark, Life().happened(5, "worker_joined", worker="w1"))):
        assert [rows(job(told)) for job in (changes, leaders, moves, pauses)] == [[]] * 4
