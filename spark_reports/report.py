"""What a report found, and why it may not be the whole truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from proxy.journal.schema import DELIVERIES
from spark_reports import gateway_runs
from spark_reports.coverage import coverage, nothing_judged

if TYPE_CHECKING:
    from spark_reports.coverage import Coverage
    from spark_reports.looking import Looked
    from spark_reports.reading import Journal, Skipped
    from spark_reports.span import Span


SHOWN_MAX: Final = 20
"""Violations that are shown in words; all are written."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found."""

    source: str
    totals: dict[str, int]
    violations: int
    by_kind: dict[str, int]
    evidence: list[str]
    """Of the first ones, in words."""
    files: int
    rows_lost: int
    """Rows that gateways counted as lost."""
    skipped: list[Skipped]
    odd_runs: list[dict[str, Any]]
    coverage: Coverage
    unjudged: str | None = None
    """Why nothing was judged, if that is so."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing was judged because gateways had nothing to deliver, as far as the journal tells."""
        broken = any(one.table == DELIVERIES.name for one in self.skipped)
        return self.unjudged is not None and not broken and not self.coverage.counted

    @property
    def line(self) -> str:
        """The audit in a line."""
        if self.unjudged is not None:
            return f"audit: nothing was judged: {self.unjudged}"
        counts = self.totals
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.by_kind.items()))
        return (
            f"audit: {counts['messages']:,} messages, {counts['deliveries']:,} deliveries, {counts['acked']:,} "
            f"acknowledged, {counts['keys']:,} keys, {counts['consumers']:,} workers, {counts['lives']:,} runs: "
            f"{self.violations:,} violations{f' ({kinds})' if kinds else ''}"
        )

    @property
    def caveats(self) -> list[str]:
        """Why it may not be the whole truth."""
        found = [f"not in the report: {item.file}: {item.reason}" for item in self.skipped]
        if self.rows_lost:
            found.append(f"the gateways lost {self.rows_lost:,} rows of their journals; what they said is not known")
        return found + [words for run in self.odd_runs for words in _oddities(run)]


def verdict(
    journal: Journal,
    span: Span,
    looked: Looked,
    *,
    sums: dict[str, int],
    by_kind: dict[str, int],
    shown: list[dict[str, Any]],
) -> Report:
    """What an engine found, as a report; `sums` are `ordering_audit.SUMS`, and `shown` the first violations."""
    judged = sums["deliveries"] or by_kind
    return Report(
        source=journal.place.root,
        totals=sums | looked.totals,
        violations=sum(by_kind.values()),
        by_kind=by_kind,
        evidence=[_words(row) for row in shown],
        files=sum(map(len, journal.files.values())),
        rows_lost=looked.rows_lost,
        skipped=journal.skipped,
        odd_runs=gateway_runs.odd(looked.runs),
        coverage=coverage(journal, span, looked.runs, looked.counts),
        unjudged=None if judged else nothing_judged(journal, span),
    )


def _words(row: dict[str, Any]) -> str:
    other = f"; the other: {row['other']} at {row['other_consumer']}" if row["other"] is not None else ""
    return (
        f"{row['violation']}: message {row['message']} at {row['consumer']}, slot {row['slot']}, {row['topic']} "
        f"{row['subscription']}, gateway {row['gateway']}: {row['detail']}{other}"
    )


def _oddities(run: dict[str, Any]) -> list[str]:
    found = []
    if run["beside"] is not None:
        found.append(
            f"gateway {run['gateway']}: two processes had this name at once, runs {run['beside']} and "
            f"{run['life']}; names should be each replica's own"
        )
    if run["clock_moved_ns"] > gateway_runs.ODD_NS:
        found.append(
            f"gateway {run['gateway']}: the wall clock moved by {run['clock_moved_ns'] / 1e9:,.1f} s in run "
            f"{run['life']}; times over the wall clock, and what a day or hour is, are as wrong"
        )
    if run["killed"]:
        found.append(
            f"gateway {run['gateway']}: run {run['life']} was killed; what it did in its last second or so is in no "
            "journal"
        )
    return found
