"""One audit of one journal in a process of its own, for `bench`: `python -m integration.journals.one_audit ...`.

Prints a line of JSON with the violations by kind; before it, from an engine of several steps, one with their seconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path


def by_spark(root: str, cores: int) -> dict[str, int]:
    """As `keyline report` without `--out` does it."""
    from spark_reports.run import opened, report, session  # noqa: PLC0415 - not in DuckDB's process

    return report(session(f"local[{cores}]", size_bytes=opened(root).size_bytes), root, None).by_kind


def by_report(root: str, cores: int) -> dict[str, int]:
    """As `keyline report` with `--out` does it: the audit and all other jobs, and everything is written."""
    from spark_reports.run import opened, report, session  # noqa: PLC0415 - not in DuckDB's process

    steps = Steps()
    spark = session(f"local[{cores}]", size_bytes=opened(root).size_bytes)
    with tempfile.TemporaryDirectory() as out:
        found = report(spark, root, Path(out), watcher=steps).by_kind
        steps.began("", 0, 0)
    print(json.dumps(steps.seconds))
    return found


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
