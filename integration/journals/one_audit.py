"""One audit of one journal in a process of its own, for `bench`: `python -m integration.journals.one_audit ...`.

Prints a line of JSON with the violations by kind; before it, from an engine of several steps, one with their seconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_reports.run import Watcher


def by_spark(root: str, cores: int) -> dict[str, int]:
    """As `keyline report` without `--out` does it."""
    return _report(root, cores, None, None)


def by_report(root: str, cores: int) -> dict[str, int]:
    """As `keyline report` with `--out` does it: the audit and all other jobs, and everything is written."""
    steps = Steps()
    with tempfile.TemporaryDirectory() as out:
        found = _report(root, cores, Path(out), steps)
        steps.began("", 0, 0)
    print(json.dumps(steps.seconds))
    return found


def _report(root: str, cores: int, out: Path | None, watcher: Watcher | None) -> dict[str, int]:
    from spark_reports.run import NoWatcher, beforehand, opened, report_on, session  # noqa: PLC0415 - not in DuckDB's
    from spark_reports.span import EVERYTHING  # noqa: PLC0415 - likewise

    journal, master = opened(root), f"local[{cores}]"
    with beforehand(journal, EVERYTHING, master) as looked:
        spark = session(master, size_bytes=journal.size_bytes)
        return report_on(spark, journal, out, EVERYTHING, watcher or NoWatcher(), looked).by_kind


class Steps:
    """How long each step of a report takes; the last has writing in it."""

    def __init__(self) -> None:
        """Nothing began yet."""
        self.seconds: dict[str, float] = {}
        self._name = ""
        self._at = 0.0

    def began(self, what: str, number: int, count: int) -> None:
        """As `spark_reports.run.Watcher` says."""
        del number, count
        now = time.monotonic()
        if self._name:
            self.seconds[self._name] = round(now - self._at, 1)
        self._name, self._at = what, now


def by_duckdb(root: str, cores: int) -> dict[str, int]:
    """As `keyline report --engine duckdb` does it."""
    from spark_reports import duckdb_audit  # noqa: PLC0415 - not in Spark's process
    from spark_reports.run import opened  # noqa: PLC0415 - likewise

    return duckdb_audit.report(opened(root), threads=cores)[0].by_kind


ENGINES = {"spark": by_spark, "report": by_report, "duckdb": by_duckdb}


if __name__ == "__main__":
    engine, root, cores = sys.argv[1:]
    print(json.dumps(ENGINES[engine](root, int(cores))))
