"""Judges by the record of messages what was asked beyond order: key policies, and workers that are to get nothing.

Questions beside those of `ordering_audit`, about subscriptions that asked for it (`policy_spans`):

- `window`: a worker was sent more of a key than `key_window` allows. What only goes together may be more, alone.
- `overtaking`: under a window, a message was sent while an earlier one of its key, which had come back, waited.
- `too_early`: something of a key was sent before the retry delay of one of its messages was over.
- `not_parked`: something of a parked key was sent before it was redriven or dropped.
- `lease`: a worker kept a message for longer than `ack_lease_ms`; or lost its keys sooner; or acknowledged a message
  that it had lost so.
- `excluded`: something was sent to a worker while an operator excluded it.
- `quarantined`: something was sent to a worker in quarantine.

A retry's delay is reckoned by the attempts of this run: a broker's greater count makes it longer, never shorter. That a
worker kept a message too long is judged up to the last look (a row of metrics) at which no worker of its subscription
had ever asked for more time, or acknowledged in a transaction: the journal does not have who asked.

An order to exclude a worker closes all consumers of its name in the same turn, before anything is sent: so nothing is
on its way that the order would have to wait for. A quarantine closes the one consumer that lost its lease; others of
its name stay. So what a worker in quarantine gets is judged from the moment at which one of its name joins again; or,
while none has left, a moment after its beginning.

One SQL text for both engines. It reads the record of those subscriptions once more, and costs nothing where there are
none.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_reports import ordering_audit as audit
from spark_reports.holdings import ABSENCES, BEGINNINGS
from spark_reports.policy_spans import KINDS, NEVER, RUN, PolicySpans, policy_spans
from spark_reports.span import EVERYTHING, Span, nanoseconds

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession

LATE_NS: Final = 3_000_000_000
"""A lease ends so much later at most than a twentieth behind its time: a gateway that stood still waits a second."""
EARLIEST_NS: Final = -(1 << 62)


def _schema(*numbers: str, texts: tuple[str, ...] = RUN) -> pa.Schema:
    types: dict[str, pa.DataType] = dict.fromkeys(texts, pa.string()) | dict.fromkeys(numbers, pa.int64())
    return pa.schema(types)


TABLES: Final = {
    "runs": _schema(),
    "marks": _schema("mark_ns"),
    "policies": _schema("since_ns", "until_ns", "key_window", "retry_delay_ns", "retry_max_ns", "ack_lease_ns").append(
        pa.field("retry_multiplier", pa.float64())
    ),
    "parked": _schema("slot", "since_ns", "until_ns"),
    "losses": _schema("lost_ns", "ledger", "entry", "ack_lease_ns", texts=(*RUN, "consumer")),
    "kept_out": _schema("since_ns", "until_ns", texts=(*RUN, "consumer", "why")),
}
"""Small ones, made of events."""
WANTED: Final = tuple(dict.fromkeys((*KINDS, *BEGINNINGS, *ABSENCES)))
"""Kinds of events that are looked at."""
COLUMNS: Final = (*RUN, "at_ns", "number", "kind", "consumer", "facts")
EVENTS: Final = (
    "SELECT topic, subscription, life, at_ns, number, kind, consumer, facts FROM events WHERE list_contains($1, kind)"
)


def by_spark(
    spark: SparkSession, deliveries: DataFrame, events: DataFrame, metrics: DataFrame, span: Span = EVERYTHING
) -> DataFrame | None:
    """Violations, with the columns of `ordering_audit.violations`; None if there is nothing to judge.

    Args:
        spark: the session.
        deliveries: rows of the journal's table of this name, of `span.around`.
        events: all rows of that table.
        metrics: likewise.
        span: what is to be judged.
    """
    rows = events.where(events["kind"].isin(*WANTED)).select(*COLUMNS).collect()
    made = _tables([row.asDict() for row in rows])
    if made is None:
        return None
    named: dict[str, Any] = {name: spark.createDataFrame(table) for name, table in made.items()}
    named |= {"deliveries": deliveries, "events": events, "metrics": metrics, **_numbers(span)}
    return spark.sql(_text(), **named).select(*audit.VIOLATIONS)


def by_duckdb(connection: duckdb.DuckDBPyConnection, span: Span = EVERYTHING) -> list[dict[str, Any]]:
    """The same of the views `deliveries`, `events` and `metrics`."""
    events = connection.sql(EVENTS, params=[list(WANTED)])
    made = _tables(events.to_arrow_table().to_pylist())
    if made is None:
        return []
    for name, table in made.items():
        connection.register(f"policy_{name}", table)
    names = {name: f"policy_{name}" for name in made} | {name: name for name in ("deliveries", "events", "metrics")}
    found = connection.sql(_text().format(**names, **_numbers(span))).to_arrow_table().to_pylist()
    return [{name: row[name] for name in audit.VIOLATIONS} for row in found]


def _tables(events: list[dict[str, Any]]) -> dict[str, pa.Table] | None:
    """What is made of events, by name; None if nothing in them is to be judged."""
    spans = policy_spans(event for event in events if event["kind"] in KINDS)
    if not spans:
        return None
    breaks = {*BEGINNINGS, *ABSENCES}
    runs = {tuple(run.values()) for run in spans.runs}
    marks = [
        {name: event[name] for name in RUN} | {"mark_ns": event["at_ns"]}
        for event in events
        if event["kind"] in breaks and tuple(event[name] for name in RUN) in runs
    ]
    rows = {"runs": spans.runs, "marks": marks, **_rows_of(spans)}
    return {name: pa.Table.from_pylist(rows[name], schema) for name, schema in TABLES.items()}


def _rows_of(spans: PolicySpans) -> dict[str, list[dict[str, Any]]]:
    return {"policies": spans.policies, "parked": spans.parked, "losses": spans.losses, "kept_out": spans.kept_out}


def _text() -> str:
    return (files("spark_reports") / "policy_audit.sql").read_text()


def _numbers(span: Span) -> dict[str, int]:
    """In the text's braces."""
    around = span.around
    return {
        "since_ns": EARLIEST_NS if span.since is None else nanoseconds(span.since),
        "until_ns": NEVER if span.until is None else nanoseconds(span.until),
        "around_since_ns": EARLIEST_NS if around.since is None else nanoseconds(around.since),
        "around_until_ns": NEVER if around.until is None else nanoseconds(around.until),
        "never_ns": NEVER,
        "late_ns": LATE_NS,
    }
