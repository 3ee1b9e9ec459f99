"""The journal's tables: written by the gateway, read by reports.

A pure description, so that reports import it without the gateway. Rules that keep old files and new jobs together, and
the other way round: a field's id and name are never reused, a field is never removed or given another type, and a new
field is `optional` and names the version that added it. A reader asks for fields by name: a missing field is null, and
unknown fields are ignored. Kinds of events are data, not schema: a reader ignores unknown ones.

Files are in `TABLE/date=YYYY-MM-DD/hour=HH/gateway=NAME/`, by the wall clock in UTC of a row's event. `gateway` is the
replica's name. The column `life` identifies one run of its process; monotonic times are compared only within one run.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

SCHEMA_VERSION: Final = 3
"""Grows with each field that is added to any table."""

PARTITIONS: Final = ("date", "hour", "gateway")
"""Columns in a file's path; `hour` has two digits."""

OPEN_DIRECTORY: Final = "_open"
"""Below a local journal: unfinished files. Readers ignore names that begin with an underscore."""

METADATA_PREFIX: Final = "keyline."
"""Of the keys in a file's metadata: `table`, `schema_version`, `gateway`, `life`, `gateway_version`."""

KILLED_KEY: Final = f"{METADATA_PREFIX}killed"
"""In the metadata of a file that a later run recovered from a killed one."""


class Kind(Enum):
    """What a field holds."""

    STRING = "string"
    NAME = "string, of few different ones"
    INT32 = "int32"
    INT64 = "int64"
    DIGEST = "int64, of which no two are near each other"
    FLOAT64 = "float64"
    LABELS = "map<string,string>"


@dataclass(frozen=True, slots=True)
class Field:
    """A column."""

    id: int
    """Of this table; in files too, as Parquet's field id."""
    name: str
    kind: Kind
    text: str
    """What it means, with its unit."""
    optional: bool = False
    """Whether it may be null."""
    since: int = 1
    """The schema's version that brought it."""


@dataclass(frozen=True, slots=True)
class Table:
    """One kind of rows."""

    name: str
    text: str
    fields: tuple[Field, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns, in order."""
        return tuple(field.name for field in self.fields)


_RUN: Final = Field(1, "life", Kind.NAME, "The run of the gateway's process; each run has another name.")
_TOPIC: Final = Field(2, "topic", Kind.NAME, "Full name, of one partition.")
_SUBSCRIPTION: Final = Field(3, "subscription", Kind.NAME, "Its name.")
_WALL: Final = Field(
    5, "wall_ns", Kind.INT64, "Time by the wall clock: nanoseconds since 1970; it determines the path's hour."
)


def _at(text: str) -> Field:
    return Field(4, "at_ns", Kind.INT64, f"{text}, by the run's monotonic clock, in nanoseconds.")


EVENTS: Final = Table(
    "events",
    "What happened to subscriptions, groups and topics: joins, leaves, moved ranges, leases, leaders, orders. The same "
    "events as the admin API's.",
    (
        _RUN,
        _TOPIC,
        _SUBSCRIPTION,
        _at("Time"),
        _WALL,
        Field(6, "number", Kind.INT64, "One more than the previous event's; it also grows from run to run."),
        Field(7, "kind", Kind.NAME, "Kind of the event; later versions may add kinds."),
        Field(8, "consumer", Kind.NAME, "The worker it is about.", optional=True),
        Field(9, "facts", Kind.STRING, "Further facts by kind, as a JSON object."),
    ),
)

DRAINS: Final = Table(
    "drains",
    "Hand-overs: a slot went from one worker to another after it had drained (PIP-379). One row when it ended.",
    (
        _RUN,
        _TOPIC,
        _SUBSCRIPTION,
        _at("End of the drain"),
        _WALL,
        Field(6, "slot", Kind.INT32, "The slot, 0 to 65535."),
        Field(7, "source", Kind.NAME, "The worker that had unacknowledged messages of it."),
        Field(8, "target", Kind.NAME, "The worker that waited for it; null if none was left.", optional=True),
        Field(9, "began_ns", Kind.INT64, "Start of the drain, by the run's monotonic clock, in nanoseconds."),
        Field(10, "duration_ns", Kind.INT64, "Duration of the drain."),
        Field(11, "waiting_messages", Kind.INT64, "Its waiting messages at the end."),
        Field(
            12,
            "cause",
            Kind.NAME,
            "Kind of the event that began the drain, at the same moment of the run's clock: `worker_joined` or "
            "`worker_left`. Null in older files.",
            optional=True,
            since=2,
        ),
        Field(13, "cause_consumer", Kind.NAME, "The worker that joined or left.", optional=True, since=2),
    ),
)

REDELIVERIES: Final = Table(
    "redeliveries",
    "Messages that a worker returned for redelivery, one row for each occasion.",
    (
        _RUN,
        _TOPIC,
        _SUBSCRIPTION,
        _at("Time"),
        _WALL,
        Field(6, "consumer", Kind.NAME, "The worker that returned them."),
        Field(7, "messages", Kind.INT64, "Number of messages."),
    ),
)

DELIVERIES: Final = Table(
    "deliveries",
    "Deliveries of each message, if `journal_deliveries` is on: one row when it is sent to a worker, one when that "
    "delivery ends.",
    (
        _RUN,
        _TOPIC,
        _SUBSCRIPTION,
        _at("Time"),
        _WALL,
        Field(
            6,
            "event",
            Kind.NAME,
            "`sent`: written to the worker's socket. `acked`: acknowledged. `returned`: the worker returned it or "
            "left, and it will be redelivered. `dropped`: the gateway no longer has it, because its stream went to "
            "another replica, the cursor was moved, or it was acknowledged in a transaction whose end was not seen.",
        ),
        Field(7, "consumer", Kind.NAME, "The worker."),
        Field(8, "ledger", Kind.INT64, "Part of the message's position."),
        Field(9, "entry", Kind.INT64, "Part of the message's position."),
        Field(
            10,
            "batch_index",
            Kind.INT32,
            "Its index in its batch; -1 if it is not in a batch, or if the row is for a whole batch that cannot be cut "
            "and has, or claims, more than 4,096 messages.",
        ),
        Field(11, "slot", Kind.INT32, "Slot of its key, 0 to 65535."),
        Field(12, "key_digest", Kind.DIGEST, "Keyed hash of its key, the same for the same key and secret."),
        Field(13, "key", Kind.STRING, "Its key itself, if `journal_plain_keys` is on.", optional=True),
        Field(14, "attempt", Kind.INT32, "Delivery count of this run: 1 for the first delivery, then 2, and so on."),
        Field(15, "size_bytes", Kind.INT64, "Bytes of its entry on the wire, or its share of a batch's."),
        Field(16, "received_ns", Kind.INT64, "Time of arrival from the broker, by the run's monotonic clock."),
        Field(17, "sent_ns", Kind.INT64, "Time of delivery to the worker, by the run's monotonic clock."),
        Field(
            18,
            "why",
            Kind.NAME,
            "Of `returned`: `asked_for`, the worker asked for it again, so that its key waits for `retry_delay_ms`; "
            "`given_up`, that was its last attempt, and it goes to the dead letter topic, or its key is parked. Of "
            "`acked` and `returned`: `in_transaction`, by a transaction's commit or abort. Of `sent`: `whole`, one of "
            "several messages that only go together, or all of them (then `batch_index` is -1); `first_chunk` and "
            "`chunk`, one of a message's chunks. Null otherwise, and in older files.",
            optional=True,
            since=3,
        ),
    ),
)

METRICS: Final = Table(
    "metrics",
    "What `/metrics` shows, every `journal_snapshot_s` seconds: one row for each number; histograms by count and sum.",
    (
        _RUN,
        Field(4, "at_ns", Kind.INT64, "Time by the run's monotonic clock, in nanoseconds."),
        _WALL,
        Field(6, "name", Kind.NAME, "The metric, as it is exported."),
        Field(7, "topic", Kind.NAME, "Full name; null if the metric is for the whole gateway.", optional=True),
        Field(8, "subscription", Kind.NAME, "Its name, likewise.", optional=True),
        Field(9, "consumer", Kind.NAME, "Its name, if the metric is for one.", optional=True),
        Field(10, "labels", Kind.LABELS, "All other labels."),
        Field(11, "value", Kind.FLOAT64, "The number, in the unit of the metric's name."),
    ),
)

TABLES: Final = {table.name: table for table in (EVENTS, DRAINS, REDELIVERIES, DELIVERIES, METRICS)}
