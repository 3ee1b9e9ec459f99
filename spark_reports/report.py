"""What a report found, and why it may not be the whole truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_reports import gateway_runs

if TYPE_CHECKING:
    from spark_reports.reading import Skipped


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

    @property
    def line(self) -> str:
        """The audit in a line."""
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
