"""Columns, and what is made of them, that many jobs have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

if TYPE_CHECKING:
    from pyspark.sql import Column

SUBSCRIPTION: Final = ("topic", "subscription")
WORKER: Final = (*SUBSCRIPTION, "consumer")
RUN: Final = (*SUBSCRIPTION, "life")
PLACE: Final = ("ledger", "entry", "batch_index")
SECOND_NS: Final = 1_000_000_000


def message_name() -> Column:
    """How people name a message: `ledger:entry:batch_index`."""
    return F.concat_ws(":", *PLACE)


def wall_ns_of(moment: str) -> Column:
    """What the wall clock showed at a moment of the row's run."""
    return F.col("wall_ns") - (F.col("at_ns") - F.col(moment))


def window_start_ns(wall_ns: Column, window_s: int) -> Column:
    """Where the window begins that has a moment of the wall clock; windows follow one another since 1970."""
    return wall_ns - wall_ns % F.lit(window_s * SECOND_NS).cast("long")
