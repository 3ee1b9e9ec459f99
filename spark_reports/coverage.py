"""How much a verdict is about: which share of the asked time, and of what the gateways counted by themselves.

A journal may lack hours, files or rows, and a report without violations on nothing would look like one on everything.
Two measures, from two sources:

- *time*: when gateways wrote down messages. A run counts from its first row to its last, if it has a row of a delivery;
  hours with an unreadable file of deliveries do not count.
- *deliveries*: each snapshot of the metrics has how many messages each subscription had sent. Between the first and the
  last one of a run (from the subscription's beginning, where that is in the journal) this is compared with the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from proxy.journal.schema import DELIVERIES
from spark_reports.cells import moment
from spark_reports.columns import SECOND_NS
from spark_reports.reading import hour_of
from spark_reports.span import nanoseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_reports.reading import Journal
    from spark_reports.span import Span

    Interval = tuple[int, int]
    """Nanoseconds since 1970, the end not included."""

HOUR_NS: Final = 3_600 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of one report."""

    since_ns: int
    until_ns: int
    """The time that was asked for; where it has no end, to the last row of the journal."""
    recorded_ns: int
    """How much of it is in the record of messages."""
    counted: int
    """Deliveries that the gateways counted between their snapshots; 0 also if there are none."""
    found: int
    """Of these, in the record."""

    @property
    def time_share(self) -> float:
        """Of the asked time."""
        asked_ns = self.until_ns - self.since_ns
        return self.recorded_ns / asked_ns if asked_ns else 1.0

    @property
    def deliveries_share(self) -> float | None:
        """Of what gateways counted; None if that is not in the journal."""
        return self.found / self.counted if self.counted else None

    @property
    def words(self) -> str:
        """Both, rounded down."""
        asked = f"{moment(self.since_ns)} to {moment(self.until_ns)} UTC"
        counts = "the gateways' own counts are not in the journal"
        if (share := self.deliveries_share) is not None:
            counts = f"{_percent(share)} of {self.counted:,} deliveries that the gateways counted"
        return f"judged: {_percent(self.time_share)} of the time from {asked}; {counts}"

    @property
    def facts(self) -> dict[str, Any]:
        """For programs."""
        return {
            "since_ns": self.since_ns,
            "until_ns": self.until_ns,
            "time_share": self.time_share,
            "counted_deliveries": self.counted,
            "counted_deliveries_share": self.deliveries_share,
        }


def coverage(
    journal: Journal, span: Span, runs: Sequence[Mapping[str, Any]], counts: Iterable[tuple[int, int]]
) -> Coverage:
    """How much of `span` is judged.

    Args:
        journal: what is read.
        span: what is asked for.
        runs: rows of `gateway_runs.runs` of this time.
        counts: for each run and subscription, what was counted and how much of this is in the record.
    """
    ends = [run[name] for run in runs for name in ("first_wall_ns", "last_wall_ns")] or [0]
    since_ns = min(ends) if span.since is None else nanoseconds(span.since)
    until_ns = max(ends) if span.until is None else nanoseconds(span.until)
    recorded = [(run["first_wall_ns"], run["last_wall_ns"]) for run in runs if run["deliveries"]]
    broken = [hour for one in journal.skipped if one.table == DELIVERIES.name and (hour := hour_of(one.file))]
    lost = [(start := nanoseconds(hour), start + HOUR_NS) for hour in broken]
    pairs = [(total, min(total, there)) for total, there in counts]
    return Coverage(
        since_ns=since_ns,
        until_ns=until_ns,
        recorded_ns=_length(recorded) - _length(_both(_union(recorded), _union(lost))),
        counted=sum(total for total, _ in pairs),
        found=sum(there for _, there in pairs),
    )


def nothing_judged(journal: Journal, span: Span) -> str:
    """Why there is no delivery to judge in a journal, and what would be right."""
    broken = [one for one in journal.skipped if one.table == DELIVERIES.name]
    files = journal.files.get(DELIVERIES.name, [])
    if not files and not broken:
        return "the journal has no record of messages; the gateways' setting journal_deliveries should be true"
    if not files:
        first = broken[0]
        return (
            f"none of the {len(broken):,} files of deliveries can be read, the first: {first.file}: {first.reason}; "
            "they should be as the gateways wrote them"
        )
    if span.is_everything:
        return "no message was delivered; the journal should be of gateways that had workers and messages"
    return f"no message was delivered in that time; {written(files)}, so --from and --to should be in there"


def written(files: Iterable[str]) -> str:
    """Of which hours files are."""
    hours = sorted(hour for file in files if (hour := hour_of(file)) is not None)
    if not hours:
        return "its files are of no hour"
    return f"there are files of {hours[0]:%Y-%m-%dT%H:%MZ} to {hours[-1]:%Y-%m-%dT%H:59Z}"


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time without overlaps, in order."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _both(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """What is in both."""
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return [(start, end) for start, end in pairs if start < end]


def _length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in _union(intervals))


def _percent(share: float) -> str:
    return f"{math.floor(share * 1_000) / 10:.1f}%"
