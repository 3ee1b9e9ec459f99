"""Proves or refutes the gateway's contract from the record of messages: order, one holder, nothing lost or repeated.

A *holding* is one delivery of one message to one worker: from when it was given to the worker until it was
acknowledged, given back or dropped there. Five questions, each with its evidence:

- `overlap`: two workers held messages of one key at the same time.
- `inversion`: a message was delivered for the first time after a later one of its key.
- `never_acked`: what a worker gave back was never delivered again, though later messages of its key were.
- `never_delivered`: an acknowledgement of what that worker was never sent.
- `repeated`: a message was delivered again though no worker had returned it and the gateway had not dropped it. What a
  batch that only goes whole has acknowledged goes again with the rest, when any of the rest had come back.

Compared are times of one `life` of one gateway only, whose clock never goes back. Order is looked at within one run of
the subscription (a seek or a replay begins another). Subscriptions in the mode `unordered` promise no order: they are
left out of the first three questions.

DataFrame API and built-in functions only. Everything of a key is brought together once, in numbers (`holdings`), and is
sorted twice, by message and by time; every question is a window over one of the two orders. So the cost grows as the
record does. A window is over all of a key: one for each message would cost more to begin than to compute, as most have
one holding. What is said about a message as a whole looks at the last row of a kind so far: whether that is of this
message. Evidence is put into words only for what is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import PLACE, message_name
from spark_reports.holdings import (
    ACKED,
    DROPPED,
    ENDS,
    KEY_IN_NUMBERS,
    PARTY,
    RETURNED,
    holdings,
    numbered,
)
from spark_reports.span import EVERYTHING, Span, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_reports.asking import Row

KEY: Final = ("topic", "subscription", "key_digest")
VIOLATIONS: Final = (
    "violation",
    "gateway",
    "life",
    *KEY,
    "slot",
    "message",
    "consumer",
    "at_ns",
    "wall_ns",
    "other",
    "other_consumer",
    "detail",
)
"""Columns of what `violations` gives: the message and worker it is about, and the other one of a pair, if it is one."""

NEVER: Final = (1 << 63) - 1
"""When what has not ended ends."""
EARLY: Final = "%d.%03d ms before its end"
UNENDED: Final = "before its end, which is not in the record"
BEHIND: Final = "delivered after a later message of its key"
PASSED_OVER: Final = "given back, and not sent again before later messages of its key"
NEVER_SENT: Final = "acknowledged, and never sent"
BEFORE: Final = "the delivery before "
NOT_ENDED: Final = "had not ended"

ALL: Final = (Window.unboundedPreceding, Window.unboundedFollowing)
"""Rows of a frame: as wide as another of its order, it costs no window of its own."""
SUMS: Final = (
    "messages", "deliveries", "acked", "returned", "dropped", "again_after_return", "again_after_drop",
    "again_in_another_life", "keys", "outstanding", "waiting",
)  # fmt: skip
_EVIDENCE: Final = (
    "overlap", "inversion", "never_acked", "never_delivered", "repeated", "is_witness",
    "party", "key_digest", "slot", *PLACE, "sent_ns", "ended_ns", "ahead_ns", "held", "ahead", "before_how",
    "before_worker",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """What `judge` found, in numbers."""

    parts: DataFrame
    """A row for each of Spark's partitions: `SUMS`, and `found`."""
    named: DataFrame
    """What the numbers of parties mean."""
    span: Span

    def cache(self) -> Judged:
        """The same, which is computed once for all who ask."""
        return Judged(self.parts.cache(), self.named, self.span)


def judge(deliveries: DataFrame, parties: Sequence[Row], told: Iterable[Row], span: Span = EVERYTHING) -> Judged:
    """All of the work, in one pass, which `violations` and `totals` read.

    Args:
        deliveries: rows of the journal's table of this name.
        parties: what `holdings.parties_of` gives of them.
        told: the journal's events, with those that `holdings.numbered` needs.
        span: what is to be judged and counted. The rows are of `span.around`: what was sent before that is known from
            its end only, and is taken as sent.
    """
    begin = span.around.since
    named = deliveries.sparkSession.createDataFrame(numbered(parties, told))
    since_ns = None if begin is None else nanoseconds(begin)
    held = holdings(deliveries, named, since_ns, whole=any(party["goes_whole"] for party in parties))
    moment = F.coalesce("sent_ns", "ended_ns") + F.col("ahead_ns")
    inside = {
        "inside": span.holds(moment),
        "ended_inside": F.coalesce(span.holds(F.col("ended_ns") + F.col("ahead_ns")), F.lit(False)),
    }
    by_time = _by_time(_by_message(held.withColumns(inside)))
    questions = {name: F.coalesce(question, F.lit(False)) for name, question in _questions().items()}
    asked = by_time.withColumns(questions)
    is_found = reduce(or_, map(F.col, questions), F.col("is_witness"))
    parts = (
        asked.withColumn("part", F.spark_partition_id())
        .groupBy("part")
        .agg(
            *[F.sum(column.cast("long")).alias(name) for name, column in _sums().items()],
            F.collect_list(F.when(is_found, F.struct(*_EVIDENCE))).alias("found"),
        )
        .drop("part")
    )
    return Judged(parts, named, span)


def violations(judged: Judged) -> DataFrame:
    """Everything that must not be; empty if the contract was kept: `VIOLATIONS`, one row for each."""
    names = judged.named.select("party", "run", "worker", *PARTY)
    rows = judged.parts.select(F.explode("found").alias("found")).select("found.*").join(F.broadcast(names), "party")
    of_worker = Window.partitionBy(*KEY, *PLACE, "run", "worker")
    known = rows.withColumn("was_sent_ever", F.max(F.col("sent_ns").isNotNull()).over(of_worker))
    each = F.filter(F.array(*_answers()), lambda one: one.isNotNull() & judged.span.holds(one["wall_ns"]))
    others = judged.named.select(F.col("worker").alias("other_worker"), F.col("consumer").alias("other_consumer"))
    return (
        known.withColumn("each", F.explode(each))
        .select(*PARTY, "key_digest", "slot", message_name().alias("message"), "each.*")
        .join(F.broadcast(others.distinct()), "other_worker", "left")
        .select(*VIOLATIONS)
    )


def totals(judged: Judged) -> DataFrame:
    """What there was to be judged: one row.

    Args:
        judged: what `judge` gives.

    Returns:
        Numbers: `messages` (different ones that were sent), `deliveries`, `acked` (different ones), `returned`,
        `dropped`; deliveries of what had been delivered before, by their cause: `again_after_return`,
        `again_after_drop`, `again_in_another_life` (of a gateway or of the subscription); `keys`, and at the end of the
        record `outstanding` (deliveries that have not ended) and `waiting` (messages that were given back and not sent
        again, and nothing says that they should have been).
    """
    return judged.parts.agg(*[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMS])


def _in_turn(held: DataFrame) -> DataFrame:
    """With `turn`, its place among its key's by message, and what the rows beside it tell."""
    in_order = (*PLACE, "run", "segment", F.asc_nulls_last("sent_ns"), F.asc_nulls_last("ended_ns"))
    in_turn = Window.partitionBy(*KEY_IN_NUMBERS).orderBy(*in_order)
    before = ("run", "segment", "how", "back_how", "ended_ns", "back_ns", "worker")
    beside = held.select(
        "*",
        F.row_number().over(in_turn).alias("turn"),
        F.max(F.when(F.col("inside"), 1)).over(in_turn.rowsBetween(Window.unboundedPreceding, -1)).alias("key_before"),
        *[F.lag(name).over(in_turn).alias(f"b_{name}") for name in (*PLACE, *before)],
        *[F.lead(name).over(in_turn).alias(f"n_{name}") for name in (*PLACE, "run", "segment", "sent_ns")],
    )
    behind, ahead = _same("b_", *PLACE), _same("n_", *PLACE)
    again = behind & _same("b_", "run", "segment")
    whole = F.col("whole")
    return beside.select(
        *held.columns,
        "turn",
        (F.col("inside") & F.col("key_before").isNull()).alias("first_of_key"),
        (~behind).alias("first_of_all"),
        (~ahead).alias("last_of_all"),
        (~(behind & _same("b_", "run"))).alias("first_of_life"),
        again.alias("again"),
        F.when(again, F.when(whole, F.col("b_back_how")).otherwise(F.col("b_how"))).alias("before_how"),
        F.when(again, F.when(whole, F.col("b_back_ns")).otherwise(F.col("b_ended_ns"))).alias("before_ended_ns"),
        F.when(again, F.col("b_worker")).alias("before_worker"),
        (ahead & _same("n_", "run", "segment") & F.col("n_sent_ns").isNotNull()).alias("sent_later"),
    )


def _by_message(held: DataFrame) -> DataFrame:
    """With what happened to the message before, and in all."""
    # To the end of the message's rows of this life, as these are peers in this order.
    to_end = Window.partitionBy(*KEY_IN_NUMBERS).orderBy(*PLACE, "run")
    was_sent = F.col("sent_ns").isNotNull()
    last = {
        "begun": F.col("first_of_all"),
        "begun_inside": F.col("first_of_all") & F.col("inside"),
        "begun_in_life": F.col("first_of_life"),
        "acked": F.col("how") == ACKED,
        "sent": was_sent,
        "unsent_ack": _unsent_ack(),
    }
    turns = _in_turn(held).select(
        "*", *[F.max(F.when(what, F.col("turn"))).over(to_end).alias(f"last_{name}") for name, what in last.items()]
    )
    since = {name: F.coalesce(F.col(f"last_{name}") >= F.col("last_begun"), F.lit(False)) for name in last}
    counts = F.col("last_of_all") & since["begun_inside"]
    in_life = {
        name: F.coalesce(F.col(f"last_{name}") >= F.col("last_begun_in_life"), F.lit(False))
        for name in ("acked", "unsent_ack")
    }
    return turns.select(
        *held.columns,
        "first_of_key",
        "first_of_all",
        "again",
        "before_how",
        "before_ended_ns",
        "before_worker",
        "sent_later",
        (counts & since["sent"]).alias("counts_as_message"),
        (counts & since["acked"]).alias("counts_as_acked"),
        in_life["acked"].alias("acked_in_life"),
        (was_sent & in_life["unsent_ack"]).alias("is_witness"),
    )


def _same(prefix: str, *names: str) -> Column:
    """Whether a row beside this one has the same; false if there is none."""
    return F.coalesce(reduce(and_, [F.col(prefix + name) == F.col(name) for name in names]), F.lit(False))


def _by_time(by_message: DataFrame) -> DataFrame:
    """With what happened to the key before, and what comes after."""
    in_time = Window.partitionBy(*KEY_IN_NUMBERS, "run").orderBy(F.asc_nulls_last("sent_ns"), *PLACE)
    before = in_time.rowsBetween(Window.unboundedPreceding, -1)
    was_sent = F.col("sent_ns").isNotNull()
    until = F.coalesce("ended_ns", F.lit(NEVER)).alias("until_ns")
    # Of one run of the subscription: an earlier one's places are below all of a later one's.
    place = F.struct("segment", *PLACE, "worker")
    of_all = in_time.rowsBetween(*ALL)
    return by_message.select(
        "*",
        F.lag("worker").over(in_time).alias("worker_before"),
        F.max(F.when(was_sent, F.struct(until, *PLACE, "worker"))).over(before).alias("held"),
        F.max(F.when(was_sent & ~F.col("again"), place)).over(before).alias("ahead"),
        F.max(F.struct("segment", "sent_ns", *PLACE)).over(of_all).alias("last"),
        F.max(F.when(was_sent, F.struct("segment", *PLACE, "sent_ns"))).over(of_all).alias("furthest"),
    )


def _sums() -> dict[str, Column]:
    """What each row adds to `SUMS`: when it was sent, and when it ended; a message counts where it was first sent."""
    was_sent, again = F.col("sent_ns").isNotNull(), F.col("again")
    sums = {
        "deliveries": was_sent,
        "keys": F.col("first_of_key"),
        "outstanding": was_sent & F.col("how").isNull(),
        "waiting": _given_back() & ~_should_have_come(),
        "again_after_return": was_sent & again & (F.col("before_how") == RETURNED),
        "again_after_drop": was_sent & again & (F.col("before_how") == DROPPED),
        "again_in_another_life": was_sent & ~again & ~F.col("first_of_all"),
    }
    of_message = {"messages": F.col("counts_as_message"), "acked": F.col("counts_as_acked")}
    ends = {
        name: F.col("ended_inside") & (F.col("how") == how)
        for name, how in (("returned", RETURNED), ("dropped", DROPPED))
    }
    return {name: F.col("inside") & column for name, column in sums.items()} | of_message | ends


def _questions() -> dict[str, Column]:
    """Each by its name: whether it is to be answered with yes. `never_delivered` may have a witness against it."""
    was_sent, ordered, again = F.col("sent_ns").isNotNull(), ~F.col("unordered"), F.col("again")
    overlaps = ordered & was_sent & (F.col("worker_before") != F.col("worker"))
    overlaps &= (F.col("held.until_ns") > F.col("sent_ns")) & (F.col("held.worker") != F.col("worker"))
    # In a span's rows the first delivery that is there may be one that came again.
    first = was_sent & ~again & (F.col("attempt") == 1)
    ahead = F.struct(*[F.col(f"ahead.{name}").alias(name) for name in PLACE])
    behind = ordered & first & (F.col("ahead.segment") == F.col("segment")) & (ahead > F.struct(*PLACE))
    back = F.col("before_how").isin(RETURNED, DROPPED) & (F.col("before_ended_ns") <= F.col("sent_ns"))
    return {
        "overlap": overlaps,
        "inversion": behind,
        "never_acked": _given_back() & _should_have_come(),
        "never_delivered": _unsent_ack(),
        "repeated": was_sent & again & ~F.coalesce(back, F.lit(False)),
    }


def _unsent_ack() -> Column:
    """Of a delivery that is not in the record; another one of the message to the same worker may be: a witness."""
    return (F.col("how") == ACKED) & F.col("sent_ns").isNull()


def _given_back() -> Column:
    """Its last delivery in this run of the subscription ended so, and it was not acknowledged."""
    last = F.col("sent_ns").isNotNull() & ~F.col("sent_later")
    waits = F.coalesce(F.col("how") == RETURNED, F.lit(False)) & ~F.col("given_up")
    return last & waits & ~F.col("acked_in_life")


def _should_have_come() -> Column:
    """Something behind it in the topic was sent since of its key, and the gateway had the message all the time.

    Looked at are what was sent last and what is last in the topic: a look at all would be one more sort.
    """
    return (_passed_over_by("last") | _passed_over_by("furthest")) & ~F.col("unordered")


def _passed_over_by(which: str) -> Column:
    sent_ns = F.col(f"{which}.sent_ns")
    place = F.struct(*[F.col(f"{which}.{name}").alias(name) for name in PLACE])
    since = (F.col(f"{which}.segment") == F.col("segment")) & (sent_ns > F.col("ended_ns"))
    away = F.coalesce(F.col("absent_ns") <= sent_ns, F.lit(False))
    return F.coalesce(since & (place > F.struct(*PLACE)), F.lit(False)) & ~away


def _answers() -> list[Column]:
    """Of a row in `found`: each a violation, or null."""
    early_us = F.floor((F.col("held.until_ns") - F.col("sent_ns")) / 1_000)
    early = F.format_string(EARLY, F.floor(early_us / 1_000), early_us % 1_000)
    how = F.try_element_at(F.array(*map(F.lit, ENDS)), F.col("before_how"))
    nothing, no_worker = F.lit(None).cast("string"), F.lit(None).cast("int")
    held, ahead = F.col("held"), F.col("ahead")
    told = {
        "overlap": (_named(held), held["worker"], F.when(held["until_ns"] == NEVER, F.lit(UNENDED)).otherwise(early)),
        "inversion": (_named(ahead), ahead["worker"], F.lit(BEHIND)),
        "never_acked": (nothing, no_worker, F.lit(PASSED_OVER)),
        "never_delivered": (nothing, no_worker, F.lit(NEVER_SENT)),
        "repeated": (
            message_name(), F.col("before_worker"), F.concat(F.lit(BEFORE), F.coalesce(how, F.lit(NOT_ENDED)))
        ),
    }  # fmt: skip
    at_ns = F.coalesce("sent_ns", "ended_ns")
    return [
        F.when(
            F.col(name) & (F.col("sent_ns").isNotNull() | ~F.col("was_sent_ever")),
            F.struct(
                F.lit(name).alias("violation"),
                at_ns.alias("at_ns"),
                (at_ns + F.col("ahead_ns")).alias("wall_ns"),
                other.alias("other"),
                other_worker.alias("other_worker"),
                detail.alias("detail"),
            ),
        )
        for name, (other, other_worker, detail) in told.items()
    ]


def _named(place: Column) -> Column:
    return F.concat_ws(":", *[place[name] for name in PLACE])
