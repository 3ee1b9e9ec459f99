"""Runs the official clients' own tests directly and through the gateway: `python -m integration.suites`.

Exit code 1: a test passes directly and fails through the gateway, each time and for no known reason, or something did
not run as it should.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from integration.artifacts import DEFAULT_VERSION, PULSAR_VERSIONS
from integration.errors import DownloadError, IntegrationError, ToolMissingError
from integration.suites.compare import FIRST, compare
from integration.suites.known import KNOWN
from integration.suites.lane import WORK
from integration.suites.lanes import Limits
from integration.suites.outcomes import Test, Verdict, Way
from integration.suites.programs import SUITES
from integration.suites.report import closing_line, report

LOGS: Final = Path(".suites")
TEST_S_MAX: Final = 180.0
WHOLE_S_MAX: Final = 5_400.0


def main() -> int:
    """Run what is asked for, and print what differs."""
    options = _options()
    began = time.monotonic()
    try:
        tests = [test for test in _tests(options.suites) if re.search(options.only, test.name)]
        if not tests:
            raise IntegrationError(f"there is no test to run: {options.only!r}")  # noqa: TRY301 - told as the others are
        limits = Limits(options.test_seconds, options.seconds)
        comparisons = compare(tests, options.version, emptied(options.logs), limits)
    except IntegrationError as error:
        print(f"suites: {error}", file=sys.stderr)
        return 1
    print(report(comparisons, KNOWN))
    print(f"{len(tests)} tests on both ways took {(time.monotonic() - began) / 60:.0f} minutes; logs: {options.logs}")
    print(closing_line(comparisons, KNOWN))
    return int(any(comparison.verdict(KNOWN) is Verdict.BROKEN for comparison in comparisons))


def _options() -> argparse.Namespace:
    names = ",".join(suite.name for suite in SUITES)
    parser = argparse.ArgumentParser(prog="python -m integration.suites", description=__doc__)
    parser.add_argument("--version", default=DEFAULT_VERSION, choices=PULSAR_VERSIONS, help="by default %(default)s")
    parser.add_argument("--suites", default=names, help="by default %(default)s")
    parser.add_argument("--only", default="", help="a regular expression that tests' names match: '^go TestReader'")
    parser.add_argument(
        "--logs", type=Path, default=LOGS, help="a new folder; by default %(default)s, which is emptied"
    )
    parser.add_argument("--test-seconds", type=float, default=TEST_S_MAX, help="for each test; by default %(default)s")
    parser.add_argument("--seconds", type=float, default=WHOLE_S_MAX, help="for a round; by default %(default)s")
    options = parser.parse_args()
    if unknown := set(options.suites.split(",")) - set(names.split(",")):
        parser.error(f"unknown suites: {', '.join(sorted(unknown))}")
    return options


def emptied(path: Path) -> Path:
    """Make room for the logs of a run where an earlier run left its own, and nowhere else.

    Raises:
        IntegrationError: there is something else.
    """
    if (path / FIRST / Way.DIRECT / WORK).exists():
        shutil.rmtree(path)
    if path.exists() and any(path.iterdir()):
        raise IntegrationError(f"{path} is not empty and has no logs of this program; name another folder")
    return path.absolute()


def _tests(names: str) -> list[Test]:
    tests = []
    for suite in SUITES:
        if suite.name in names.split(","):
            try:
                tests += suite.tests()
            except (ToolMissingError, DownloadError) as error:
                print(f"without {suite.title}: {error}", file=sys.stderr)
    return tests


if __name__ == "__main__":
    sys.exit(main())
