"""Journals written by hand, event by event, for tests of reports: a life in milliseconds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import duckdb
import pyarrow as pa

from proxy.journal.schema import DELIVERIES, DRAINS, EVENTS, METRICS, REDELIVERIES
from spark_reports import asking, duckdb_audit, policy_audit
from spark_reports.holdings import parties_of
from spark_reports.looking import look
from spark_reports.ordering_audit import judge
from spark_reports.schemas import arrow_schema, spark_schema
from spark_reports.span import EVERYTHING, Span

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql import DataFrame, SparkSession

    from spark_reports.looking import Looked
    from spark_reports.ordering_audit import Judged

    Message = tuple[int, int, int]
    """Ledger, entry, batch index."""

TOPIC, SUBSCRIPTION = "persistent://public/default/orders", "billing"
MS = 1_000_000
WALL_NS = 1_800_000_000_000_000_000


class Life:
    """One life of a gateway; every method is one row."""

    def __init__(self, name: str = "life-1", gateway: str = "gw-1", subscription: str = SUBSCRIPTION) -> None:
        """Nothing happened."""
        self._name = name
        self._gateway = gateway
        self._subscription = subscription
        self.deliveries: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.metrics: list[dict[str, Any]] = []
        self._sent_at: dict[tuple[str, Message, int], int] = {}
        self._received_at: dict[Message, int] = {}

    def sent(
        self,
        at: int,
        consumer: str,
        message: Message,
        key: int,
        *,
        attempt: int = 1,
        received: int | None = None,
        given: int | None = None,
        why: str | None = None,
    ) -> Self:
        """Written to a worker's socket; `given` to the worker at that moment too, if nothing else is said.

        `received` holds for all that becomes of the message. Without it each attempt came when it was given.
        """
        self._sent_at[consumer, message, attempt] = at if given is None else given
        if received is not None:
            self._received_at[message] = received
        return self._delivery("sent", at, consumer, message, key, attempt, why)

    def acked(self, at: int, consumer: str, message: Message, key: int, *, attempt: int = 1) -> Self:
        """By a worker."""
        return self._delivery("acked", at, consumer, message, key, attempt)

    def returned(
        self, at: int, consumer: str, message: Message, key: int, *, attempt: int = 1, why: str | None = None
    ) -> Self:
        """By a worker, or because it left."""
        return self._delivery("returned", at, consumer, message, key, attempt, why)

    def dropped(self, at: int, consumer: str, message: Message, key: int, *, attempt: int = 1) -> Self:
        """By the gateway."""
        return self._delivery("dropped", at, consumer, message, key, attempt)

    def did(
        self,
        at: int,
        consumer: str,
        message: Message,
        key: int,
        *,
        attempt: int = 1,
        ms: int = 1,
        received: int | None = None,
    ) -> Self:
        """Sent and acknowledged so much later."""
        sent = self.sent(at, consumer, message, key, attempt=attempt, received=received)
        return sent.acked(at + ms, consumer, message, key, attempt=attempt)

    def happened(self, at: int, kind: str, **facts: object) -> Self:
        """An event."""
        row = self._common(at)
        self.events.append(
            row | {"number": at, "kind": kind, "consumer": facts.get("worker"), "facts": json.dumps(facts)}
        )
        return self

    def of_subscription(self, name: str) -> Life:
        """What has happened until now, in another subscription."""
        copy = Life(self._name, self._gateway, name)
        for table in ("deliveries", "events", "metrics"):
            setattr(copy, table, [{**row, "subscription": name} for row in getattr(self, table)])
        return copy

    def counted(self, at: int, name: str, value: float) -> Self:
        """A number of the subscription's, as it was then."""
        row = self._common(at) | {"name": name, "value": value, "consumer": None, "labels": []}
        self.metrics.append(row)
        return self

    def _delivery(
        self, event: str, at: int, consumer: str, message: Message, key: int, attempt: int, why: str | None = None
    ) -> Self:
        ledger, entry, index = message
        sent_at = self._sent_at.get((consumer, message, attempt), at)
        self.deliveries.append(
            self._common(at)
            | {
                "event": event,
                "consumer": consumer,
                "ledger": ledger,
                "entry": entry,
                "batch_index": index,
                "slot": key % 65_536,
                "key_digest": key,
                "key": None,
                "attempt": attempt,
                "size_bytes": 100,
                "received_ns": self._received_at.get(message, sent_at) * MS,
                "sent_ns": sent_at * MS,
                "why": why,
            }
        )
        return self

    def _common(self, at: int) -> dict[str, Any]:
        return {
            "life": self._name,
            "topic": TOPIC,
            "subscription": self._subscription,
            "at_ns": at * MS,
            "wall_ns": WALL_NS + at * MS,
            "date": "2027-01-15",
            "hour": "08",
            "gateway": self._gateway,
        }


def frames(spark: SparkSession, *lives: Life) -> tuple[DataFrame, DataFrame]:
    """Deliveries and events of these lives."""
    deliveries = [row for life in lives for row in life.deliveries]
    events = [row for life in lives for row in life.events]
    return (
        spark.createDataFrame(deliveries, spark_schema(DELIVERIES)),
        spark.createDataFrame(events, spark_schema(EVENTS)),
    )


def by_spark(spark: SparkSession, *lives: Life, span: Span = EVERYTHING) -> Judged:
    """What Spark's audit makes of these lives."""
    rows, _ = frames(spark, *lives)
    deliveries = rows.where(span.around.holds(rows["wall_ns"]))
    events = [event for life in lives for event in life.events]
    return judge(deliveries, parties_of(deliveries), events, span)


def looked_at(spark: SparkSession, *lives: Life, span: Span = EVERYTHING, killed: Collection[str] = ()) -> Looked:
    """What a look at these lives sees: the same by each engine."""
    with duckdb.connect() as connection:
        _register(connection, lives)
        seen = look(asking.of_duckdb(connection), span, killed)
    frames = {name: spark.createDataFrame(rows) for name, rows in _tables(lives).items()}
    other = look(asking.of_spark(spark, frames), span, killed)
    for one in (seen, other):
        for rows in (one.parties, one.counts, one.told):
            rows.sort(key=str)
    assert seen == other
    return seen


def by_duckdb(*lives: Life, span: Span = EVERYTHING) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """What the other engine finds in these lives: sums, and violations in order."""
    with duckdb.connect() as connection:
        _register(connection, lives)
        return duckdb_audit.judge(connection, span)


class PolicyCases:
    """Judges lives by key policies, one case after another: by DuckDB at once, and by Spark all together at the end.

    Spark takes seconds to prepare a question, however few rows it is asked of.
    """

    def __init__(self) -> None:
        """No case yet."""
        self._lives: list[Life] = []
        self._found: list[dict[str, Any]] = []
        self._number = 0

    def __call__(self, *lives: Life) -> list[dict[str, Any]]:
        """All violations of these, in order, as DuckDB finds them."""
        self._number += 1
        ours = f"{SUBSCRIPTION}-{self._number}"
        copies = [life.of_subscription(ours) for life in lives]
        self._lives += copies
        with duckdb.connect() as connection:
            _register(connection, copies)
            ask = asking.of_duckdb(connection)
            found = duckdb_audit.in_order(policy_audit.judge(ask, policy_audit.told(ask)))
        self._found += found
        return found

    def check(self, spark: SparkSession) -> None:
        """Spark finds the same in all of them."""
        frames = {name: spark.createDataFrame(rows) for name, rows in _tables(self._lives).items()}
        ask = asking.of_spark(spark, frames)
        found = policy_audit.judge(ask, policy_audit.told(ask))
        assert sorted(found, key=str) == sorted(self._found, key=str)


def _register(connection: duckdb.DuckDBPyConnection, lives: Iterable[Life]) -> None:
    for name, rows in _tables(lives).items():
        connection.register(name, rows)


def _tables(lives: Iterable[Life]) -> dict[str, pa.Table]:
    """The journal of these lives."""
    of = list(lives)
    rows = {
        DELIVERIES: [row for life in of for row in life.deliveries],
        EVENTS: [row for life in of for row in life.events],
        METRICS: [row for life in of for row in life.metrics],
        DRAINS: [],
        REDELIVERIES: [],
    }
    return {table.name: pa.Table.from_pylist(found, arrow_schema(table)) for table, found in rows.items()}
