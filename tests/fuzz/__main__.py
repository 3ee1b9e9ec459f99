"""`make fuzz`: search every target for some seconds and say what was found."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.search import Found, search
from tests.fuzz.targets import TARGETS

TAIL_CHARACTERS = 3_000


def main() -> int:
    """Exit code 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each target (default %(default)g)")
    parser.add_argument("--work", type=Path, default=Path(".fuzz"), help="inputs worth keeping, and failures")
    arguments = parser.parse_args()
    names = arguments.targets or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    if find_spec("atheris") is None:
        parser.error("atheris is not installed; it has wheels for Linux on x86-64 and Python up to 3.13")
    results = []
    for name in names:
        seconds = arguments.seconds
        result = search(name, arguments.work.absolute(), f"-max_total_time={round(seconds)}", seconds=seconds)
        results.append(result)
        if not result.clean:
            print(result.output[-TAIL_CHARACTERS:])
    _show(results, arguments.seconds)
    return 0 if all(result.clean for result in results) else 1


def _show(results: list[Found], seconds: float) -> None:
    table = Table("target", "executions", "per second", "features", "findings")
    for result in results:
        findings = "\n".join(str(path) for path in result.failures) or (
            "none" if result.clean else f"exit code {result.exit_code}"
        )
        rate = round(result.executions / seconds)
        table.add_row(result.target, f"{result.executions:,}", f"{rate:,}", str(result.features), findings)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
