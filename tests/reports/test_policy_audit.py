"""Key policies are judged by the journal: each planted violation is found, with its evidence, and nothing else is.

By both engines, which have to give the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from integration.journals.make import make
from integration.journals.plan import Plan
from integration.journals.policies import KINDS
from proxy.core.quarantine import OFFENDERS_MAX
from spark_reports import duckdb_audit
from spark_reports import policy_spans as policy_spans_module
from spark_reports.policy_spans import policy_spans
from spark_reports.run import opened, report
from tests.reports.journal_made import MS, Life, PolicyCases

A, B = 11, 22
EXTENSIONS = "keyline_subscription_ack_lease_extensions_total"
IN_TRANSACTION = "keyline_subscription_in_transaction_messages"


def message(entry: int, index: int = -1) -> tuple[int, int, int]:
    """Of the one ledger."""
    return 5, entry, index


def asking(**policy: float) -> Life:
    """A subscription that asks for this from its beginning on."""
    return Life().happened(1, "subscription_began", ordering_mode="draining_hashes", **policy)


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Iterator[PolicyCases]:
    """What is found in a case."""
    cases = PolicyCases()
    yield cases
    cases.check(spark)


def kinds(judged: PolicyCases, *lives: Life) -> list[str]:
    """Of all violations."""
    return [row["violation"] for row in judged(*lives)]


def test_a_faultless_life_is_found_faultless(judged: PolicyCases) -> None:
    """A window of two, and messages that come back, wait, and go out again before what is newer."""
    draw = random.Random(5)  # noqa: S311 - a repeatable choice, no secret
    life = asking(key_window=2, retry_delay_ms=10)
    at = 0
    for entry in range(0, 300, 2):
        at += 20
        life.sent(at, "w1", message(entry), A).sent(at, "w1", message(entry + 1), A)
        life.acked(at + 5, "w1", message(entry + 1), A)
        if draw.random() < 0.3:
            life.returned(at + 5, "w1", message(entry), A, why="asked_for")
            life.did(at + 15, "w1", message(entry), A, attempt=2)
        else:
            life.acked(at + 5, "w1", message(entry), A)
    assert judged(life) == []


def test_more_of_a_key_than_its_window_is_found(judged: PolicyCases) -> None:
    """Not what ends in the same moment, nor another key; and a change of the window counts from then on."""
    life = asking(key_window=1).sent(10, "w1", message(1), A).did(11, "w1", message(2), B)
    life.acked(20, "w1", message(1), A).sent(20, "w1", message(3), A)
    assert judged(life) == []
    life.sent(21, "w1", message(4), A)
    (row,) = judged(life)
    assert (row["violation"], row["message"], row["consumer"], row["at_ns"]) == ("window", "5:4:-1", "w1", 21 * MS)
    assert row["detail"] == "the worker has 2 messages of its key with it, and key_window is 1"
    life.happened(30, "key_policy", key_window=3).sent(31, "w1", message(5), A)
    assert len(judged(life)) == 1
    life.happened(32, "key_policy", key_window=2).acked(33, "w1", message(3), A).sent(34, "w1", message(6), A)
    assert kinds(judged, life) == ["window", "window"]
    life.happened(35, "key_policy").sent(36, "w1", message(7), A)
    assert len(judged(life)) == 2


def test_what_only_goes_together_may_be_more_if_it_is_alone(judged: PolicyCases) -> None:
    """And chunks are one message; but nothing goes beside them."""
    life = asking(key_window=1)
    for index in range(3):
        life.sent(10, "w1", message(1, index), A, why="whole")
    life.sent(20, "w1", message(2), B, why="first_chunk").sent(21, "w1", message(3), B, why="chunk")
    assert judged(life) == []
    life.sent(30, "w1", message(4), A).sent(31, "w1", message(5), B)
    assert kinds(judged, life) == ["window", "window"]
    beside = asking(key_window=1).sent(10, "w1", message(1), A)
    for index in range(2):
        beside.sent(20, "w1", message(2, index), A, why="whole")
    assert kinds(judged, beside) == ["window", "window"]


def test_overtaking_under_a_window_is_found(judged: PolicyCases) -> None:
    """What is sent while an earlier message waits to be sent again; not later, and not what is earlier still."""
    life = asking(key_window=1).sent(10, "w1", message(3), A).returned(20, "w1", message(3), A, why="asked_for")
    life.did(25, "w1", message(2), A).did(30, "w1", message(3), A, attempt=2, ms=5).did(40, "w1", message(4), A)
    assert judged(life) == []
    over = asking(key_window=1).sent(10, "w1", message(3), A).returned(20, "w1", message(3), A)
    over.did(25, "w1", message(4), A).did(30, "w1", message(3), A, attempt=2)
    (row,) = judged(over)
    assert (row["violation"], row["message"], row["other"], row["at_ns"]) == ("overtaking", "5:4:-1", "5:3:-1", 25 * MS)
    free = Life().happened(1, "subscription_began").sent(10, "w1", message(3), A).returned(20, "w1", message(3), A)
    free.did(25, "w1", message(4), A).did(30, "w1", message(3), A, attempt=2)
    assert judged(free) == []


@pytest.mark.parametrize("meanwhile", ["operator_order", "subscription_began", "upstream_lost"])
def test_what_is_begun_anew_is_no_overtaking(judged: PolicyCases, meanwhile: str) -> None:
    """A seek, and what the gateway may have given up; nor what goes to another topic after its last attempt."""
    life = asking(key_window=1).sent(10, "w1", message(3), A).returned(20, "w1", message(3), A)
    life.happened(22, meanwhile, key_window=1).did(25, "w1", message(4), A)
    assert judged(life) == []
    gone = asking(key_window=1).sent(10, "w1", message(3), A).returned(20, "w1", message(3), A, why="given_up")
    assert judged(gone.did(25, "w1", message(4), A)) == []


def test_a_retry_before_its_time_is_found(judged: PolicyCases) -> None:
    """By the number of attempts, up to the greatest delay; for every message of the key, and for no other key."""
    policy = {"retry_delay_ms": 100, "retry_multiplier": 2.0, "retry_delay_max_ms": 300}
    life = asking(**policy)
    at = 10
    for attempt, delay in enumerate((100, 200, 300, 300), 1):
        life.sent(at, "w1", message(1), A, attempt=attempt)
        life.returned(at + 1, "w1", message(1), A, attempt=attempt, why="asked_for")
        life.did(at + 2, "w1", message(100 + attempt), B)
        at += 1 + delay
    life.did(at, "w1", message(1), A, attempt=5)
    assert judged(life) == []
    early = asking(**policy).sent(10, "w1", message(1), A).returned(20, "w1", message(1), A, why="asked_for")
    early.did(119, "w1", message(1), A, attempt=2)
    (row,) = judged(early)
    assert (row["violation"], row["message"], row["other"], row["at_ns"]) == ("too_early", "5:1:-1", "5:1:-1", 119 * MS)
    left = asking(**policy).sent(10, "w1", message(1), A).returned(20, "w1", message(1), A)
    assert judged(left.did(21, "w2", message(1), A, attempt=2)) == []
    changed = asking(**policy).sent(10, "w1", message(1), A).returned(20, "w1", message(1), A, why="asked_for")
    changed.happened(30, "key_policy").did(31, "w1", message(1), A, attempt=2)
    assert judged(changed) == []


def test_what_is_sent_of_a_parked_key_is_found(judged: PolicyCases) -> None:
    """From the moment it is parked to its redrive's end; by slot, as keys are parked."""
    life = Life().happened(1, "subscription_began", park_after=2).sent(10, "w1", message(1), A)
    life.returned(11, "w1", message(1), A, why="given_up").happened(12, "keys_parked", slots=[A])
    life.did(13, "w1", message(2), B).happened(50, "redriven", slot=A).did(51, "w1", message(3), A)
    assert judged(life) == []
    life.did(30, "w1", message(2), A)
    (row,) = judged(life)
    assert (row["violation"], row["message"], row["slot"], row["at_ns"]) == ("not_parked", "5:2:-1", A, 30 * MS)
    again = Life("life-2").happened(1, "subscription_began", park_after=2).happened(2, "keys_parked", slots=[A, B])
    again.happened(10, "parked_dropped", slot=B).did(11, "w1", message(4), B).did(12, "w1", message(5), A)
    assert kinds(judged, again) == ["not_parked"]


def test_a_worker_that_keeps_what_its_lease_took_is_found(judged: PolicyCases) -> None:
    """Beyond a lease, while no worker asked for more time, by an awake gateway; a chunk has no lease of its own."""
    life = (
        asking(ack_lease_ms=10_000)
        .sent(
            10,
            "w1",
            message(1),
            A,
        )
        .sent(10, "w2", message(2), B, why="first_chunk")
    )
    life.acked(10_020, "w1", message(1), A)
    for at in range(1_000, 40_000, 1_000):
        life.counted(at, EXTENSIONS, 0.0)
    assert judged(life) == []
    life.did(20_000, "w1", message(3), A, ms=17_000)
    (row,) = judged(life)
    assert (row["violation"], row["message"], row["consumer"]) == ("lease", "5:3:-1", "w1")
    taken = asking(ack_lease_ms=10_000).sent(10, "w1", message(1), A).acked(30_000, "w1", message(1), A)
    taken.metrics = life.metrics
    assert kinds(judged, taken) == ["lease"]
    taken.deliveries[-1]["why"] = "in_transaction"
    assert judged(taken) == []
    life.metrics = [{**row, "value": 1.0} for row in life.metrics]
    assert judged(life) == []


def test_a_transaction_whose_end_is_not_seen_breaks_neither_lease_nor_window(judged: PolicyCases) -> None:
    """What it had is dropped long after its lease would have ended; without a transaction that is found."""
    life = asking(ack_lease_ms=10_000, key_window=1).sent(10, "w1", message(1), A)
    for at in range(1_000, 60_000, 1_000):
        life.counted(at, EXTENSIONS, 0.0).counted(at, IN_TRANSACTION, 1.0 if at < 50_000 else 0.0)
    life.dropped(50_000, "w1", message(1), A).did(50_000, "w1", message(2), A)
    life.did(50_010, "w1", message(1), A, attempt=2)
    assert judged(life) == []
    life.metrics = [{**row, "value": 0.0} for row in life.metrics]
    assert kinds(judged, life) == ["lease"]


def test_a_lease_that_ends_early_or_counts_for_nothing_is_found(judged: PolicyCases) -> None:
    """By the message that the worker had held longest; and what it acknowledges afterwards is not its own any more."""
    life = asking(ack_lease_ms=1_000).sent(10, "w1", message(1), A).sent(500, "w1", message(2), A)
    life.happened(1_020, "ack_lease_lost", worker="w1", position="5:1", messages=2, held_s=1.01)
    for entry in (1, 2):
        life.returned(1_020, "w1", message(entry), A)
    life.did(1_020, "w2", message(1), A, attempt=2)
    assert judged(life) == []
    life.acked(1_100, "w1", message(2), A)
    (row,) = judged(life)
    assert (row["violation"], row["message"], row["at_ns"]) == ("lease", "5:2:-1", 1_100 * MS)
    early = asking(ack_lease_ms=1_000).sent(10, "w1", message(1), A)
    early.happened(900, "ack_lease_lost", worker="w1", position="5:1", messages=1, held_s=0.89)
    early.returned(900, "w1", message(1), A)
    assert kinds(judged, early) == ["lease"]


def test_what_an_excluded_worker_gets_is_found(judged: PolicyCases) -> None:
    """From the order on until it is readmitted; also where the subscription begins anew meanwhile and tells of it."""
    life = Life().happened(1, "subscription_began").happened(20, "operator_order", order="exclude", worker="w1")
    life.happened(22, "operator_order", order="pause").did(20, "w1", message(1), A).did(25, "w2", message(2), A)
    life.happened(30, "operator_order", order="readmit", worker="w1").did(31, "w1", message(3), A)
    assert judged(life) == []
    life.did(25, "w1", message(4), B)
    (row,) = judged(life)
    assert (row["violation"], row["message"], row["consumer"], row["at_ns"]) == ("excluded", "5:4:-1", "w1", 25 * MS)
    assert row["detail"] == "sent to a worker that an operator had excluded"
    anew = Life().happened(1, "subscription_began").happened(20, "operator_order", order="exclude", worker="w1")
    anew.happened(30, "subscription_ended").happened(40, "subscription_began").did(41, "w1", message(1), A)
    assert judged(anew) == []
    anew.happened(50, "subscription_began", excluded=["w1", "w2"]).did(51, "w1", message(2), A)
    anew.happened(60, "operator_order", order="readmit", worker="w1").did(61, "w1", message(3), A)
    assert kinds(judged, anew) == ["excluded"]


def test_what_a_worker_in_quarantine_gets_is_found(judged: PolicyCases) -> None:
    """When it came again, or never left; not another one of its name, which stayed."""
    life = asking(quarantine_after=1).did(10, "w1", message(1), A)
    life.happened(20, "worker_quarantined", worker="w1", lasts_s=30.0).happened(20, "worker_left", worker="w1")
    life.did(4_000, "w1", message(2), A).did(4_001, "w2", message(3), A)
    assert judged(life) == []
    life.happened(5_000, "worker_joined", worker="w1").did(5_001, "w1", message(4), A)
    (row,) = judged(life)
    assert (row["violation"], row["message"], row["at_ns"]) == ("quarantined", "5:4:-1", 5_001 * MS)
    assert row["detail"] == "sent to a worker in quarantine"
    stayed = asking(quarantine_after=1).happened(20, "worker_quarantined", worker="w1", lasts_s=30.0)
    assert judged(stayed.did(2_000, "w1", message(1), A)) == []
    assert kinds(judged, stayed.did(4_000, "w1", message(2), A)) == ["quarantined"]
    left = stayed.happened(4_001, "worker_left", worker="w1").did(5_000, "w1", message(3), A)
    assert kinds(judged, left) == ["quarantined"]


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("quarantine_ended", {"worker": "w1"}),
        ("operator_order", {"order": "readmit", "worker": "w1"}),
        ("key_policy", {"ack_lease_ms": 1_000}),
        ("subscription_began", {}),
    ],
)
def test_a_quarantine_that_is_over_is_not_judged(judged: PolicyCases, kind: str, facts: dict[str, Any]) -> None:
    """An event ends it, the operator, a policy without one, or its time; and a second one follows a first."""
    life = asking(quarantine_after=1).happened(20, "worker_quarantined", worker="w1", lasts_s=30.0)
    life.happened(21, "worker_left", worker="w1").happened(900, kind, **facts).happened(
        900, "worker_joined", worker="w1"
    )
    assert judged(life.did(901, "w1", message(1), A)) == []
    late = asking(quarantine_after=1).happened(20, "worker_quarantined", worker="w1", lasts_s=30.0)
    late.happened(29_500, "worker_joined", worker="w1").did(29_501, "w1", message(1), A)
    late.happened(30_000, "worker_quarantined", worker="w1", lasts_s=30.0)
    assert judged(late.did(59_100, "w1", message(2), A)) == []
    late.happened(40_000, "worker_joined", worker="w1").did(40_001, "w1", message(3), A)
    assert kinds(judged, late) == ["quarantined"]


def test_quarantines_of_a_flooded_gateway_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """It remembers so many names that lost a lease, and forgets others; orders it does not forget."""
    assert policy_spans_module.OFFENDERS_MAX == OFFENDERS_MAX
    monkeypatch.setattr(policy_spans_module, "OFFENDERS_MAX", 1)
    life = asking(quarantine_after=1, ack_lease_ms=1_000)
    life.happened(20, "ack_lease_lost", worker="w1", position="5:1").happened(
        20, "worker_quarantined", worker="w1", lasts_s=30.0
    )
    life.happened(21, "operator_order", order="exclude", worker="w3")
    assert [row["why"] for row in policy_spans(life.events).kept_out] == ["quarantined", "excluded"]
    life.happened(22, "ack_lease_lost", worker="w2", position="5:2")
    assert [row["why"] for row in policy_spans(life.events).kept_out] == ["excluded"]


def test_a_made_journal_has_what_was_planted_in_it(spark: SparkSession, tmp_path: Path) -> None:
    """In files like the gateway's, beside a subscription without policies; by the whole report of both engines."""
    known = make(Plan(messages=2_000, keys=50, workers=2, policy_faults=3), tmp_path)
    assert known.violations == dict.fromkeys(KINDS, 3)
    for found in (report(spark, str(tmp_path), None), duckdb_audit.report(opened(str(tmp_path)))[0]):
        assert found.by_kind == known.violations
        assert found.totals["messages"] == known.messages
        assert {words.split(":")[0] for words in found.evidence} == set(KINDS)


def test_older_journals_ask_for_nothing(judged: PolicyCases) -> None:
    """Their beginnings do not tell of policies, so nothing is judged by them, and nothing more is read."""
    life = Life().happened(1, "subscription_began", ordering_mode="draining_hashes").sent(10, "w1", message(2), A)
    assert judged(life.did(11, "w1", message(3), A)) == []
    assert not policy_spans(life.events)
