"""One report over a journal: reads it, judges it, runs the jobs, writes what was found, and says it in a line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, cast

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from proxy.journal.schema import TABLES
from spark_reports import gateway_runs
from spark_reports.jobs import Tables, all_jobs
from spark_reports.ordering_audit import judge, parties, totals, violations
from spark_reports.output import replacing
from spark_reports.page import page
from spark_reports.reading import Journal, open_journal
from spark_reports.report import Report
from spark_reports.span import EVERYTHING, Span

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame

LOST_ROWS: Final = "keyline_gateway_journal_rows_dropped_total"
LOCAL_PARTITIONS: Final = 16
SHOWN_MAX: Final = 20
"""Violations that are shown in words; all are written."""
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",  # `live` looks there for late rows
}
HERE: Final = {
    # Spark's 200 are for clusters: on one machine most would be empty, and each costs a moment.
    "spark.sql.shuffle.partitions": str(LOCAL_PARTITIONS),
    # Its ports are not needed, and its own page would be open to the network.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""Where Spark is of this process alone."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""In the environment of a program that `spark-submit` runs."""
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
STEPS_DRAWN: Final = 120
"""Of a plot over time."""


class Watcher(Protocol):
    """Is told how far a report is."""

    def began(self, what: str, number: int, count: int) -> None:
        """A step starts; steps count from 1."""


class NoWatcher:
    """Watches nothing."""

    def began(self, what: str, number: int, count: int) -> None:
        """As the protocol says."""


def session(master: str | None, settings: Mapping[str, str] = NO_SETTINGS) -> SparkSession:
    """Spark where it is told to be: by `master`, else by `spark-submit`, else here. Times are shown in UTC.

    `settings` are Spark's own, by their names; they win.
    """
    builder = SparkSession.builder.appName("keyline report")
    if master is None and SUBMITTED not in os.environ:
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
    here = HERE if master is not None and master.startswith("local") else {}
    for name, value in {**SETTINGS, **here, **settings}.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def report(
    spark: SparkSession, root: str, out: Path | None, span: Span = EVERYTHING, watcher: Watcher | None = None
) -> Report:
    """Judge the journal at `root`; with `out`, run all jobs too and write everything there.

    What is replaced there: `index.html`, `audit.json`, and `tables/` with a Parquet file of each result.

    Raises:
        JournalError: there is nothing to report on.
    """
    return report_on(spark, open_journal(root), out, span, watcher or NoWatcher())


def report_on(spark: SparkSession, journal: Journal, out: Path | None, span: Span, watcher: Watcher) -> Report:
    """The same for a journal that is open already."""
    jobs = [] if out is None else all_jobs()
    steps = ["gateways", "audit", *(job.name for job in jobs)]
    watcher.began(steps[0], 1, len(steps))
    rows = {name: span.cut(journal.read(spark, name)) for name in TABLES}
    told = gateway_runs.runs([rows[name] for name in journal.files], journal.killed).cache()
    watcher.began(steps[1], 2, len(steps))
    result, found = _audit(spark, journal, span, rows, told)
    if out is not None:
        tables = Tables(**rows, window_s=_window_s(told))
        results = {"violations": found.toArrow(), "runs": told.toArrow()}
        for number, job in enumerate(jobs, 3):
            watcher.began(job.name, number, len(steps))
            results[job.name] = job.build(tables).toArrow()
        with replacing(out) as part:
            write(part, result, results)
    return result


def write(directory: Path, result: Report, results: dict[str, pa.Table]) -> None:
    """Everything that was found."""
    (directory / "tables").mkdir()
    for name, table in results.items():
        pq.write_table(table, directory / "tables" / f"{name}.parquet")
    said = {**asdict(result), "line": result.line, "caveats": result.caveats}
    (directory / "audit.json").write_text(json.dumps(said, indent=2) + "\n")
    (directory / "index.html").write_text(page(result, results))


def _audit(
    spark: SparkSession, journal: Journal, span: Span, rows: dict[str, DataFrame], told: DataFrame
) -> tuple[Report, DataFrame]:
    around = span.around.cut(journal.read(spark, "deliveries"))
    judged = judge(around, journal.read(spark, "events"), span).cache()
    found = violations(judged).orderBy("violation", "wall_ns", "message")
    counts, who = totals(judged).first(), parties(rows["deliveries"]).first()
    assert counts is not None
    assert who is not None
    by_kind = {row["violation"]: row["count"] for row in found.groupBy("violation").count().collect()}
    result = Report(
        source=journal.place.root,
        totals=counts.asDict() | who.asDict(),
        violations=sum(by_kind.values()),
        by_kind=by_kind,
        evidence=[_words(row.asDict()) for row in found.limit(SHOWN_MAX).collect()],
        files=sum(map(len, journal.files.values())),
        rows_lost=_rows_lost(rows["metrics"]),
        skipped=journal.skipped,
        odd_runs=[row.asDict() for row in gateway_runs.odd(told).collect()],
    )
    return result, found


def _rows_lost(metrics: DataFrame) -> int:
    lost = (
        metrics.where(F.col("name") == LOST_ROWS)
        .groupBy("life", F.col("labels")["kind"])
        .agg(F.max("value").alias("value"))
        .agg(F.coalesce(F.sum("value"), F.lit(0.0)))
        .first()
    )
    assert lost is not None
    return int(cast("float", lost[0]))


def _window_s(told: DataFrame) -> int:
    """So that plots have about `STEPS_DRAWN` steps."""
    ends = told.agg(F.min("first_wall_ns"), F.max("last_wall_ns")).first()
    if ends is None or ends[0] is None:
        return 1
    first_ns, last_ns = cast("tuple[int, int]", ends)
    return max(1, round((last_ns - first_ns) / 1e9 / STEPS_DRAWN))


def _words(row: dict[str, object]) -> str:
    other = f"; the other: {row['other']} at {row['other_consumer']}" if row["other"] is not None else ""
    return (
        f"{row['violation']}: message {row['message']} at {row['consumer']}, slot {row['slot']}, {row['topic']} "
        f"{row['subscription']}, gateway {row['gateway']}: {row['detail']}{other}"
    )
