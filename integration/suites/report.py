"""Prints the result of a run: each difference, and totals for each suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from integration.suites.outcomes import Comparison, Outcome, Result, Verdict, Way, passes_unexpectedly


def report(comparisons: Sequence[Comparison], known: Mapping[str, str]) -> str:
    """Lines for a terminal."""
    lines = []
    for comparison in comparisons:
        verdict = comparison.verdict(known)
        if verdict is not Verdict.SAME:
            lines.append(
                f"{verdict:13} {comparison.name}: direct {_runs(comparison.direct)};"
                f" through the gateway {_runs(comparison.through)}"
            )
        if verdict is Verdict.KNOWN:
            lines.append(f"{'':13} {known[comparison.name]}")
        if passes_unexpectedly(comparison, known):
            lines.append(
                f"{'listed':13} {comparison.name}: it passes, so the list of known differences need not have it"
            )
    return "\n".join([*lines, *_totals(comparisons, known)])


def closing_line(comparisons: Sequence[Comparison], known: Mapping[str, str]) -> str:
    """One line as a test runner's: a comparison passes where the ways agree, and is skipped where it proves nothing."""
    verdicts = Counter(comparison.verdict(known) for comparison in comparisons)
    skipped = verdicts[Verdict.UNSTEADY] + verdicts[Verdict.KNOWN]
    failed = verdicts[Verdict.BROKEN]
    return f"{len(comparisons) - skipped - failed} passed, {failed} failed, {skipped} skipped"


def _runs(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(f"{outcome.result} ({outcome.seconds:.0f} s)" for outcome in outcomes)


def _totals(comparisons: Sequence[Comparison], known: Mapping[str, str]) -> list[str]:
    """By suite: how the first run of each test ended on each way, and what was found."""
    lines = []
    for suite in dict.fromkeys(comparison.name.split()[0] for comparison in comparisons):
        of_it = [comparison for comparison in comparisons if comparison.name.split()[0] == suite]
        direct = Counter(comparison.direct[0].result for comparison in of_it)
        through = Counter(comparison.through[0].result for comparison in of_it)
        verdicts = Counter(comparison.verdict(known) for comparison in of_it)
        lines.append(f"{suite}: {len(of_it)} tests")
        for way, results in ((Way.DIRECT, direct), (Way.THROUGH, through)):
            lines.append(f"  {way:8}" + "".join(f" {results[result]:4} {result}," for result in Result).rstrip(","))
        lines.append("  verdicts" + "".join(f" {verdicts[verdict]:4} {verdict}," for verdict in Verdict).rstrip(","))
    return lines
