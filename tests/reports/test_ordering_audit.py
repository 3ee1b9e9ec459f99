"""The judge of journals is judged: every planted fault is found, with its evidence, and nothing where none is.

By both engines, which have to give the same.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.sql import SparkSession

from integration.journals.plan import FAULTS
from proxy.journal.digest import KeyDigests
from spark_reports import duckdb_audit
from spark_reports.ordering_audit import SUMS, totals, violations
from spark_reports.run import opened
from tests.journal.rig import JournalRig
from tests.net.subscription_rig import SubscriptionRig
from tests.net.test_subscription_opaque import encrypted
from tests.reports.journal_made import MS, Life, by_duckdb, by_spark

A, B = 11, 22


def found(spark: SparkSession, *lives: Life) -> list[dict[str, Any]]:
    """All violations, by what and when."""
    rows = [row.asDict() for row in violations(by_spark(spark, *lives)).collect()]
    rows.sort(key=lambda row: (row["violation"], row["wall_ns"], row["message"]))
    assert by_duckdb(*lives)[1] == rows
    return rows


def kinds(spark: SparkSession, *lives: Life) -> list[str]:
    """Of all violations."""
    return [row["violation"] for row in found(spark, *lives)]


def message(entry: int, index: int = -1) -> tuple[int, int, int]:
    """Of the one ledger."""
    return 5, entry, index


def test_a_faultless_life_is_found_faultless(spark: SparkSession) -> None:
    """Keys go from worker to worker, each when nothing of it is held any more; messages come back and go out again."""
    draw = random.Random(5)  # noqa: S311 - a repeatable choice, no secret
    life = Life()
    at = 0
    for entry in range(300):
        key, worker = draw.choice((A, B, 33)), draw.choice(("w1", "w2", "w3"))
        at += 5
        life.sent(at, worker, message(entry), key)
        if draw.random() < 0.2:
            life.returned(at + 1, worker, message(entry), key)
            other = draw.choice(("w1", "w2", "w3"))
            life.did(at + 1, other, message(entry), key, attempt=2)
        else:
            life.acked(at + 2, worker, message(entry), key)
    assert found(spark, life) == []


def test_two_workers_with_one_key_are_found_with_both_messages(spark: SparkSession) -> None:
    """Not those that have different keys, nor a worker that has several messages of a key."""
    life = Life().sent(10, "w1", message(1), A).did(11, "w1", message(2), A).did(12, "w2", message(3), B)
    life.sent(20, "w2", message(4), A).acked(30, "w1", message(1), A).acked(31, "w2", message(4), A)
    (row,) = found(spark, life)
    assert (row["violation"], row["key_digest"], row["consumer"], row["message"]) == ("overlap", A, "w2", "5:4:-1")
    assert (row["other"], row["other_consumer"], row["at_ns"]) == ("5:1:-1", "w1", 20 * MS)
    assert row["detail"] == "10.000 ms before its end"


def test_a_worker_that_never_ends_what_it_has_holds_it_for_ever(spark: SparkSession) -> None:
    """Whatever others get of the key is an overlap; the end of the record is none."""
    life = Life().sent(10, "w1", message(1), A)
    assert found(spark, life) == []
    life.did(20, "w2", message(2), A)
    assert kinds(spark, life) == ["overlap"]


def test_a_message_behind_a_later_one_is_found(spark: SparkSession) -> None:
    """By ledger, entry and place in the batch; what comes again is not new."""
    life = Life().did(10, "w1", message(1, 0), A).did(20, "w1", message(3), A).did(30, "w1", message(1, 1), A)
    (row,) = found(spark, life)
    assert (row["violation"], row["message"], row["other"]) == ("inversion", "5:1:1", "5:3:-1")
    again = Life().sent(10, "w1", message(1), A).sent(11, "w1", message(2), A).acked(12, "w1", message(2), A)
    again.returned(13, "w1", message(1), A).did(14, "w1", message(1), A, attempt=2)
    assert found(spark, again) == []


def test_what_leaves_together_is_in_order(spark: SparkSession) -> None:
    """One turn of the gateway has one time."""
    life = Life().did(10, "w1", message(2), A).did(10, "w1", message(1), A)
    assert found(spark, life) == []


def test_a_subscription_that_begins_anew_may_begin_anywhere(spark: SparkSession) -> None:
    """After a seek or a replay, older messages come behind newer ones, and some come again."""
    life = Life().did(10, "w1", message(5), A).did(11, "w1", message(6), A)
    life.did(30, "w2", message(4), A).did(31, "w2", message(5), A)
    assert kinds(spark, life) == ["inversion", "repeated"]
    for kind in ("subscription_began", "group_replayed"):
        life.events = []
        assert found(spark, life.happened(20, kind)) == []


def test_a_subscription_without_order_may_share_keys(spark: SparkSession) -> None:
    """But nothing is lost or repeated there either."""
    life = Life().happened(1, "subscription_began", ordering_mode="unordered")
    life.sent(10, "w1", message(2), A).did(11, "w2", message(1), A).acked(12, "w1", message(2), A)
    assert found(spark, life) == []
    life.did(20, "w1", message(2), A, attempt=2)
    assert kinds(spark, life) == ["repeated"]


@pytest.mark.parametrize("how", ["acked", None])
def test_a_repetition_without_a_cause_is_found(spark: SparkSession, how: str | None) -> None:
    """After its acknowledgement, or while it is held; whoever gave it back, or lost it with its stream, is a cause."""
    life = Life().sent(10, "w1", message(1), A)
    if how == "acked":
        life.acked(11, "w1", message(1), A)
    life.did(20, "w1", message(1), A, attempt=2)
    (row,) = [row for row in found(spark, life) if row["violation"] == "repeated"]
    assert row["detail"] == f"the delivery before {how or 'had not ended'}"
    moved = (
        Life().sent(10, "w1", message(1), A).dropped(11, "w1", message(1), A).did(20, "w2", message(1), A, attempt=2)
    )
    assert found(spark, moved) == []


class Batches(Life):
    """Of two messages of two keys each, one batch after another."""

    def half_acked(self, entry: int, why: str | None = "whole") -> Self:
        """A worker acknowledges the first of them, at 11 ms of the batch's own 100."""
        at = 100 * entry
        for index, key in enumerate((A, B)):
            self.sent(at + 10, "w1", message(entry, index), key, why=why)
        return self.acked(at + 11, "w1", message(entry, 0), A)

    def again(self, entry: int, at: int = 12, attempt: int = 2, why: str | None = "whole") -> Self:
        """Both are sent and acknowledged once more."""
        for index, key in enumerate((A, B)):
            self.sent(100 * entry + at, "w1", message(entry, index), key, attempt=attempt, why=why)
            self.acked(100 * entry + at + 1, "w1", message(entry, index), key, attempt=attempt)
        return self


def test_a_batch_that_only_goes_whole_comes_whole_when_any_of_it_had_come_back(spark: SparkSession) -> None:
    """Also what was acknowledged of it; not a batch that can be cut, nor once more, nor when nothing had come back."""
    life = Batches()
    life.half_acked(1).returned(112, "w1", message(1, 1), B).again(1)
    life.half_acked(2).dropped(212, "w1", message(2, 1), B).again(2)
    assert found(spark, life) == []
    causes = counted(spark, life)
    assert (causes["again_after_return"], causes["again_after_drop"]) == (2, 2)
    life.half_acked(3, None).returned(312, "w1", message(3, 1), B).again(3, why=None)
    life.half_acked(4).acked(412, "w1", message(4, 1), B).again(4)
    life.half_acked(5).returned(514, "w1", message(5, 1), B).again(5)
    life.half_acked(6).returned(612, "w1", message(6, 1), B).again(6).again(6, 20, attempt=3)
    assert [(row["violation"], row["message"], row["at_ns"] // MS) for row in found(spark, life)] == [
        ("repeated", "5:3:0", 312),
        ("repeated", "5:4:0", 412),
        ("repeated", "5:4:1", 412),
        ("repeated", "5:5:0", 512),
        ("repeated", "5:5:1", 512),
        ("repeated", "5:6:0", 620),
        ("repeated", "5:6:1", 620),
    ]


@pytest.mark.parametrize("how", ["gives back", "leaves"])
def test_what_a_gateway_records_of_an_encrypted_batch_is_faultless(tmp_path: Path, how: str) -> None:
    """Its worker acknowledges a message of it and gives it back, or leaves; the next delivery has all three."""
    journal = JournalRig(tmp_path, digests=KeyDigests(b"secret"))
    rig = SubscriptionRig()
    rig.subscriptions.events.event_recorder = journal.journal
    worker = rig.worker("a", permits=9)
    rig.link.deliver((0, encrypted([("k", text) for text in (b"0", b"1", b"2")])))
    worker.ack(0, ack_set=[0b110])
    rig.clock.advance(1.0)
    if how == "leaves":
        heir = rig.worker("b", permits=9)
        worker.close()
    else:
        heir = worker
        worker.redeliver(0)
    heir.ack(0)
    journal.end()
    report, violated = duckdb_audit.report(opened(str(tmp_path)))
    assert violated == []
    assert (report.totals["deliveries"], report.totals["messages"]) == (6, 3)
    assert report.totals["again_after_return"] == 3


def test_what_comes_again_in_another_life_is_no_violation(spark: SparkSession) -> None:
    """The gateway was killed: what workers had is delivered again, and its times are of another clock."""
    first = Life("life-1").did(1_000, "w1", message(1), A).sent(1_010, "w1", message(2), A)
    second = Life("life-2").did(5, "w2", message(2), A).did(6, "w2", message(3), A)
    assert found(spark, first, second) == []


def counted(spark: SparkSession, *lives: Life) -> dict[str, int]:
    """What there was to judge."""
    row = totals(by_spark(spark, *lives)).first()
    assert row is not None
    assert by_duckdb(*lives)[0] == row.asDict()
    return row.asDict()


def test_what_was_given_back_and_passed_over_is_found(spark: SparkSession) -> None:
    """Later messages of its key were sent. Not if it was acknowledged after all, by what it was delivered before."""
    life = Life().sent(10, "w1", message(1), A).returned(11, "w1", message(1), A).did(20, "w2", message(2), A)
    (row,) = found(spark, life)
    assert (row["violation"], row["message"], row["consumer"], row["at_ns"]) == ("never_acked", "5:1:-1", "w1", 10 * MS)
    late = Life().sent(10, "w1", message(1), A).returned(11, "w1", message(1), A)
    late.acked(12, "w1", message(1), A, attempt=2).did(20, "w1", message(2), A)
    assert found(spark, late) == []


def test_what_was_passed_over_by_what_came_again_is_found(spark: SparkSession) -> None:
    """Whether that was sent last, or something before it was."""
    by_last = Life().sent(10, "w1", message(1), A).sent(10, "w1", message(2), A).did(10, "w1", message(3), A)
    by_last.returned(12, "w1", message(1), A).returned(12, "w1", message(2), A).did(13, "w1", message(2), A)
    (row,) = found(spark, by_last)
    assert (row["violation"], row["message"]) == ("never_acked", "5:1:-1")
    by_furthest = Life().sent(10, "w1", message(1), A).sent(10, "w1", message(2), A)
    by_furthest.returned(12, "w1", message(1), A).returned(12, "w1", message(2), A)
    by_furthest.did(13, "w1", message(3), A).did(14, "w1", message(1), A)
    (row,) = found(spark, by_furthest)
    assert (row["violation"], row["message"]) == ("never_acked", "5:2:-1")


def test_what_is_behind_a_message_that_came_again_may_wait(spark: SparkSession) -> None:
    """All of a batch came back, the first was sent again, and its key was parked, or the record ends: no violation."""
    life = Life().sent(10, "w1", message(1), A).sent(10, "w1", message(2), A)
    life.returned(11, "w1", message(1), A).returned(11, "w1", message(2), A)
    life.sent(12, "w1", message(1), A).returned(13, "w1", message(1), A, why="given_up")
    assert found(spark, life) == []
    assert counted(spark, life)["waiting"] == 1


def test_what_was_given_up_does_not_come_again(spark: SparkSession) -> None:
    """It went to the dead letter topic, or its key was parked: nothing waits for it."""
    life = Life().sent(10, "w1", message(1), A).returned(11, "w1", message(1), A, why="given_up")
    life.did(20, "w1", message(2), A)
    assert found(spark, life) == []
    assert counted(spark, life)["waiting"] == 0


@pytest.mark.parametrize("meanwhile", ["upstream_lost", "group_session", "subscription_began", None])
def test_what_was_given_back_and_waits_is_none(spark: SparkSession, meanwhile: str | None) -> None:
    """There may be no worker for it, or the broker or another replica has it since: it is counted."""
    life = Life().sent(10, "w1", message(1), A).returned(11, "w1", message(1), A).did(12, "w1", message(2), B)
    if meanwhile is not None:
        life.happened(15, meanwhile).did(20, "w1", message(3), A)
    assert found(spark, life) == []
    assert counted(spark, life)["waiting"] == 1


def test_deliveries_of_before_are_counted_by_their_cause(spark: SparkSession) -> None:
    """Given back, dropped with a stream, by a gateway that was killed, and after the cursor was moved."""
    life = (
        Life().sent(10, "w1", message(1), A).returned(11, "w1", message(1), A).did(12, "w2", message(1), A, attempt=2)
    )
    life.sent(20, "w1", message(2), B).dropped(21, "w1", message(2), B).did(22, "w1", message(2), B)
    life.happened(30, "subscription_began").did(31, "w1", message(1), A)
    other = Life("life-2").did(5, "w1", message(2), B)
    counts = counted(spark, life, other)
    again = {name.removeprefix("again_"): counts[name] for name in counts if name.startswith("again_")}
    assert again == {"after_return": 1, "after_drop": 1, "in_another_life": 2}
    assert (counts["messages"], counts["deliveries"], counts["acked"]) == (2, 6, 2)


def test_an_acknowledgement_of_what_was_never_sent_is_found(spark: SparkSession) -> None:
    """By that worker; another's delivery does not count."""
    life = Life().did(10, "w1", message(1), A).acked(12, "w2", message(1), A)
    (row,) = found(spark, life)
    assert (row["violation"], row["consumer"], row["at_ns"]) == ("never_delivered", "w2", 12 * MS)


def test_subscriptions_have_nothing_to_do_with_each_other(spark: SparkSession) -> None:
    """The same message and key at two workers of two subscriptions."""
    one = Life().sent(10, "w1", message(1), A).acked(20, "w1", message(1), A)
    other = Life(subscription="audit").did(11, "w2", message(1), A)
    assert found(spark, one, other) == []


def messy(number: int) -> list[Life]:
    """One subscription's lives, in which everything happens in any order, and mostly against the contract."""
    draw = random.Random(number)  # noqa: S311 - a repeatable choice, no secret
    lives = [Life(f"life-{life}", subscription=f"messy-{number}") for life in range(draw.choice((1, 1, 2, 3)))]
    if draw.random() < 0.1:
        lives[0].happened(0, "subscription_began", ordering_mode="unordered")
    whole = draw.choice((None, "whole"))
    for life in lives:
        for at in sorted(draw.sample(range(2, 120, 2), draw.randint(3, 25))):
            entry, index, worker = draw.randint(1, 4), draw.choice((-1, -1, 0, 1)), f"w{draw.randint(1, 3)}"
            key, attempt = (entry + max(index, 0)) % draw.choice((1, 2, 3)), draw.randint(1, 2)
            what = draw.choice(("sent", "sent", "acked", "returned", "given_up", "dropped", "event", "did"))
            if what == "sent":
                life.sent(at, worker, message(entry, index), key, attempt=attempt, why=whole)
            elif what == "event":
                life.happened(at, draw.choice(("subscription_began", "group_replayed", "upstream_lost", "other")))
            elif what == "given_up":
                life.returned(at, worker, message(entry, index), key, attempt=attempt, why=what)
            else:
                getattr(life, what)(at, worker, message(entry, index), key, attempt=attempt)
    return lives


def test_both_engines_find_the_same_in_any_record(spark: SparkSession) -> None:
    """Sums and violations of 200 subscriptions, and some of each kind."""
    lives = [life for number in range(200) for life in messy(number)]
    judged = by_spark(spark, *lives).cache()
    sums, rows = by_duckdb(*lives)
    counts = totals(judged).first()
    assert counts is not None
    assert counts.asDict() == sums
    assert sorted((row.asDict() for row in violations(judged).collect()), key=str) == sorted(rows, key=str)
    assert {row["violation"] for row in rows} == set(FAULTS)
    assert all(sums[name] for name in SUMS)
