"""How long messages took is told as it was, by whom, and when."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_reports.latency import by_consumer, over_time, slowest, stragglers
from tests.reports.journal_made import MS, SUBSCRIPTION, TOPIC, WALL_NS, Life, frames

KEY = 70_000
SLOT = KEY - 65_536
SHARES = ("p50", "p95", "p99", "max")


def deliveries(spark: SparkSession, *lives: Life) -> DataFrame:
    """Of these lives."""
    return frames(spark, *lives)[0]


def rows(table: DataFrame) -> list[dict[str, Any]]:
    """In their order."""
    return [row.asDict() for row in table.collect()]


def times(row: dict[str, Any], name: str) -> list[float | None]:
    """All that a row tells of one time."""
    return [row[f"{name}_{share}_ms"] for share in SHARES]


def busy(life: Life, consumer: str, messages: int, ms: int, first: int = 0) -> None:
    """Let a consumer have so many messages, each for so long."""
    for entry in range(first, first + messages):
        life.did(entry, consumer, (9, entry, -1), KEY, ms=ms)


def test_a_consumers_times_are_those_of_its_messages(spark: SparkSession) -> None:
    """A redelivered one waits at its first attempt only, and its whole time is of who acknowledged it."""
    life = Life()
    for entry in range(1, 101):
        life.did(2 * entry, "steady", (1, entry, -1), KEY, ms=2 * entry, received=entry)
    life.sent(50, "quitter", (2, 1, -1), KEY, received=10, given=40).returned(400, "quitter", (2, 1, -1), KEY)
    life.did(410, "heir", (2, 1, -1), KEY, attempt=2, ms=5)
    other = Life("life-2", subscription="audit").sent(7, "steady", (1, 1, -1), KEY, received=4, given=5)
    other.acked(10, "steady", (1, 1, -1), KEY)
    audit, heir, quitter, steady = rows(by_consumer(deliveries(spark, life, other)))
    assert [(row["topic"], row["subscription"], row["consumer"]) for row in (audit, heir, quitter, steady)] == [
        (TOPIC, "audit", "steady"),
        (TOPIC, SUBSCRIPTION, "heir"),
        (TOPIC, SUBSCRIPTION, "quitter"),
        (TOPIC, SUBSCRIPTION, "steady"),
    ]
    assert (steady["messages"], steady["acked"]) == (100, 100)
    assert times(steady, "waiting") == [50.0, 95.0, 99.0, 100.0]
    assert times(steady, "processing") == [100.0, 190.0, 198.0, 200.0]
    assert times(steady, "end_to_end") == [150.0, 285.0, 297.0, 300.0]
    assert (quitter["messages"], quitter["acked"], times(quitter, "waiting")) == (1, 0, [40.0] * 4)
    assert times(quitter, "processing") == times(quitter, "end_to_end") == [None] * 4
    assert (heir["messages"], heir["acked"], times(heir, "waiting")) == (1, 1, [None] * 4)
    assert (times(heir, "processing"), times(heir, "end_to_end")) == ([5.0] * 4, [405.0] * 4)
    assert (audit["messages"], times(audit, "waiting")) == (1, [3.0] * 4)
    assert (times(audit, "processing"), times(audit, "end_to_end")) == ([5.0] * 4, [6.0] * 4)


def test_a_time_is_in_the_window_in_which_it_ended(spark: SparkSession) -> None:
    """For all consumers and lives of a subscription together; another has windows of its own."""
    first = Life().did(9_990, "w1", (1, 1, -1), KEY, ms=20, received=9_000).sent(100, "w1", (1, 2, -1), KEY, received=0)
    first.returned(10_000, "w1", (1, 2, -1), KEY)
    second = Life("life-2", "gw-2").did(19_999, "w2", (1, 3, -1), KEY, ms=0, received=19_000)
    other = Life(subscription="audit").sent(35_000, "w1", (1, 1, -1), KEY, received=34_000)
    audit, early, late = rows(over_time(deliveries(spark, first, second, other)))
    assert (early["topic"], early["subscription"], early["window_start_ns"]) == (TOPIC, SUBSCRIPTION, WALL_NS)
    assert (early["messages"], early["acked"], times(early, "waiting")) == (2, 0, [100.0, 990.0, 990.0, 990.0])
    assert times(early, "processing") == [None] * 4
    assert (late["window_start_ns"], late["messages"], late["acked"]) == (WALL_NS + 10_000 * MS, 1, 2)
    assert times(late, "processing") == [0.0, 20.0, 20.0, 20.0]
    assert times(late, "end_to_end") == [999.0, 1_010.0, 1_010.0, 1_010.0]
    assert (audit["subscription"], audit["window_start_ns"]) == ("audit", WALL_NS + 30_000 * MS)
    (whole,) = rows(over_time(deliveries(spark, first), window_s=60))
    assert (whole["window_start_ns"], whole["messages"], whole["acked"]) == (WALL_NS, 2, 1)
    with pytest.raises(ValueError, match="above 0"):
        over_time(deliveries(spark, first), window_s=0)


def test_stragglers_take_several_times_what_is_usual(spark: SparkSession) -> None:
    """From the factor on; of two consumers the slower may be one, and who had few messages is left out."""
    life, pair, instant = Life(), Life(subscription="pair"), Life(subscription="instant")
    for consumer, ms in (("w1", 10), ("w2", 10), ("w3", 29), ("w4", 30), ("w5", 80)):
        busy(life, consumer, 20, ms)
    for number in range(9):
        busy(life, f"rare-{number}", 19, 1_000)
    busy(pair, "w1", 20, 10)
    busy(pair, "w2", 20, 40)
    for consumer, ms in (("w1", 0), ("w2", 0), ("w3", 5)):
        busy(instant, consumer, 21, ms)
    found = rows(stragglers(deliveries(spark, life, pair, instant), factor=2.5))
    columns = ("subscription", "consumer", "messages", "processing_p95_ms", "others_p95_ms", "factor")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("instant", "w3", 21, 5.0, 0.0, None),
        ("pair", "w2", 20, 40.0, 10.0, 4.0),
        (SUBSCRIPTION, "w5", 20, 80.0, 29.0, 80 / 29),
    ]
    assert found[0]["topic"] == TOPIC
    at_the_factor = stragglers(deliveries(spark, pair), factor=4.0)
    assert [row["consumer"] for row in rows(at_the_factor)] == ["w2"]
    assert rows(stragglers(deliveries(spark, pair), factor=4.1)) == []


def test_the_slowest_deliveries_are_told_whole(spark: SparkSession) -> None:
    """Longest from the message's arrival first, however they ended; what lasts still is not among them."""
    life = Life().did(10, "w1", (1, 1, -1), KEY, ms=5).sent(20, "w1", (1, 2, 3), KEY, received=12, given=18)
    life.returned(320, "w1", (1, 2, 3), KEY).did(330, "w2", (1, 2, 3), KEY, attempt=2, ms=4)
    life.sent(11, "w3", (1, 9, -1), KEY, received=1)
    other = Life("life-2", "gw-2", "audit").did(1_000, "w4", (1, 2, 3), KEY, ms=100, received=999)
    heir, quitter, audit = rows(slowest(deliveries(spark, life, other), count=3))
    assert heir == {
        "topic": TOPIC,
        "subscription": SUBSCRIPTION,
        "gateway": "gw-1",
        "message": "1:2:3",
        "consumer": "w2",
        "key": None,
        "key_digest": KEY,
        "slot": SLOT,
        "attempt": 2,
        "how": "acked",
        "waiting_ms": None,
        "processing_ms": 4.0,
        "end_to_end_ms": 322.0,
        "received_wall_ns": WALL_NS + 12 * MS,
        "sent_wall_ns": WALL_NS + 330 * MS,
        "ended_wall_ns": WALL_NS + 334 * MS,
    }
    assert (quitter["consumer"], quitter["how"], quitter["attempt"]) == ("w1", "returned", 1)
    assert (quitter["waiting_ms"], quitter["processing_ms"], quitter["end_to_end_ms"]) == (6.0, 302.0, 308.0)
    assert (audit["subscription"], audit["gateway"], audit["waiting_ms"], audit["processing_ms"]) == (
        "audit",
        "gw-2",
        1.0,
        100.0,
    )


def test_of_nothing_there_are_no_times(spark: SparkSession) -> None:
    """An empty journal, or nothing that has ended, is no error."""
    nothing = deliveries(spark)
    assert [rows(job(nothing)) for job in (by_consumer, over_time, stragglers, slowest)] == [[]] * 4
    unended = deliveries(spark, Life().sent(1, "w1", (1, 1, -1), KEY))
    assert rows(stragglers(unended, messages_min=0)) == rows(slowest(unended)) == []
