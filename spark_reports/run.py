"""One report over a journal: reads it, judges it, runs the jobs, writes what was found, and says it in a line."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession

from proxy.journal.schema import DELIVERIES, METRICS, TABLES
from spark_reports import class_archive, policy_audit, service
from spark_reports.asking import of_spark
from spark_reports.coverage import written
from spark_reports.gateway_runs import TABLE as RUNS
from spark_reports.jobs import Tables, all_jobs
from spark_reports.looking import look, looking
from spark_reports.ordering_audit import judge, totals, violations
from spark_reports.output import replacing
from spark_reports.page import page
from spark_reports.place import JournalError
from spark_reports.reading import SMALL_BYTES, Journal, hour_of, open_journal
from spark_reports.report import SHOWN_MAX, Report, verdict
from spark_reports.span import EVERYTHING, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from spark_reports.asking import Ask
    from spark_reports.looking import Looked

LOCAL_PARTITIONS: Final = 16
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
    # Else each call of a function on a column looks at Python's stack and at Java's, for the words of an error.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
}
"""Where Spark is of this process alone."""
JAVA: Final = "spark.driver.extraJavaOptions"
SMALL: Final = {
    # Compiling a query, and then compiling that well, takes longer than few rows do without.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    # Rows are together from the start (`Journal.read`), so there is nothing to plan again between two stages.
    "spark.sql.adaptive.enabled": "false",
    # The young generation has room for what one report makes, and classes for theirs: so little is collected.
    JAVA: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn512m -XX:MetaspaceSize=256m",
}
LARGE: Final = {
    # Spark's generated methods are large. Java puts into each what it calls, and compiles most of it many times over:
    # that took more processor time than judging. What only smaller methods are put into is compiled in two thirds.
    JAVA: "-XX:+UseParallelGC -XX:MetaspaceSize=256m -XX:FreqInlineSize=100",
    # Less is sorted at once, so less memory is needed. Spark's 64 MiB are for a cluster's network.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "20m",
}
SEARCHED_FIRST: Final = (
    "scala-library-",
    "spark-catalyst_",
    "spark-sql_",
    "spark-core_",
    "spark-sql-api_",
    "spark-common-utils_",
)
"""Of Spark's jars, those with most classes: Java looks for each of some 20,000 in one after the other of 280."""
HEAP_BYTES: Final = (1 << 30, 8 << 30)
"""Least and most of this process's heap, else a quarter of the machine's memory: Spark's 1 GiB is collected often."""
AT_ONCE: Final = 2
"""The audit and jobs that run beside each other: while one is prepared, on one core, another computes."""
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


def session(
    master: str | None, settings: Mapping[str, str] = NO_SETTINGS, size_bytes: int | None = None
) -> SparkSession:
    """Spark where it is told to be: by `master`, else by `spark-submit`, else here. Times are shown in UTC.

    `settings` are Spark's own, by their names; they win. Here it is made for a journal of `size_bytes`, if given.
    """
    builder = SparkSession.builder.appName("keyline report")
    is_here = _is_here(master)
    if is_here or master is not None:
        builder = builder.master(master or "local[*]")
    here = HERE | _class_path() | _settings_here(size_bytes) if is_here else {}
    for name, value in {**SETTINGS, **here, **settings}.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def _is_here(master: str | None) -> bool:
    """Whether Spark is this process alone."""
    return SUBMITTED not in os.environ if master is None else master.startswith("local")


def _settings_here(size_bytes: int | None) -> dict[str, str]:
    """For a journal of this size."""
    if size_bytes is not None and size_bytes <= SMALL_BYTES:
        return SMALL | {JAVA: SMALL[JAVA] + class_archive.options("small")}
    least, most = HEAP_BYTES
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    heap = max(least, min(most, memory_bytes // 4))
    return LARGE | {JAVA: LARGE[JAVA] + class_archive.options("large"), "spark.driver.memory": f"{heap >> 20}m"}


def _class_path() -> dict[str, str]:
    """Let Java look into some jars before all others, which it has in any case."""
    jars = Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0]) / "jars"
    found = [str(jar) for name in SEARCHED_FIRST for jar in sorted(jars.glob(f"{name}*.jar"))]
    return {"spark.driver.extraClassPath": os.pathsep.join(found)} if found else {}


def report(
    spark: SparkSession, root: str, out: Path | None, span: Span = EVERYTHING, watcher: Watcher | None = None
) -> Report:
    """Judge the journal at `root`; with `out`, run all jobs too and write everything there.

    What is replaced there: `index.html`, `audit.json`, and `tables/` with a Parquet file of each result.

    Raises:
        JournalError: there is nothing to report on.
    """
    return report_on(spark, opened(root, span), out, span, watcher or NoWatcher())


def beforehand(journal: Journal, span: Span, master: str | None) -> AbstractContextManager[Future[Looked] | None]:
    """The look at a journal that needs no Spark, begun: where both are on this machine; else None."""
    return looking(journal, span) if journal.place.is_local and _is_here(master) else nullcontext()


def opened(root: str, span: Span = EVERYTHING) -> Journal:
    """The journal, if it has a file of the time.

    Raises:
        JournalError: there is nothing to report on.
    """
    journal = open_journal(root)
    files = [file for found in journal.files.values() for file in found]
    hours = [hour for file in files if (hour := hour_of(file)) is not None]
    if hours and not any(map(span.touches, hours)):
        raise JournalError(
            f"{root}: nothing was judged: no file is of that time; {written(files)}, so --from and --to should be in "
            "there"
        )
    return journal


def report_on(
    spark: SparkSession,
    journal: Journal,
    out: Path | None,
    span: Span,
    watcher: Watcher,
    begun: Future[Looked] | None = None,
) -> Report:
    """The same for a journal that is open already; a look at it may have `begun`."""
    master = spark.sparkContext.master
    with nullcontext(begun) if begun else beforehand(journal, span, master) as look_begun:
        return _report_on(spark, journal, out, span, watcher, look_begun)


def _report_on(
    spark: SparkSession, journal: Journal, out: Path | None, span: Span, watcher: Watcher, begun: Future[Looked] | None
) -> Report:
    pool = ThreadPoolExecutor(AT_ONCE, "job")
    rows = {name: journal.read(spark, name) for name in TABLES}
    ask = of_spark(spark, rows | {DELIVERIES.name: span.around.cut(rows[DELIVERIES.name])})
    looked = begun or pool.submit(look, ask, span, journal.killed)
    jobs = {} if out is None else _jobs(rows, journal, span, looked)
    watcher.began("audit", 1, len(jobs) + 1)
    try:
        judged = pool.submit(_audit, ask, rows[DELIVERIES.name], journal, span, looked)
        found = pool.map(lambda build: build().toArrow(), jobs.values())
        result, violations_found = judged.result()
        results = {"violations": violations_found, "runs": pa.Table.from_pylist(looked.result().runs, RUNS)}
        for number, name in enumerate(jobs, 2):
            watcher.began(name, number, len(jobs) + 1)
            results[name] = next(found)
    except BaseException:
        spark.sparkContext.cancelAllJobs()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    if out is not None:
        with replacing(out) as part:
            write(part, result, results)
    return result


def _jobs(
    rows: dict[str, DataFrame], journal: Journal, span: Span, looked: Future[Looked]
) -> dict[str, Callable[[], DataFrame]]:
    """What is found besides the audit, by name; some of it waits until the gateways' runs are known."""
    tables = Tables(
        **{name: span.cut(table) for name, table in rows.items()},
        metrics_and_before=service.with_before(span).cut(rows[METRICS.name]),
        span=span,
        window_s=lambda: _window_s(looked.result().runs),
        is_small=journal.is_small,
    )
    return {job.name: partial(job.build, tables) for job in all_jobs()}


def write(directory: Path, result: Report, results: dict[str, pa.Table]) -> None:
    """Everything that was found."""
    (directory / "tables").mkdir()
    for name, table in results.items():
        pq.write_table(table, directory / "tables" / f"{name}.parquet")
    said = asdict(result) | {
        "line": result.line,
        "caveats": result.caveats,
        "judged": result.coverage.words,
        "coverage": result.coverage.facts,
        "is_idle": result.is_idle,
    }
    (directory / "audit.json").write_text(json.dumps(said, indent=2) + "\n")
    (directory / "index.html").write_text(page(result, results))


def _audit(
    ask: Ask, deliveries: DataFrame, journal: Journal, span: Span, begun: Future[Looked]
) -> tuple[Report, pa.Table]:
    """The verdict and all violations."""
    looked = begun.result()
    judged = judge(span.around.cut(deliveries), looked.parties, looked.told, span).cache()
    of_contract = violations(judged).toArrow()
    of_policies = pa.Table.from_pylist(policy_audit.judge(ask, looked.told, span), of_contract.schema)
    every = pa.concat_tables([of_contract, of_policies])
    found = every.sort_by([(name, "ascending") for name in ("violation", "wall_ns", "message")])
    sums = totals(judged).first()
    assert sums is not None
    result = verdict(
        journal,
        span,
        looked,
        sums=sums.asDict(),
        by_kind=dict(Counter(map(str, found.column("violation").to_pylist()))),
        shown=found.slice(0, SHOWN_MAX).to_pylist(),
    )
    return result, found


def _window_s(runs: list[dict[str, Any]]) -> int:
    """So that plots have about `STEPS_DRAWN` steps."""
    first_ns = min((run["first_wall_ns"] for run in runs), default=0)
    last_ns = max((run["last_wall_ns"] for run in runs), default=0)
    return max(1, round((last_ns - first_ns) / 1e9 / STEPS_DRAWN))
