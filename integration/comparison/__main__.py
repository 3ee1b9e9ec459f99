"""`make comparison`: prints the table; exit code 1 if the gateway broke a promise."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from integration import artifacts
from integration.command_line import interrupt_on_termination, positive
from integration.comparison.plan import CASES, QUICK_CHANGES, QUICK_MESSAGES, Case, cases
from integration.comparison.report import table
from integration.comparison.run import Comparison, compare
from integration.errors import IntegrationError
from integration.load.report import audit_lines
from integration.standalone import PulsarStandalone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def main(arguments: list[str] | None = None) -> int:
    """Compare, and return the exit code: 0, 1 if the gateway broke a promise, 2 for no result, 130 if broken off."""
    options = _parser().parse_args(arguments)
    interrupt_on_termination()
    messages, changes = (QUICK_MESSAGES, QUICK_CHANGES) if options.quick else (None, None)
    chosen = cases(options.version, messages=options.messages or messages, changes=options.changes or changes)
    directory = Path(tempfile.mkdtemp(prefix="keyline-comparison-"))
    try:
        comparisons = list(_compared(chosen, directory))
    except IntegrationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        _say("interrupted; nothing is left running")
        return 130
    print(table(comparisons), flush=True)
    return _judged(comparisons, directory)


def _compared(cases: Iterable[Case], directory: Path) -> Iterator[Comparison]:
    for version, of_version in groupby(cases, key=attrgetter("version")):
        # Fetched first, in order that the time of a download is not taken for the broker's start.
        artifacts.ensure(artifacts.broker(version))
        with PulsarStandalone(version, data=directory / version) as broker:
            for case in of_version:
                _say(f"{case}: {case.load.messages:,} messages direct, then as many through the gateway")
                yield compare(broker, case, directory / str(case))


def _judged(comparisons: list[Comparison], directory: Path) -> int:
    broken = [comparison for comparison in comparisons if not comparison.gateway.ok]
    for comparison in broken:
        _say(f"{comparison.case}, through the gateway:")
        for line in audit_lines(comparison.gateway):
            _say(line)
    if broken:
        _say(f"records and logs: {directory}")
        return 1
    shutil.rmtree(directory)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m integration.comparison",
        description="Count what goes wrong while workers roll: direct, and through the gateway.",
    )
    versions = list(dict.fromkeys(case.version for case in CASES))
    parser.add_argument("--version", action="append", choices=versions, help="of Pulsar; by default all of them")
    parser.add_argument("--messages", type=positive, help="of each side, instead of the case's own number")
    parser.add_argument("--changes", type=positive, help="joins, leaves and crashes of workers, of each side")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_MESSAGES:,} messages: shows that it works")
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
