"""One audit of one journal in a process of its own, for `bench`: `python -m integration.journals.one_audit ...`."""

from __future__ import annotations

import json
import sys
from importlib.resources import files

from integration.journals.plan import FAULTS


def by_spark(root: str, cores: int) -> dict[str, int]:
    """As `keyline report` without `--out` does it."""
    from spark_reports.run import report, session  # noqa: PLC0415 - not in DuckDB's process

    return report(session(f"local[{cores}]"), root, None).by_kind


def by_duckdb(root: str, cores: int) -> dict[str, int]:
    """The same questions as SQL."""
    import duckdb  # noqa: PLC0415 - not in Spark's process

    question = (files("integration.journals") / "audit.sql").read_text()
    connection = duckdb.connect(config={"threads": cores})
    answer = connection.execute(question.replace("$files", f"{root}/deliveries/**/*.parquet")).fetchone()
    assert answer is not None
    return dict(zip(FAULTS, answer, strict=True))


ENGINES = {"spark": by_spark, "duckdb": by_duckdb}


if __name__ == "__main__":
    engine, root, cores = sys.argv[1:]
    print(json.dumps(ENGINES[engine](root, int(cores))))
