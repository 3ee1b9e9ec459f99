"""What came back is told by worker, by time and by message."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from proxy.journal.schema import REDELIVERIES
from spark_reports.redeliveries import by_consumer, poisoned, poisoned_keys, storms
from spark_reports.schemas import spark_schema
from tests.reports.journal_made import MS, SUBSCRIPTION, TOPIC, WALL_NS, Life, frames

A, B = 11, 22
BAD, WORSE, GOOD = (5, 1, -1), (5, 2, 0), (5, 3, -1)


def came_back(at: int, consumer: str, messages: int, subscription: str = SUBSCRIPTION) -> dict[str, Any]:
    """One row; milliseconds."""
    return {
        "life": "life-1",
        "topic": TOPIC,
        "subscription": subscription,
        "at_ns": at * MS,
        "wall_ns": WALL_NS + at * MS,
        "consumer": consumer,
        "messages": messages,
        "date": "2027-01-15",
        "hour": "08",
        "gateway": "gw-1",
    }


def table(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Of these rows."""
    return spark.createDataFrame(list(rows), spark_schema(REDELIVERIES))


def in_vain(life: Life, began: int, message: tuple[int, int, int], key: int, *workers: str) -> int:
    """Delivered to each in turn, who gives it back 10 ms later; the next gets it at once. Tells when that ended."""
    for number, worker in enumerate(workers):
        at = began + 10 * number
        life.sent(at, worker, message, key, attempt=number + 1)
        life.returned(at + 10, worker, message, key, attempt=number + 1)
    return began + 10 * len(workers)


def test_the_worker_that_gave_back_most_comes_first(spark: SparkSession) -> None:
    """With how often, how much, and from when to when; a worker of two subscriptions is two."""
    rows = table(
        spark,
        came_back(30, "w1", 2),
        came_back(10, "w1", 3),
        came_back(20, "w2", 50),
        came_back(40, "w1", 4, "audit"),
    )
    assert [tuple(row) for row in by_consumer(rows).collect()] == [
        (TOPIC, "billing", "w2", 1, 50, WALL_NS + 20 * MS, WALL_NS + 20 * MS),
        (TOPIC, "billing", "w1", 2, 5, WALL_NS + 10 * MS, WALL_NS + 30 * MS),
        (TOPIC, "audit", "w1", 1, 4, WALL_NS + 40 * MS, WALL_NS + 40 * MS),
    ]


def test_a_storm_is_a_window_with_more_than_the_threshold(spark: SparkSession) -> None:
    """Of one subscription, from all its workers; what lies in two windows, or in two subscriptions, does not add up."""
    assert WALL_NS % (60_000 * MS) == 0
    rows = table(
        spark,
        came_back(0, "w1", 300),
        came_back(59_999, "w2", 300),
        came_back(59_999, "w2", 401),
        came_back(60_000, "w1", 1_000),
        came_back(120_000, "w1", 2_000, "audit"),
        came_back(125_000, "w1", 900),
    )
    assert [tuple(row) for row in storms(rows).collect()] == [
        (TOPIC, "audit", WALL_NS + 120_000 * MS, 2_000, 1, 1),
        (TOPIC, "billing", WALL_NS, 1_001, 3, 2),
    ]
    wide = storms(rows, window_s=600, threshold=2_000)
    assert [(row["messages"], row["occasions"]) for row in wide.collect()] == [(2_901, 5)]


def test_messages_that_come_again_and_again_are_named(spark: SparkSession) -> None:
    """With their story; each life and each subscription has its own."""
    life, audit, later = Life(), Life(subscription="audit"), Life("life-2")
    life.did(in_vain(life, 100, BAD, A, "w1", "w2", "w1"), "w3", BAD, A, attempt=4, ms=5)
    in_vain(life, 200, WORSE, A, "w1", "w1", "w1", "w1", "w1")
    life.did(in_vain(life, 300, GOOD, B, "w1"), "w1", GOOD, B, attempt=2)
    in_vain(audit, 50, BAD, A, "w9", "w9", "w9")
    in_vain(later, 1_000, BAD, A, "w1", "w1")
    for row in life.deliveries:
        row["key"] = f"key-{row['key_digest']}"
    deliveries, _ = frames(spark, life, audit, later)
    rows = [tuple(row) for row in poisoned(deliveries).collect()]
    assert rows == [
        _row("billing", "key-11", "5:2:0", 5, 1, acked=False, sent=(200, 240)),
        _row("billing", "key-11", "5:1:-1", 4, 3, acked=True, sent=(100, 130)),
        _row("audit", None, "5:1:-1", 3, 1, acked=False, sent=(50, 70)),
    ]
    assert [tuple(row) for row in poisoned(deliveries, 2, 1).collect()] == rows[:1]
    assert {row["life"] for row in poisoned(deliveries, 2).collect()} == {"life-1", "life-2"}


def test_a_key_is_blocked_until_its_first_such_message_is_done(spark: SparkSession) -> None:
    """Acknowledged, or dropped; else as long as anything is known of the subscription in that life."""
    life, audit, later = Life(), Life(subscription="audit"), Life("life-2")
    life.did(in_vain(life, 100, BAD, A, "w1", "w2", "w1"), "w3", BAD, A, attempt=4, ms=5)
    in_vain(life, 120, WORSE, A, "w1", "w1", "w1")
    in_vain(life, 200, GOOD, B, "w1", "w1", "w1", "w1", "w1")
    life.did(900, "w1", (5, 9, -1), 33)
    audit.dropped(in_vain(audit, 50, BAD, A, "w9", "w9", "w9"), "w9", BAD, A, attempt=4).did(800, "w9", GOOD, B)
    later.did(5_000, "w1", (5, 9, -1), 33)
    found = poisoned_keys(frames(spark, life, audit, later)[0]).collect()
    names = ("subscription", "key_digest", "messages", "unacked_messages", "in_vain", "first_sent_ns", "blocked_ms")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("billing", A, 2, 1, 6, WALL_NS + 100 * MS, 35.0),
        ("billing", B, 1, 1, 5, WALL_NS + 200 * MS, 701.0),
        ("audit", A, 1, 1, 3, WALL_NS + 50 * MS, 30.0),
    ]
    assert [(row["life"], row["key"], row["slot"]) for row in found] == [
        ("life-1", None, A),
        ("life-1", None, B),
        ("life-1", None, A),
    ]


def test_nothing_that_came_back_is_nothing_told(spark: SparkSession) -> None:
    """Of empty tables, and of deliveries that all went well at once."""
    assert by_consumer(table(spark)).collect() == storms(table(spark)).collect() == []
    good, _ = frames(spark, Life().did(1, "w1", GOOD, A))
    for deliveries in (frames(spark)[0], good):
        assert poisoned(deliveries).collect() == poisoned_keys(deliveries).collect() == []


def _row(
    subscription: str,
    key: str | None,
    message: str,
    attempts: int,
    consumers: int,
    *,
    acked: bool,
    sent: tuple[int, int],
) -> tuple[object, ...]:
    """Of `poisoned`, of key A in the first life; times of the first and the last sending in milliseconds."""
    times = (WALL_NS + at * MS for at in sent)
    return (TOPIC, subscription, "life-1", A, key, A, message, attempts, consumers, acked, *times)
