"""One report over a journal: reads it, judges it, writes what was found, and says it in a line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from spark_reports import drains
from spark_reports.ordering_audit import totals, violations
from spark_reports.reading import Skipped, open_journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

LOST_ROWS: Final = "keyline_gateway_journal_rows_dropped_total"
LOCAL_PARTITIONS: Final = 16
SHOWN_MAX: Final = 20
"""Violations that are shown in words; all are written."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found."""

    totals: dict[str, int]
    violations: int
    by_kind: dict[str, int]
    evidence: list[str]
    """Of the first ones, in words."""
    rows_lost: int
    """That gateways counted as lost: what they would have said nobody knows."""
    skipped: list[Skipped]

    @property
    def line(self) -> str:
        """The audit in a line."""
        counts = self.totals
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.by_kind.items()))
        return (
            f"audit: {counts['messages']:,} messages, {counts['deliveries']:,} deliveries, {counts['acked']:,} "
            f"acknowledged, {counts['keys']:,} keys, {counts['consumers']:,} workers, {counts['lives']:,} lives: "
            f"{self.violations:,} violations{f' ({kinds})' if kinds else ''}"
        )

    @property
    def caveats(self) -> list[str]:
        """Why it may not be the whole truth."""
        found = [f"not in the report: {item.file}: {item.reason}" for item in self.skipped]
        if self.rows_lost:
            found.append(f"the gateways lost {self.rows_lost:,} rows of their journals; what they said is not known")
        return found


def session(master: str) -> SparkSession:
    """Spark where it is told to be; times are shown in UTC."""
    builder = SparkSession.builder.appName("keyline report").master(master)
    if master.startswith("local"):
        # Spark's 200 are for clusters: on one machine most would be empty, and each costs a moment.
        builder = builder.config("spark.sql.shuffle.partitions", str(LOCAL_PARTITIONS))
    spark = builder.config("spark.sql.session.timeZone", "UTC").config("spark.ui.showConsoleProgress", "true")
    made: SparkSession = spark.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def report(
    spark: SparkSession,
    root: str,
    out: Path | None,
    since: datetime | None = None,
    until: datetime | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Judge the journal at `root`, and write what was found below `out`.

    These are replaced there: `violations`, `drains` and `worst_drains` (Parquet), and `audit.json`.

    Raises:
        JournalError: there is nothing to report on.
    """
    journal = open_journal(root)
    say(f"{sum(map(len, journal.files.values())):,} files, {len(journal.skipped):,} of them left out")
    deliveries = journal.between(spark, "deliveries", since, until)
    found = violations(deliveries, journal.read(spark, "events")).cache()
    counts = totals(deliveries).first()
    assert counts is not None
    by_kind = {row["violation"]: row["count"] for row in found.groupBy("violation").count().collect()}
    metrics = journal.between(spark, "metrics", since, until).where(F.col("name") == LOST_ROWS)
    lost = (
        metrics.groupBy("life", F.col("labels")["kind"]).agg(F.max("value").alias("value")).agg(F.sum("value")).first()
    )
    first = found.orderBy("violation", "at_ns", "message").limit(SHOWN_MAX).collect()
    result = Report(
        totals=counts.asDict(),
        violations=sum(by_kind.values()),
        by_kind=by_kind,
        evidence=[_words(row.asDict()) for row in first],
        rows_lost=int((lost[0] if lost is not None else 0) or 0),
        skipped=journal.skipped,
    )
    if out is not None:
        handed_over = journal.between(spark, "drains", since, until)
        tables = {
            "violations": found,
            "drains": drains.summary(handed_over),
            "worst_drains": drains.worst(handed_over, journal.read(spark, "events")),
        }
        for name, table in tables.items():
            table.write.mode("overwrite").parquet(str(out / name))
        out.mkdir(parents=True, exist_ok=True)
        (out / "audit.json").write_text(json.dumps({**asdict(result), "line": result.line}, indent=2) + "\n")
    return result


def _words(row: dict[str, object]) -> str:
    other = f"; the other: {row['other']} at {row['other_consumer']}" if row["other"] is not None else ""
    return (
        f"{row['violation']}: message {row['message']} at {row['consumer']}, slot {row['slot']}, {row['topic']} "
        f"{row['subscription']}, gateway {row['gateway']}: {row['detail']}{other}"
    )
