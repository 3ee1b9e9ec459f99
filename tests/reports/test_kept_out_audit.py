"""Excluded and quarantined workers, by the journal that the gateway's own code writes: no alarm unless it is broken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from proxy.journal.digest import KeyDigests
from proxy.journal.journal import Journal
from proxy.journal.schema import DELIVERIES, EVENTS, METRICS
from proxy.journal.spool import Spool
from proxy.net.subscription.membership import Membership
from spark_reports import asking, duckdb_audit, policy_audit
from spark_reports.policy_spans import KINDS, policy_spans
from spark_reports.schemas import arrow_schema
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import single

if TYPE_CHECKING:
    from proxy.journal.schema import Table

PERMITS = 999
OFFERED = 12
"""Messages at a time, each of a key of its own: each of two workers has some of them."""
STEP_S = 0.1
"""Between any two things that happen: at one moment no clock would tell their order."""
LEASE_S = 2.0
QUARANTINE_S = 30.0
BYTES_MAX = 1 << 24


class RecordedRig(SubscriptionRig):
    """With a journal of everything."""

    def __init__(self) -> None:
        """Nothing happened."""
        lasts_ms = int(QUARANTINE_S * 1_000)
        super().__init__(ack_lease_ms=int(LEASE_S * 1_000), quarantine_after=1, quarantine_ms=lasts_ms)
        self._spool = Spool(BYTES_MAX)
        self._journal = Journal("life-1", self._spool, self._wall_ns, self.clock.now, KeyDigests(b"secret"))
        self.subscriptions.events.event_recorder = self._journal
        self._offered = 0

    def new(self, name: str) -> Worker:
        """A worker that asks for messages."""
        self.clock.advance(STEP_S)
        return self.worker(name, permits=PERMITS)

    def offer(self, *workers: Worker) -> list[int]:
        """New messages, which these acknowledge; how many each of them had."""
        first, self._offered = self._offered, self._offered + OFFERED
        self.clock.advance(STEP_S)
        self.link.deliver(*((entry, single(f"k{entry}")) for entry in range(first, first + OFFERED)))
        counts = [acknowledge(worker) for worker in workers]
        self.clock.advance(STEP_S)
        return counts

    def tables(self) -> dict[str, pa.Table]:
        """The journal, as a report reads it."""
        self._journal.hand_in()
        batches: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        while (chunk := self._spool.take(0.0)) is not None:
            batches[chunk.table.name].append(chunk.batch())
        return {table.name: _read(table, batches[table.name]) for table in (DELIVERIES, EVENTS, METRICS)}

    def _wall_ns(self) -> int:
        return round(self.clock.time() * 1e9)


def _read(table: Table, batches: list[pa.RecordBatch]) -> pa.Table:
    if not batches:
        return arrow_schema(table).empty_table()
    rows = pa.Table.from_batches(batches)
    return rows.append_column("gateway", pa.array(["gw-1"] * rows.num_rows))


def acknowledge(worker: Worker) -> int:
    """All that came; how much that was."""
    entries = worker.entries()
    worker.ack(*entries)
    return len(entries)


def roll(rig: RecordedRig) -> None:
    """A worker is excluded while it holds something, also when all have left; is readmitted, hangs and works again."""
    a, b = rig.new("a"), rig.new("b")
    rig.offer(b)
    rig.subscription.orders.exclude("a", excluded=True)
    rig.clock.settle()
    acknowledge(b)
    again = rig.new("a")
    rig.offer(a, b, again)
    for worker in (a, b, again):
        worker.close()
    again, b = rig.new("a"), rig.new("b")
    rig.offer(again, b)
    rig.subscription.orders.exclude("a", excluded=False)
    rig.clock.settle()
    rig.offer(again, b)
    rig.offer(b)
    rig.clock.advance(LEASE_S)
    acknowledge(b)
    again = rig.new("a")
    rig.offer(again, b)
    rig.clock.advance(QUARANTINE_S)
    had, _ = rig.offer(again, b)
    assert had, "its quarantine is over"


def judged(tables: dict[str, pa.Table]) -> list[dict[str, Any]]:
    """All violations."""
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        ask = asking.of_duckdb(connection)
        return duckdb_audit.judge(connection)[1] + policy_audit.judge(ask, policy_audit.told(ask))


def test_workers_that_are_kept_out_as_they_should_raise_no_alarm() -> None:
    """Two exclusions are judged, since the subscription began anew within the first; and one quarantine."""
    rig = RecordedRig()
    roll(rig)
    tables = rig.tables()
    assert judged(tables) == []
    events = [event for event in tables["events"].to_pylist() if event["kind"] in KINDS]
    assert [(row["why"], row["consumer"]) for row in policy_spans(events).kept_out] == [
        ("excluded", "a"),
        ("excluded", "a"),
        ("quarantined", "a"),
    ]


def _lets_everyone_in(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "_is_kept_out", lambda *_: False)


def _closes_no_consumer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "close_all", lambda *_: 0)


@pytest.mark.parametrize(
    ("broken", "found"),
    [(_lets_everyone_in, {"excluded", "quarantined"}), (_closes_no_consumer, {"excluded"})],
)
def test_a_gateway_that_does_not_keep_them_out_is_found(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[[pytest.MonkeyPatch], None], found: set[str]
) -> None:
    """One that lets them join again, and one that does not close the consumer at the order."""
    broken(monkeypatch)
    rig = RecordedRig()
    roll(rig)
    violations = judged(rig.tables())
    assert {row["violation"] for row in violations} == found
    assert {row["consumer"] for row in violations} == {"a"}
