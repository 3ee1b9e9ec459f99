"""Acknowledgements in transactions whose end no gateway saw: `dropped` in its journal, and judged by both engines.

By the gateway's own rows, through files; the window of 1 and the rest of the contract hold for them as for all others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from proxy.journal.digest import KeyDigests
from proxy.net.subscription.transactions import HELD_S_MAX
from spark_reports import duckdb_audit
from spark_reports.run import opened, report
from tests.journal.rig import JournalRig
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, batch, single
from tests.net.test_subscription_transactions import ack

BATCH: Final = batch([("k", b"0"), ("k", b"1"), ("k", b"2")])
UNSEEN_S: Final = HELD_S_MAX + 20.0
"""By then the key goes on."""


def holding(rig: SubscriptionRig, worker: Worker) -> None:
    """The worker has the first of three messages, and has acknowledged it in a transaction."""
    rig.link.deliver(*[(entry, single("k")) for entry in range(3)])
    assert worker.entries() == [0]
    ack(rig, worker, 0)


def committed(rig: SubscriptionRig, worker: Worker) -> None:
    """The broker says so only when the gateway waits no more."""
    holding(rig, worker)
    rig.clock.advance(UNSEEN_S)
    rig.link.mark_delete = (LEDGER, 0)
    for entry in (1, 2):
        assert worker.entries() == [entry]
        worker.ack(entry)


def aborted(rig: SubscriptionRig, worker: Worker) -> None:
    """The broker sends it again when the gateway waits no more: it comes behind the one that its worker has."""
    holding(rig, worker)
    rig.clock.advance(UNSEEN_S)
    rig.link.deliver((0, single("k")), redeliveries=1)
    for entry in (1, 0, 2):
        assert worker.entries() == [entry]
        worker.ack(entry)


def aborted_in_part(rig: SubscriptionRig, worker: Worker) -> None:
    """One message of a batch, of which the others are acknowledged meanwhile."""
    rig.link.deliver((0, BATCH))
    (first,) = worker.messages()
    ack(rig, worker, first)
    rig.clock.advance(UNSEEN_S)
    for _ in range(2):
        (other,) = worker.messages()
        worker.ack(other)
    rig.link.deliver((0, BATCH), ack_set=(0b001,), redeliveries=1)
    (again,) = worker.messages()
    assert again.payloads == [b"0"]
    worker.ack(again)


@pytest.mark.parametrize(
    ("story", "again"), [(committed, 0), (aborted, 1), (aborted_in_part, 1)], ids=["committed", "aborted", "in part"]
)
def test_an_end_that_is_not_seen_is_no_violation_for_either_engine(
    spark: SparkSession,
    tmp_path: Path,
    story: Callable[[SubscriptionRig, Worker], None],
    again: int,
) -> None:
    """What was held is dropped, later messages of the key go on, and it may come once more, which has its cause."""
    journal = JournalRig(tmp_path, digests=KeyDigests(b"secret"))
    rig = SubscriptionRig(key_window=1)
    rig.subscriptions.events.event_recorder = journal.journal
    worker = rig.worker("a", permits=1_000)
    story(rig, worker)
    assert worker.entries() == []
    journal.end()
    found, _ = duckdb_audit.report(opened(str(tmp_path)))
    assert found == report(spark, str(tmp_path), None)
    assert (found.by_kind, found.unjudged) == ({}, None)
    told = {name: found.totals[name] for name in ("messages", "deliveries", "acked", "dropped", "again_after_drop")}
    assert told == {
        "messages": 3,
        "deliveries": 3 + again,
        "acked": 2 + again,
        "dropped": 1,
        "again_after_drop": again,
    }
