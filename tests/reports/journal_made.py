"""Journals written by hand, event by event, for tests of reports: a life in milliseconds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import duckdb
import pyarrow as pa

from proxy.journal.schema import DELIVERIES, EVENTS
from spark_reports import duckdb_audit
from spark_reports.schemas import arrow_schema, spark_schema
from spark_reports.span import EVERYTHING, Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    ) -> Self:
        """Written to a worker's socket; `given` to the worker at that moment too, if nothing else is said.

        `received` holds for all that becomes of the message. Without it each attempt came when it was given.
        """
        self._sent_at[consumer, message, attempt] = at if given is None else given
        if received is not None:
            self._received_at[message] = received
        return self._delivery("sent", at, consumer, message, key, attempt)

    def acked(self, at: int, consumer: str, message: Message, key: int, *, attempt: int = 1) -> Self:
        """By a worker."""
        return self._delivery("acked", at, consumer, message, key, attempt)

    def returned(self, at: int, consumer: str, message: Message, key: int, *, attempt: int = 1) -> Self:
        """By a worker, or because it left."""
        return self._delivery("returned", at, consumer, message, key, attempt)

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

    def _delivery(self, event: str, at: int, consumer: str, message: Message, key: int, attempt: int) -> Self:
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


def by_duckdb(*lives: Life, span: Span = EVERYTHING) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """What the other engine finds in these lives: sums, and violations in order."""
    deliveries = [row for life in lives for row in life.deliveries]
    events = [row for life in lives for row in life.events]
    with duckdb.connect() as connection:
        for table, rows in ((DELIVERIES, deliveries), (EVENTS, events)):
            connection.register(table.name, pa.Table.from_pylist(rows, arrow_schema(table)))
        return duckdb_audit.judge(connection, span)
