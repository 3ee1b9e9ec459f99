"""The time that a report is about, by the wall clock, and what has to be read around it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from pyspark.sql import Column, DataFrame

MARGIN: Final = timedelta(hours=1)
"""Read before and after, so that what was at a worker when the span began or ended is judged as it was."""

EARLIEST_NS: Final = -(1 << 62)
LATEST_NS: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Span:
    """From `since` on and before `until`, both in UTC; None is without end."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def around(self) -> Span:
        """The same with margins."""
        return Span(
            None if self.since is None else self.since - MARGIN, None if self.until is None else self.until + MARGIN
        )

    def longer_before(self, length_ns: int) -> Span:
        """The same with so much more before."""
        return Span(None if self.since is None else self.since - timedelta(microseconds=length_ns // 1_000), self.until)

    def holds_period(self, start_ns: Column, length_ns: int) -> Column:
        """Whether some of a period that begins then is in it."""
        inside = F.lit(True)
        if self.since is not None:
            inside &= start_ns + F.lit(length_ns) > F.lit(nanoseconds(self.since))
        if self.until is not None:
            inside &= start_ns < F.lit(nanoseconds(self.until))
        return inside

    def cut(self, rows: DataFrame) -> DataFrame:
        """The journal's rows that are of it; only partitions that may have some are read."""
        conditions = list(self._conditions())
        return rows if not conditions else rows.where(reduce(lambda one, other: one & other, conditions))

    @property
    def is_everything(self) -> bool:
        """Whether it has no end on either side."""
        return self.since is None and self.until is None

    def touches(self, hour: datetime) -> bool:
        """Whether some of the hour that begins then is in it."""
        after_since = self.since is None or hour + timedelta(hours=1) > self.since
        return after_since and (self.until is None or hour < self.until)

    @property
    def ends_ns(self) -> dict[str, int]:
        """`since_ns` and `until_ns`, also of the span `around`; what has no end ends beyond all times."""
        ends = {}
        for name, span in (("", self), ("around_", self.around)):
            ends[f"{name}since_ns"] = EARLIEST_NS if span.since is None else nanoseconds(span.since)
            ends[f"{name}until_ns"] = LATEST_NS if span.until is None else nanoseconds(span.until)
        return ends

    def holds(self, wall_ns: Column) -> Column:
        """Whether a moment is in it."""
        inside = F.lit(True)
        if self.since is not None:
            inside &= wall_ns >= F.lit(nanoseconds(self.since))
        if self.until is not None:
            inside &= wall_ns < F.lit(nanoseconds(self.until))
        return inside

    def _conditions(self) -> Iterator[Column]:
        """On the path first, so that other partitions are not even opened."""
        place = F.concat_ws("T", "date", "hour")
        if self.since is not None:
            yield F.col("date") >= F.lit(f"{self.since:%Y-%m-%d}")
            yield place >= F.lit(f"{self.since:%Y-%m-%dT%H}")
        if self.until is not None:
            yield F.col("date") <= F.lit(f"{self.until:%Y-%m-%d}")
            yield place <= F.lit(f"{self.until:%Y-%m-%dT%H}")
        if not self.is_everything:
            yield self.holds(F.col("wall_ns"))


EVERYTHING: Final = Span()


def day(of: date) -> Span:
    """From midnight to midnight."""
    begin = datetime(of.year, of.month, of.day, tzinfo=UTC)
    return Span(begin, begin + timedelta(days=1))


def nanoseconds(moment: datetime) -> int:
    """Since 1970."""
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1_000
