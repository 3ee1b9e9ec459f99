"""The holdings in a record of messages, in numbers: who held which message, from when to when, and how that ended.

A *party* is one worker of one subscription in one run of one gateway: five names, which are the same in very many rows.
They are numbered once, in the order of the names, and all that is sorted and compared has the numbers. `NUMBERS` are of
the party: `of` its topic and subscription, `run` its life, `worker` its consumer. Names come back for what is found.
"""

from __future__ import annotations

import json
from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import PLACE, RUN, wall_ns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_Name = TypeVar("_Name", str, tuple[str, str])

PARTY: Final = ("topic", "subscription", "life", "gateway", "consumer")
NUMBERS: Final = ("of", "run", "worker")
KEY_IN_NUMBERS: Final = ("key_digest", "of")
"""What a key is in numbers. Spark compares rows by the first column first, so it is the one that differs most."""
ENDS: Final = ("acked", "returned", "dropped")
"""How a delivery may end: `how` counts from 1."""
ACKED, RETURNED, DROPPED = range(1, 4)
GIVEN_UP: Final = "given_up"
"""Why something was returned that is not to be sent again."""
WHOLE: Final = "whole"
"""How something was sent that only goes with all of its batch."""
OF_BATCH: Final = ("of", "run", "ledger", "entry")
BATCH_DELIVERY: Final = (*OF_BATCH, "worker", "attempt", "given_ns")
DELIVERY: Final = ("party", "key_digest", *PLACE, "attempt", "given_ns")

BEGINNINGS: Final = ("subscription_began", "group_replayed")
"""Events behind which messages of before may come once more, in their order."""
ABSENCES: Final = ("upstream_lost", "upstream_ready", "group_session", "group_stream_released", "operator_order")
"""Events at which the gateway may give up what waits: another replica, or the broker, has it then."""

_OF_PARTY: Final = ("run", "worker", "unordered", "marks", "absences")
_NAMED: Final = pa.schema(
    dict.fromkeys(PARTY, pa.string())
    | dict.fromkeys(("party", *NUMBERS), pa.int32())
    | {"unordered": pa.bool_(), "marks": pa.list_(pa.int64()), "absences": pa.list_(pa.int64())}
)


def parties_of(deliveries: DataFrame) -> list[dict[str, Any]]:
    """Who took part: `PARTY`, and `goes_whole` (whether something was sent that only goes with all of its batch)."""
    goes_whole = F.coalesce(F.max(F.col("why") == WHOLE), F.lit(False)).alias("goes_whole")
    return [row.asDict() for row in deliveries.groupBy(*PARTY).agg(goes_whole).collect()]


def numbered(parties: Iterable[dict[str, Any]], told: Iterable[dict[str, Any]]) -> pa.Table:
    """All parties, with their numbers and with what events tell of their runs: a small table.

    Args:
        parties: what `parties_of` gives.
        told: events, with those of `BEGINNINGS` and `ABSENCES`.

    Returns:
        `PARTY`, `party`, `NUMBERS`, and of subscription and life: `marks` (when it began), `absences` (when the gateway
        may have given up what waits), both in order, and `unordered` (whether it promises no order).
    """
    marks: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    absences: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    unordered = set()
    for event in sorted(told, key=itemgetter("at_ns")):
        run = tuple(event[name] for name in RUN)
        if event["kind"] in BEGINNINGS:
            marks[run].append(event["at_ns"])
            if json.loads(event["facts"]).get("ordering_mode") == "unordered":
                unordered.add(run)
        elif event["kind"] in ABSENCES:
            absences[run].append(event["at_ns"])
    names = sorted(tuple(str(party[name]) for name in PARTY) for party in parties)
    of = _numbers([(topic, subscription) for topic, subscription, *_ in names])
    runs, workers = _numbers([life for _, _, life, _, _ in names]), _numbers([consumer for *_, consumer in names])
    rows = []
    for number, (topic, subscription, life, gateway, consumer) in enumerate(names):
        run = (topic, subscription, life)
        rows.append(
            dict(zip(PARTY, (topic, subscription, life, gateway, consumer), strict=True))
            | {"party": number, "of": of[topic, subscription], "run": runs[life], "worker": workers[consumer]}
            | {"unordered": run in unordered, "marks": marks[run], "absences": absences[run]}
        )
    return pa.Table.from_pylist(rows, _NAMED)


def _numbers(names: Sequence[_Name]) -> dict[_Name, int]:
    """In their order."""
    return {name: number for number, name in enumerate(sorted(set(names)))}


def holdings(deliveries: DataFrame, named: DataFrame, since_ns: int | None, *, whole: bool) -> DataFrame:
    """One row for each delivery of each message: all its rows tell when that was. A key's are together.

    Args:
        deliveries: rows of the journal's table of this name.
        named: what `numbered` gives.
        since_ns: by the wall clock, when the rows begin; what ends in them may have been sent before.
        whole: whether any batch only goes whole.

    Returns:
        `DELIVERY` without `given_ns`, `NUMBERS`, `slot`, `sent_ns` (null if it was never sent), `ended_ns` and `how`
        (null while it lasts), `ahead_ns` (of the wall clock before the run's), `given_up` (whether that was its last
        attempt), `whole` (whether it was sent with a batch that only goes so), `back_ns` and `back_how`: its end, but
        of what was acknowledged of such a batch when the rest came back, if it did; `segment` (how often the
        subscription began before), `unordered`, and `absent_ns` (when the gateway may have given it up, after it was
        returned, or null).
    """
    rows = _in_numbers(deliveries, named, since_ns)
    held = (
        rows.repartition(*KEY_IN_NUMBERS)
        .groupBy(*DELIVERY, "of")
        .agg(
            F.min("slot").alias("slot"),
            F.min("sent_ns").alias("sent_ns"),
            F.min("ended_ns").alias("ended_ns"),
            F.min_by("how", "ended_ns").alias("how"),
            F.min("ahead_ns").alias("ahead_ns"),
            F.max("given_up").alias("given_up"),
            F.max("whole").alias("whole"),
        )
    )
    held = held.join(F.broadcast(named.select("party", *_OF_PARTY)), "party")
    back_ns, back_how = F.col("ended_ns"), F.col("how")
    if whole:
        with_rest = (F.col("how") == ACKED) & F.col("rest_how").isNotNull()
        held = held.join(F.broadcast(_rests(rows, named)), list(BATCH_DELIVERY), "left")
        back_ns = F.when(with_rest, F.col("rest_ns")).otherwise(back_ns)
        back_how = F.when(with_rest, F.col("rest_how")).otherwise(back_how)
    moment = F.coalesce("sent_ns", "ended_ns")
    marks, passed = F.col("marks"), F.filter("marks", lambda mark: mark <= moment)
    absent_ns = F.array_min(F.filter("absences", lambda mark: mark >= F.col("ended_ns")))
    added = {
        "back_ns": back_ns,
        "back_how": back_how,
        # Mostly all of them have passed, which needs no look at each.
        "segment": F.when(F.try_element_at(marks, F.lit(-1)) <= moment, F.size(marks)).otherwise(F.size(passed)),
        "absent_ns": F.when(F.col("how") == RETURNED, absent_ns),
    }
    return held.withColumns(added).drop("given_ns", "rest_ns", "rest_how", "marks", "absences")


def _in_numbers(deliveries: DataFrame, named: DataFrame, since_ns: int | None) -> DataFrame:
    """The record's rows without a text, each with the moment it is about: of a sending or of an end."""
    event, at_ns = F.col("event"), F.col("at_ns")
    sent, how = event == "sent", F.lit(None).cast("int")
    for number, name in reversed(list(enumerate(ENDS, 1))):
        how = F.when(event == name, F.lit(number)).otherwise(how)
    known = sent if since_ns is None else sent | (wall_ns_of("sent_ns") < F.lit(since_ns))
    return deliveries.join(F.broadcast(named.select("party", "of", *PARTY)), list(PARTY)).select(
        "party",
        "of",
        "key_digest",
        *PLACE,
        "attempt",
        F.col("sent_ns").alias("given_ns"),
        "slot",
        F.when(known, F.col("sent_ns")).alias("sent_ns"),
        F.when(~sent, at_ns).alias("ended_ns"),
        how.alias("how"),
        (F.col("wall_ns") - at_ns).alias("ahead_ns"),
        F.coalesce(F.col("why") == GIVEN_UP, F.lit(False)).alias("given_up"),
        F.coalesce(F.col("why") == WHOLE, F.lit(False)).alias("whole"),
    )


def _rests(rows: DataFrame, named: DataFrame) -> DataFrame:
    """When and how what was not acknowledged of a batch that only goes whole came back, by the batch's delivery."""
    of_runs = rows.join(F.broadcast(named.select("party", "run", "worker")), "party")
    return (
        of_runs.where(F.col("how").isin(RETURNED, DROPPED))
        .groupBy(*BATCH_DELIVERY)
        .agg(F.min("ended_ns").alias("rest_ns"), F.min_by("how", "ended_ns").alias("rest_how"))
        .join(of_runs.where("whole").select(*OF_BATCH).distinct(), list(OF_BATCH), "left_semi")
    )
