"""Runs tests on both ways, and those that differ once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from integration.suites.lanes import Limits, run_both
from integration.suites.outcomes import Comparison, Test, Way
from integration.suites.programs import go_files

FIRST: Final = "first"
SECOND: Final = "second"
"""Folders of the two rounds."""


def compare(
    tests: Sequence[Test], version: str, directory: Path, limits: Limits, tell: Callable[[str], None] = print
) -> list[Comparison]:
    """Run all of them; those that differ are repeated on both ways, at brokers that are new.

    Raises:
        ToolMissingError, DownloadError: a part is missing on this machine.
        IntegrationError: a broker or the gateway did not run as it should, or it took too long.
    """
    credentials = go_files() / "integration-tests"
    first = run_both(tests, version, credentials, directory / FIRST, limits, tell)
    comparisons = [
        Comparison(test.name, (first[Way.DIRECT][test.name],), (first[Way.THROUGH][test.name],)) for test in tests
    ]
    differ = {comparison.name for comparison in comparisons if comparison.differs}
    if not differ:
        return comparisons
    tell(f"repeating {len(differ)} that differ")
    repeated = [test for test in tests if test.name in differ]
    second = run_both(repeated, version, credentials, directory / SECOND, limits, tell)
    return [
        Comparison(
            comparison.name,
            (*comparison.direct, second[Way.DIRECT][comparison.name]),
            (*comparison.through, second[Way.THROUGH][comparison.name]),
        )
        if comparison.name in differ
        else comparison
        for comparison in comparisons
    ]
