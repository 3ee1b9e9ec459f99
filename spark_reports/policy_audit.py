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

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from spark_reports.holdings import ABSENCES, BEGINNINGS
from spark_reports.policy_spans import KINDS, NEVER, RUN, PolicySpans, policy_spans
from spark_reports.span import EVERYTHING, Span

if TYPE_CHECKING:
    from spark_reports.asking import Ask, Row

LATE_NS: Final = 3_000_000_000
"""A lease ends so much later at most than a twentieth behind its time: a gateway that stood still waits a second."""


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


def told(ask: Ask) -> list[Row]:
    """Events of the kinds `WANTED`."""
    return ask("told", {}, {"wanted": pa.table({"kind": WANTED})})


def judge(ask: Ask, events: list[Row], span: Span = EVERYTHING) -> list[Row]:
    """Violations, with the columns of `ordering_audit.violations`.

    Args:
        ask: asks an engine; it has deliveries of `span.around`, and all events and metrics.
        events: what `told` gives.
        span: what is to be judged.
    """
    made = _tables(events)
    if made is None:
        return []
    return ask("policy_audit", span.ends_ns | {"never_ns": NEVER, "late_ns": LATE_NS}, made)


def _tables(events: list[Row]) -> dict[str, pa.Table] | None:
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


def _rows_of(spans: PolicySpans) -> dict[str, list[Row]]:
    return {"policies": spans.policies, "parked": spans.parked, "losses": spans.losses, "kept_out": spans.kept_out}
