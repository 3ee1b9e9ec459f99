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

DataFrame API and built-in functions only. Everything of a key is brought together once, by the hash of its topic,
subscription and digest; there it is sorted twice, by message and by time, and every question is a window over one of
the two orders. So the cost grows as the record does. Spark compares rows by the first eight bytes of the first column
it sorts by, and by all columns only where these are alike: so numbers that differ come first, and names last. What is
aggregated is numbers only, because with texts Spark would sort once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports.columns import message_name, wall_ns_of
from spark_reports.span import EVERYTHING, Span, nanoseconds

if TYPE_CHECKING:
    from pyspark.sql.window import WindowSpec

KEY: Final = ("topic", "subscription", "key_digest")
POSITION: Final = (*KEY, "ledger", "entry", "batch_index")
MESSAGE: Final = (*POSITION, "life")
BY_KEY: Final = ("key_digest", "topic", "subscription")
"""The same columns as `KEY`, to sort by."""
BY_POSITION: Final = ("entry", "ledger", "batch_index", *BY_KEY)
ENDS: Final = ("acked", "returned", "dropped")
"""How a delivery may end."""
BACK: Final = ("returned", "dropped")
"""Ends behind which it is delivered again."""
GIVEN_UP: Final = "given_up"
"""Why something was returned that is not to be sent again."""
WHOLE: Final = "whole"
"""How something was sent that only goes with all of its batch."""
DELIVERY: Final = (*MESSAGE, "consumer", "attempt")
OF_BATCH: Final = ("topic", "subscription", "life", "ledger", "entry")
BATCH_DELIVERY: Final = (*OF_BATCH, "consumer", "attempt", "given_ns")

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

BEGINNINGS: Final = ("subscription_began", "group_replayed")
"""Events behind which messages of before may come once more, in their order."""
ABSENCES: Final = ("upstream_lost", "upstream_ready", "group_session", "group_stream_released", "operator_order")
"""Events at which the gateway may give up what waits: another replica, or the broker, has it then."""

NEVER: Final = (1 << 63) - 1
"""When what has not ended ends."""
EARLY: Final = "%d.%03d ms before its end"
UNENDED: Final = "before its end, which is not in the record"
BEHIND: Final = "delivered after a later message of its key"
PASSED_OVER: Final = "given back, and not sent again before later messages of its key"
NEVER_SENT: Final = "acknowledged, and never sent"
BEFORE: Final = "the delivery before "
NOT_ENDED: Final = "had not ended"

SUMS: Final = (
    "messages", "deliveries", "acked", "returned", "dropped", "again_after_return", "again_after_drop",
    "again_in_another_life", "keys", "outstanding", "waiting",
)  # fmt: skip


def judge(deliveries: DataFrame, events: DataFrame, span: Span = EVERYTHING) -> DataFrame:
    """All of the work, in one pass: a row for each of Spark's partitions, which `violations` and `totals` read.

    Args:
        deliveries: rows of the journal's table of this name.
        events: likewise.
        span: what is to be judged and counted. The rows are of `span.around`: what was sent before that is known from
            its end only, and is taken as sent.

    Returns:
        `SUMS`, and `found`: an array of `VIOLATIONS`.
    """
    begin = span.around.since
    held = _in_segments(holdings(deliveries, None if begin is None else nanoseconds(begin)), events)
    moment = F.coalesce("sent_ns", "ended_ns") + F.col("ahead_ns")
    ended_inside = F.coalesce(span.holds(F.col("ended_ns") + F.col("ahead_ns")), F.lit(False))
    inside = held.withColumn("inside", span.holds(moment)).withColumn("ended_inside", ended_inside)
    by_time = _by_time(_by_message(inside))
    found = F.filter(F.array(*_questions()), lambda each: each.isNotNull() & span.holds(each["wall_ns"]))
    told = by_time.withColumn("found", found)
    return (
        told.withColumn("part", F.spark_partition_id())
        .groupBy("part")
        .agg(
            *[F.sum(column.cast("long")).alias(name) for name, column in _sums().items()],
            F.flatten(F.collect_list(F.when(F.size("found") > 0, F.col("found")))).alias("found"),
        )
        .drop("part")
    )


def violations(judged: DataFrame) -> DataFrame:
    """Everything that must not be; empty if the contract was kept.

    Args:
        judged: what `judge` gives.

    Returns:
        `VIOLATIONS`, one row for each.
    """
    return judged.select(F.explode("found").alias("found")).select("found.*")


def totals(judged: DataFrame) -> DataFrame:
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
    return judged.agg(*[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMS])


def parties(present: DataFrame) -> DataFrame:
    """Who took part: one row.

    Args:
        present: what `gateway_runs.presence` gives.

    Returns:
        `consumers`, `lives`, `gateways`: numbers.
    """
    return present.agg(
        F.count_distinct("topic", "subscription", "consumer").alias("consumers"),
        F.count_distinct("life").alias("lives"),
        F.count_distinct("gateway").alias("gateways"),
    )


def holdings(deliveries: DataFrame, since_ns: int | None = None) -> DataFrame:
    """One row for each delivery of each message: all its rows tell when that was.

    Args:
        deliveries: rows of the journal's table of this name.
        since_ns: by the wall clock, when the rows begin; what ends in them may have been sent before.

    Returns:
        `DELIVERY`, `gateway`, `slot`, `sent_ns` (null if it was never sent), `ended_ns` and `how` (null while it
        lasts), `ahead_ns` (of the wall clock before the run's), `given_up` (whether that was its last attempt),
        `whole` (whether it was sent with a batch that only goes so), and `back_ns` and `back_how`: its end, but of what
        was acknowledged of such a batch when the rest came back, if it did.
    """
    ended = F.col("event") != "sent"
    sent = ~ended
    how = F.nullif(F.array_position(F.array(*map(F.lit, ENDS)), F.col("event")), F.lit(0))
    if since_ns is not None:
        sent |= wall_ns_of("sent_ns") < F.lit(since_ns)
    held = (
        deliveries.repartition(*KEY)
        .groupBy(*DELIVERY, "gateway", F.col("sent_ns").alias("given_ns"))
        .agg(
            F.min("slot").alias("slot"),
            F.min(F.when(sent, F.col("sent_ns"))).alias("sent_ns"),
            F.min(F.when(ended, F.col("at_ns"))).alias("ended_ns"),
            F.min_by(F.when(ended, how), F.when(ended, F.col("at_ns"))).alias("how"),
            F.min(F.col("wall_ns") - F.col("at_ns")).alias("ahead_ns"),
            F.coalesce(F.max(F.col("why") == GIVEN_UP), F.lit(False)).alias("given_up"),
            F.coalesce(F.max(F.col("why") == WHOLE), F.lit(False)).alias("whole"),
        )
        .withColumn("how", F.try_element_at(F.array(*map(F.lit, ENDS)), F.col("how").cast("int")))
    )
    with_rest = (F.col("how") == "acked") & F.col("rest_how").isNotNull()
    return (
        held.join(F.broadcast(_rests(deliveries)), list(BATCH_DELIVERY), "left")
        .withColumn("back_ns", F.when(with_rest, F.col("rest_ns")).otherwise(F.col("ended_ns")))
        .withColumn("back_how", F.when(with_rest, F.col("rest_how")).otherwise(F.col("how")))
        .drop("given_ns", "rest_ns", "rest_how")
    )


def _rests(deliveries: DataFrame) -> DataFrame:
    """When and how what was not acknowledged of a batch that only goes whole came back, by the batch's delivery."""
    return (
        deliveries.where(F.col("event").isin(*BACK))
        .groupBy(*OF_BATCH, "consumer", "attempt", F.col("sent_ns").alias("given_ns"))
        .agg(F.min("at_ns").alias("rest_ns"), F.min_by("event", "at_ns").alias("rest_how"))
        .join(deliveries.where(F.col("why") == WHOLE).select(*OF_BATCH).distinct(), list(OF_BATCH), "left_semi")
    )


def _in_segments(held: DataFrame, events: DataFrame) -> DataFrame:
    """With `segment`, how often the subscription began before; `unordered`, whether it promises none; `absences`."""
    beginning, absence = F.col("kind").isin(*BEGINNINGS), F.col("kind").isin(*ABSENCES)
    markers = (
        events.where(beginning | absence)
        .groupBy("topic", "subscription", "life")
        .agg(
            F.array_sort(F.collect_list(F.when(beginning, F.col("at_ns")))).alias("marks"),
            F.array_sort(F.collect_list(F.when(absence, F.col("at_ns")))).alias("absences"),
            F.max(F.get_json_object("facts", "$.ordering_mode") == "unordered").alias("unordered"),
        )
    )
    joined = held.join(F.broadcast(markers), ["topic", "subscription", "life"], "left")
    moment = F.coalesce("sent_ns", "ended_ns")
    passed = F.size(F.filter("marks", lambda mark: mark <= moment))
    return (
        joined.withColumn("segment", F.when(F.col("marks").isNull(), F.lit(0)).otherwise(passed))
        .withColumn("unordered", F.coalesce("unordered", F.lit(False)))
        .drop("marks")
    )


def _by_message(held: DataFrame) -> DataFrame:
    """With what happened to the message before, and in all: one order serves all three kinds of windows."""
    acked, was_sent = F.col("how") == "acked", F.col("sent_ns").isNotNull()
    in_turn = F.asc_nulls_last("sent_ns"), F.asc_nulls_last("ended_ns")
    everywhere, in_life = Window.partitionBy(*BY_POSITION), Window.partitionBy(*BY_POSITION, "life")
    in_segment = Window.partitionBy(*BY_POSITION, "life", "segment").orderBy(*in_turn)
    lives = Window.partitionBy(*BY_POSITION).orderBy("life", "segment", *in_turn)
    return held.select(
        "*",
        F.row_number().over(in_segment).alias("number"),
        _before("how", "back_how", in_segment).alias("before_how"),
        _before("ended_ns", "back_ns", in_segment).alias("before_ended_ns"),
        F.lag("consumer").over(in_segment).alias("before_consumer"),
        F.lead("sent_ns").over(in_segment).alias("next_sent_ns"),
        F.coalesce(F.max(acked).over(in_life), F.lit(False)).alias("acked_in_life"),
        F.collect_set(F.when(was_sent, F.col("consumer"))).over(in_life).alias("senders"),
        F.row_number().over(lives).alias("number_of_all"),
        F.max(was_sent).over(everywhere).alias("sent_at_all"),
        F.coalesce(F.max(acked).over(everywhere), F.lit(False)).alias("acked_at_all"),
    )


def _before(of_message: str, of_batch: str, in_segment: WindowSpec) -> Column:
    """Of the message's delivery before this one; of its batch's, if this one is of the whole batch."""
    return F.when(F.col("whole"), F.lag(of_batch).over(in_segment)).otherwise(F.lag(of_message).over(in_segment))


def _by_time(by_message: DataFrame) -> DataFrame:
    """With what happened to the key before, and what comes after."""
    in_time = (F.asc_nulls_last("sent_ns"), "ledger", "entry", "batch_index")
    in_life = Window.partitionBy(*BY_KEY, "life").orderBy(*in_time)
    before = in_life.rowsBetween(Window.unboundedPreceding, -1)
    of_key = Window.partitionBy(*BY_KEY).orderBy("life", *in_time).rowsBetween(Window.unboundedPreceding, 0)
    was_sent = F.col("sent_ns").isNotNull()
    # Always so; without it Spark would do this one first, and sort by time twice.
    counts = F.col("inside") & (F.col("number") > 0)
    held_until = F.struct(_until(), message_name().alias("message"), F.col("consumer"))
    # Of one run of the subscription: an earlier one's places are below all of a later one's.
    place = F.struct("segment", _place().alias("place"), message_name().alias("message"), F.col("consumer"))
    return by_message.select(
        "*",
        F.sum(counts.cast("int")).over(of_key).alias("number_of_key"),
        F.lag("consumer").over(in_life).alias("consumer_before"),
        F.max(F.when(was_sent, held_until)).over(before).alias("held"),
        F.max(F.when(was_sent & (F.col("number") == 1), place)).over(before).alias("ahead"),
        F.max(F.struct("segment", "sent_ns")).over(Window.partitionBy(*BY_KEY, "life")).alias("last"),
    )


def _sums() -> dict[str, Column]:
    """What each row adds to `SUMS`: when it was sent, and when it ended; a message counts where it was first sent."""
    was_sent, first = F.col("sent_ns").isNotNull(), F.col("number_of_all") == 1
    sums = {
        "messages": first & F.col("sent_at_all"),
        "deliveries": was_sent,
        "acked": first & F.col("acked_at_all"),
        "keys": F.col("number_of_key") == 1,
        "outstanding": was_sent & F.col("how").isNull(),
        "waiting": _given_back() & ~_should_have_come(),
    }
    again = was_sent & (F.col("number_of_all") > 1)
    sums |= {
        "again_after_return": again & (F.col("number") > 1) & (F.col("before_how") == "returned"),
        "again_after_drop": again & (F.col("number") > 1) & (F.col("before_how") == "dropped"),
        "again_in_another_life": again & (F.col("number") == 1),
    }
    ends = {how: F.col("ended_inside") & (F.col("how") == how) for how in ("returned", "dropped")}
    return {name: F.col("inside") & column for name, column in sums.items()} | ends


def _questions() -> list[Column]:
    """Each a violation, or null."""
    was_sent, ordered = F.col("sent_ns").isNotNull(), ~F.col("unordered")
    other_worker = F.coalesce(F.col("consumer_before") != F.col("consumer"), F.lit(False))
    overlaps = ordered & was_sent & other_worker & (F.col("held.until_ns") > F.col("sent_ns"))
    overlaps &= F.col("held.consumer") != F.col("consumer")
    # In a span's rows the first delivery that is there may be one that came again.
    first = was_sent & (F.col("number") == 1) & (F.col("attempt") == 1)
    behind = ordered & first & (F.col("ahead.segment") == F.col("segment")) & (F.col("ahead.place") > _place())
    back = F.col("before_how").isin(*BACK) & (F.col("before_ended_ns") <= F.col("sent_ns"))
    again = was_sent & (F.col("number") > 1) & ~F.coalesce(back, F.lit(False))
    never_sent = (F.col("how") == "acked") & ~F.array_contains("senders", F.col("consumer"))
    early_us = F.floor((F.col("held.until_ns") - F.col("sent_ns")) / 1_000)
    early = F.format_string(EARLY, F.floor(early_us / 1_000), early_us % 1_000)
    return [
        _when(
            overlaps,
            "overlap",
            other=F.col("held.message"),
            other_consumer=F.col("held.consumer"),
            detail=F.when(F.col("held.until_ns") == NEVER, F.lit(UNENDED)).otherwise(early),
        ),
        _when(
            behind,
            "inversion",
            other=F.col("ahead.message"),
            other_consumer=F.col("ahead.consumer"),
            detail=F.lit(BEHIND),
        ),
        _when(
            _given_back() & _should_have_come(),
            "never_acked",
            detail=F.lit(PASSED_OVER),
        ),
        _when(never_sent, "never_delivered", at=F.col("ended_ns"), detail=F.lit(NEVER_SENT)),
        _when(
            again,
            "repeated",
            other=message_name(),
            other_consumer=F.col("before_consumer"),
            detail=F.concat(F.lit(BEFORE), F.coalesce("before_how", F.lit(NOT_ENDED))),
        ),
    ]


def _given_back() -> Column:
    """Its last delivery in this run of the subscription ended so, and it was not acknowledged."""
    last = F.col("sent_ns").isNotNull() & F.col("next_sent_ns").isNull()
    waits = F.coalesce(F.col("how") == "returned", F.lit(False)) & ~F.col("given_up")
    return last & waits & ~F.col("acked_in_life")


def _should_have_come() -> Column:
    """Something of its key was sent since, and the gateway had the message all the time."""
    since, later = F.col("ended_ns"), F.col("last.sent_ns")
    passed_over = (F.col("last.segment") == F.col("segment")) & (later > since)
    away = F.exists("absences", lambda mark: (mark >= since) & (mark <= later))
    return F.coalesce(passed_over, F.lit(False)) & ~F.coalesce(away, F.lit(False)) & ~F.col("unordered")


def _place() -> Column:
    return F.struct("ledger", "entry", "batch_index")


def _until() -> Column:
    """When a holding surely ended; one that never did lasted for ever."""
    return F.coalesce("ended_ns", F.lit(NEVER)).alias("until_ns")


def _when(
    condition: Column,
    violation: str,
    *,
    detail: Column,
    at: Column | None = None,
    other: Column | None = None,
    other_consumer: Column | None = None,
) -> Column:
    no_text = F.lit(None).cast("string")
    moment = F.col("sent_ns") if at is None else at
    values = {
        **{name: F.col(name) for name in VIOLATIONS if name in {*KEY, "gateway", "life", "slot", "consumer"}},
        "violation": F.lit(violation),
        "message": message_name(),
        "at_ns": moment,
        "wall_ns": moment + F.col("ahead_ns"),
        "other": no_text if other is None else other,
        "other_consumer": no_text if other_consumer is None else other_consumer,
        "detail": detail,
    }
    return F.when(F.coalesce(condition, F.lit(False)), F.struct(*[values[name].alias(name) for name in VIOLATIONS]))
