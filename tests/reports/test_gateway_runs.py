"""Two gateways of one name, and clocks that jump, are told; those that follow one another are not."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql import SparkSession

from spark_reports.gateway_runs import odd
from tests.reports.journal_made import MS, WALL_NS, Life, looked_at

SECOND = 1_000


def told(spark: SparkSession, *of: Life, killed: Collection[str] = ()) -> tuple[list[dict[str, Any]], list[str]]:
    """All lives, and the names of the odd ones."""
    found = looked_at(spark, *of, killed=killed).runs
    return found, [row["life"] for row in odd(found)]


def test_lives_follow_one_another(spark: SparkSession) -> None:
    """Each replica has its own; a gateway that starts again begins another."""
    first = Life("a").happened(0, "x").happened(10 * SECOND, "x")
    second = Life("b").happened(11 * SECOND, "x").happened(20 * SECOND, "x")
    other = Life("c", gateway="gw-2").happened(5 * SECOND, "x")
    rows, strange = told(spark, second, other, first)
    assert [(row["gateway"], row["life"], row["rows"], row["beside"]) for row in rows] == [
        ("gw-1", "a", 2, None),
        ("gw-1", "b", 2, None),
        ("gw-2", "c", 1, None),
    ]
    assert (rows[0]["first_wall_ns"], rows[0]["last_wall_ns"]) == (WALL_NS, WALL_NS + 10 * SECOND * MS)
    assert strange == []


def test_two_of_one_name_at_once_are_odd(spark: SparkSession) -> None:
    """Also behind a short one in between."""
    first = Life("a").happened(0, "x").happened(100 * SECOND, "x")
    second, third = Life("b").happened(200 * SECOND, "x"), Life("c").happened(50 * SECOND, "x")
    rows, strange = told(spark, first, second, third)
    assert [(row["life"], row["beside"]) for row in rows] == [("a", None), ("c", "a"), ("b", None)]
    assert strange == ["c"]


def test_a_life_that_was_killed_is_odd(spark: SparkSession) -> None:
    """Its files say so; its last second is in none of them."""
    lives = Life("a").happened(0, "x"), Life("b").happened(SECOND, "x")
    found, strange = told(spark, *lives, killed={"a", "of another journal"})
    assert [(row["life"], row["killed"]) for row in found] == [("a", True), ("b", False)]
    assert strange == ["a"]


def test_a_clock_that_jumps_is_odd(spark: SparkSession) -> None:
    """The wall clock against the life's own; a little is none."""
    life, calm = Life("a").happened(0, "x").happened(SECOND, "x"), Life("b", gateway="gw-2").happened(0, "x")
    calm.happened(SECOND, "x")
    life.events[1]["wall_ns"] -= 3_600 * SECOND * MS
    calm.events[1]["wall_ns"] += SECOND * MS // 2
    rows, strange = told(spark, life, calm)
    assert [row["clock_moved_ns"] for row in rows] == [3_600 * SECOND * MS, SECOND * MS // 2]
    assert strange == ["a"]
