"""A report on a part of the time judges as one on all of it: nothing is found at the cuts, nothing counted twice."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from spark_reports.ordering_audit import SUMS, totals, violations
from spark_reports.span import EVERYTHING, Span, day
from tests.reports.journal_made import WALL_NS, Life, by_duckdb, by_spark

MINUTE = 60_000
BEGIN = datetime.fromtimestamp(WALL_NS // 1_000_000_000, UTC)
CUTS = (BEGIN + timedelta(minutes=100), BEGIN + timedelta(minutes=250))


def judged(spark: SparkSession, life: Life, span: Span) -> tuple[dict[str, int], list[str]]:
    """Sums and kinds of violations of a span, from the rows that are read for it."""
    found = by_spark(spark, life, span=span).cache()
    counts = totals(found).first()
    assert counts is not None
    rows = [row.asDict() for row in violations(found).orderBy("violation", "wall_ns", "message").collect()]
    assert by_duckdb(life, span=span) == (counts.asDict(), rows)
    return counts.asDict(), [row["violation"] for row in rows]


def restless(seed: int) -> Life:
    """Six hours of two workers; messages are held for up to three hours, come back, and stay there at the end."""
    draw, life = random.Random(seed), Life()  # noqa: S311 - a repeatable choice, no secret
    at = dict.fromkeys(range(6), 0)
    for entry in range(240):
        key = draw.choice(list(at))
        sent = max(at[key], entry * MINUTE * 3 // 2)
        ended = sent + draw.choice((10, MINUTE, 30 * MINUTE, 180 * MINUTE))
        at[key] = ended
        life.sent(sent, "w1", (1, entry, -1), key)
        if draw.random() < 0.3:
            life.returned(ended, "w1", (1, entry, -1), key)
            at[key] = ended + 10
            life.did(ended, "w2", (1, entry, -1), key, attempt=2, ms=10)
        elif draw.random() < 0.95 or entry < 200:
            life.acked(ended, "w1", (1, entry, -1), key)
        else:
            del at[key]
    return life


def test_parts_sum_up_and_find_nothing_at_their_ends(spark: SparkSession) -> None:
    """Each message is counted where it was first sent, each delivery where it was sent, keys wherever they are."""
    life = restless(3)
    whole, nothing = judged(spark, life, EVERYTHING)
    assert nothing == []
    first, last = CUTS
    parts = [judged(spark, life, span) for span in (Span(None, first), Span(first, last), Span(last, None))]
    assert [kinds for _, kinds in parts] == [[], [], []]
    for name in set(SUMS) - {"keys", "outstanding", "acked", "waiting"}:
        assert sum(counts[name] for counts, _ in parts) == whole[name], name
    assert all(counts["messages"] > 10 for counts, _ in parts)
    assert all(counts["keys"] <= whole["keys"] for counts, _ in parts)


def test_a_holder_of_long_ago_is_known_from_its_end(spark: SparkSession) -> None:
    """It was sent before anything that is read; whoever got the key meanwhile is found, where it was sent."""
    life = Life().sent(0, "w1", (1, 1, -1), 7).did(200 * MINUTE, "w2", (1, 2, -1), 7)
    life.acked(240 * MINUTE, "w1", (1, 1, -1), 7)
    first, last = CUTS
    assert [judged(spark, life, span)[1] for span in (Span(None, first), Span(first, last), Span(last, None))] == [
        [],
        ["overlap"],
        [],
    ]


def test_a_day_is_from_midnight_to_midnight() -> None:
    """In UTC, with margins for reading."""
    span = day(datetime(2026, 11, 22, 15, tzinfo=UTC).date())
    assert (span.since, span.until) == (datetime(2026, 11, 22, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC))
    assert span.around.since == datetime(2026, 11, 21, 23, tzinfo=UTC)
