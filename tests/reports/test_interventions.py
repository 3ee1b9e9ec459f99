"""What was taken from workers is counted by cause and worker."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_reports.interventions import by_worker
from tests.reports.journal_made import MS, SUBSCRIPTION, TOPIC, WALL_NS, Life, frames


def test_leases_quarantines_dead_letters_and_orders_are_counted_by_worker(spark: SparkSession) -> None:
    """Joins and leaves are not: they are told elsewhere. What no event says is null."""
    life = Life()
    life.happened(1, "worker_joined", worker="a").happened(9, "worker_left", worker="a", reason="its ack lease ended")
    life.happened(8, "ack_lease_lost", worker="a", messages=3, position="7:1", held_s=2.5)
    life.happened(12, "ack_lease_lost", worker="a", messages=1, position="7:2", held_s=2.0)
    life.happened(12, "worker_quarantined", worker="a", lasts_s=30.0)
    life.happened(20, "operator_order", order="readmit", worker="a", by="admin")
    life.happened(30, "dead_letters", messages_count=2, messages=[{"position": "7:1"}], dead_letter_topic="t-s-DLQ")
    life.happened(40, "parked", messages_count=5, messages=[], dead_letter_topic="t-s-PARKED")
    _, events, *_ = frames(spark, life)
    found = [tuple(row)[2:] for row in by_worker(events).collect()]
    assert found == [
        ("ack_lease_lost", "a", 2, 4, 2.5, WALL_NS + 8 * MS, WALL_NS + 12 * MS),
        ("dead_letters", None, 1, 2, None, WALL_NS + 30 * MS, WALL_NS + 30 * MS),
        ("operator: readmit", "a", 1, None, None, WALL_NS + 20 * MS, WALL_NS + 20 * MS),
        ("parked", None, 1, 5, None, WALL_NS + 40 * MS, WALL_NS + 40 * MS),
        ("worker_quarantined", "a", 1, None, None, WALL_NS + 12 * MS, WALL_NS + 12 * MS),
    ]
    assert {tuple(row)[:2] for row in by_worker(events).collect()} == {(TOPIC, SUBSCRIPTION)}
