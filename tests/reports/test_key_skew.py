"""Skew is told as it is: known values of the measures, and what the gateway's own selectors would make of the keys."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from proxy.core.selectors.consistent_hashing import ConsistentHashing
from spark_reports.key_skew import curve, gini, heavy_hitters, shares, what_if
from tests.reports.journal_made import SUBSCRIPTION, TOPIC, Life, frames


@dataclass(frozen=True, eq=False)
class Named:
    """A worker."""

    name: str


def life_of(counts: dict[int, int], subscription: str = SUBSCRIPTION, worker: str = "w1") -> Life:
    """So many messages of each key, all at one worker; the first of each comes a second time, which counts nothing."""
    life, entry = Life(f"life-of-{subscription}", subscription=subscription), 0
    for key, count in counts.items():
        for number in range(count):
            entry += 1
            life.sent(entry, worker, (5, entry, -1), key)
            if not number:
                life.returned(entry, worker, (5, entry, -1), key)
                life.sent(entry, "another", (5, entry, -1), key, attempt=2)
    return life


def test_the_keys_with_most_messages_come_first_in_each_subscription(spark: SparkSession) -> None:
    """With their share of it, their bytes, and how many workers had them; a key of two subscriptions is two."""
    life = life_of({11: 5, 22: 3, 33: 2}).sent(90, "w2", (5, 90, -1), 11).sent(91, "w3", (5, 91, -1), 33)
    for row in life.deliveries:
        row["key"] = "eleven" if row["key_digest"] == 11 else None
    deliveries, _ = frames(spark, life, life_of({22: 1, 44: 3}, "audit"))
    rows = [row.asDict() for row in heavy_hitters(deliveries, 2).collect()]
    assert [(row["subscription"], row["key_digest"], row["messages"], row["bytes"]) for row in rows] == [
        ("audit", 44, 3, 300),
        ("audit", 22, 1, 100),
        ("billing", 11, 6, 600),
        ("billing", 22, 3, 300),
    ]
    assert [row["share"] for row in rows] == [0.75, 0.25, 0.5, 0.25]
    assert [(row["key"], row["slot"], row["consumers"]) for row in rows[2:]] == [("eleven", 11, 2), (None, 22, 1)]
    assert {row["topic"] for row in rows} == {TOPIC}


def test_gini_has_its_known_values(spark: SparkSession) -> None:
    """0 if all keys have as many, or there is one; otherwise half the relative mean difference, as it is defined."""
    skewed = [1, 1, 1, 1, 1, 2, 3, 5, 8, 13, 21, 43]
    deliveries, _ = frames(
        spark,
        life_of(dict.fromkeys(range(1, 5), 7), "even"),
        life_of({1: 9}, "one"),
        life_of({1: 1, 2: 97, 3: 1, 4: 1}, "greedy"),
        life_of(dict(enumerate(skewed, 1)), "skewed"),
    )
    rows = {row["subscription"]: row.asDict() for row in gini(deliveries).collect()}
    assert list(rows) == ["greedy", "skewed", "even", "one"]
    differences = sum(abs(one - other) for one in skewed for other in skewed)
    assert {name: row["gini"] for name, row in rows.items()} == pytest.approx(
        {"greedy": 0.72, "skewed": differences / (2 * 12 * 100), "even": 0.0, "one": 0.0}
    )
    assert {name: (row["keys"], row["messages"]) for name, row in rows.items()} == {
        "greedy": (4, 100),
        "skewed": (12, 100),
        "even": (4, 28),
        "one": (1, 9),
    }
    assert {name: (row["top_share"], row["top_10_share"]) for name, row in rows.items()} == {
        "greedy": (0.97, 1.0),
        "skewed": (0.43, 0.98),
        "even": (0.25, 1.0),
        "one": (1.0, 1.0),
    }


def test_the_curve_goes_from_nothing_to_all(spark: SparkSession) -> None:
    """Sampled at even steps, between keys on the straight line; for each subscription by itself."""
    deliveries, _ = frames(spark, life_of({1: 1, 2: 1, 3: 2, 4: 6}), life_of({1: 3, 2: 3, 3: 3}, "even"))
    rows = curve(deliveries, 8).collect()
    found = {
        name: [(row["keys_share"], row["messages_share"]) for row in rows if row["subscription"] == name]
        for name in ("billing", "even")
    }
    steps = [number / 8 for number in range(9)]
    assert [keys for keys, _ in found["billing"]] == steps
    assert [messages for _, messages in found["billing"]] == pytest.approx([0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.7, 1])
    assert [keys for keys, _ in found["even"]] == steps
    assert [messages for _, messages in found["even"]] == pytest.approx(steps)


def test_a_worker_with_the_busy_slots_stands_out(spark: SparkSession) -> None:
    """Its share of the messages is greater than its share of the slots that were seen."""
    life = life_of({1: 6, 2: 2})
    for entry, key in enumerate((3, 4, 5, 6, 7, 8, 2, 2), 100):
        life.sent(entry, "w2" if key != 8 else "w3", (5, entry, -1), key)
    deliveries, _ = frames(spark, life, life_of({1: 2}, "audit", worker="w2"))
    columns = ("subscription", "consumer", "messages", "traffic_share", "slots", "slots_share", "ratio")
    assert [tuple(row[name] for name in columns) for row in shares(deliveries).collect()] == [
        ("audit", "w2", 2, 1.0, 1, 1.0, 1.0),
        ("billing", "w1", 8, 0.5, 2, pytest.approx(2 / 9), pytest.approx(2.25)),
        ("billing", "w2", 7, 0.4375, 6, pytest.approx(6 / 9), pytest.approx(0.65625)),
        ("billing", "w3", 1, 0.0625, 1, pytest.approx(1 / 9), pytest.approx(0.5625)),
    ]


def test_the_selectors_are_replayed_over_the_keys(spark: SparkSession) -> None:
    """Auto-split halves by hand, the ring by its own lookup; the verdict is the first that holds."""
    counts = {1_000: 4, 20_000: 3, 40_000: 2, 60_000: 1}
    even = dict.fromkeys(range(100, 65_500, 500), 1)
    deliveries, _ = frames(spark, life_of(counts), life_of(even, "even"), life_of({7: 5}, "one"))
    rows = {
        (row["subscription"], row["selector"], row["consumers"]): row
        for row in what_if(deliveries, (4, 1, 2), points=10).collect()
    }
    assert len(rows) == 3 * 2 * 3
    split = [rows["billing", "auto_split", count] for count in (1, 2, 4)]
    assert [row["busiest_share"] for row in split] == [1.0, 0.7, 0.4]
    assert [row["ideal_share"] for row in split] == [1.0, 0.5, 0.25]
    assert {row["heaviest_key_share"] for row in split} == {0.4}
    for count in (1, 2, 4):
        ring: ConsistentHashing[Named] = ConsistentHashing(10)
        for number in range(count):
            ring.add(Named(f"w{number + 1}"))
        had: dict[str, int] = {}
        for slot, messages in counts.items():
            owner = ring.select(slot)
            assert owner is not None
            had[owner.name] = had.get(owner.name, 0) + messages
        assert rows["billing", "consistent_hashing", count]["busiest_share"] == max(had.values()) / 10
    assert [rows["even", "auto_split", count]["verdict"] for count in (1, 2, 4)] == ["even enough"] * 3
    assert [rows["one", "auto_split", count]["verdict"] for count in (1, 2)] == ["even enough", "one key is the bound"]
    assert [row["verdict"] for row in split] == ["even enough", "more consumers help", "one key is the bound"]
    assert rows["even", "consistent_hashing", 4]["verdict"] == "another selector helps"
    alone = what_if(deliveries.where("subscription = 'billing'"), (2,), points=10)
    assert [row["verdict"] for row in alone.collect()] == ["unevenly dealt"] * 2


def test_nothing_sent_is_nothing_told(spark: SparkSession) -> None:
    """Every report of an empty journal is empty."""
    deliveries, _ = frames(spark)
    for table in (heavy_hitters, gini, curve, shares):
        assert table(deliveries).collect() == []
    assert what_if(deliveries, (1, 2)).collect() == []
