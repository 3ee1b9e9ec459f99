"""One audit of one journal in a process of its own, for `bench`: `python -m integration.journals.one_audit ...`.

Prints a line of JSON with the violations by kind; before it, from an engine of several steps, one with their seconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path

from integration.journals.plan import FAULTS


def by_spark(root: str, cores: int) -> dict[str, int]:
    """As `keyline report` without `--out` does it."""
    from spark_reports.run import report, session  # noqa: PLC0415 - not in DuckDB's process

    return report(session(f"local[{cores}]"), root, None).by_kind


def by_report(root: str, cores: int) -> dict[str, int]:
    """As `keyline report` with `--out` does it: the audit and all other jobs, and everything is written."""
    from spark_reports.run import report, session  # noqa: PLC0415 - not in DuckDB's process

    steps = Steps()
    spark = session(f"local[{cores}]")
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
    """The same questions as SQL."""
    import duckdb  # noqa: PLC0415 - not in Spark's process

    question = (files("integration.journals") / "audit.sql").read_text()
    connection = duckdb.connect(config={"threads": cores})
    answer = connection.execute(question.replace("$files", f"{root}/deliveries/**/*.parquet")).fetchone()
    assert answer is not None
    return dict(zip(FAULTS, answer, strict=True))


ENGINES = {"spark": by_spark, "report": by_report, "duckdb": by_duckdb}


if __name__ == "__main__":
    engine, root, cores = sys.argv[1:]
    print(json.dumps(ENGINES[engine](root, int(cores))))
