"""The audit and the hand-overs while the journal grows, by Structured Streaming: an early word, window by window.

Files are taken as they are published. A window of the wall clock is judged once, when the *watermark* has passed it:
when rows `delay` later than its end have come, which has to be longer than a gateway takes to publish a file
(`journal_roll_s`). Rows that come later still are left out, and counted.

Each window's rows are judged by the audit itself, as a span is. What it cannot see is what lies across windows: a
message that was held for longer than a window while another worker got its key and finished, an order that was broken
between two windows, a repetition in another window. `ordering_audit` over the whole record sees that.

Output is exact: a batch's results replace those of an earlier batch with this number, so that a run that was killed
and begins again from its checkpoint writes everything once.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from proxy.journal.schema import DELIVERIES, DRAINS, EVENTS
from spark_reports.holdings import ABSENCES, BEGINNINGS, parties_of
from spark_reports.ordering_audit import judge, violations
from spark_reports.output import replacing
from spark_reports.place import JournalError, place_at
from spark_reports.reading import files_of
from spark_reports.schemas import spark_schema
from spark_reports.span import Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from proxy.journal.schema import Table
    from spark_reports.place import Place

KEY: Final = ("topic", "subscription", "key_digest")
NOT_CARRIED: Final = frozenset({*KEY, "key", "date", "hour"})
"""Columns that a row in a window does not need once more, or not at all."""
BATCH: Final = "batch={:08d}"
CHECKPOINTS: Final = "checkpoints"


@dataclass(frozen=True, slots=True)
class Pace:
    """How windows are cut."""

    window_s: int = 60
    delay_s: int = 600
    every_s: float = 5.0
    """Between two looks for new files."""
    files_max: int = 1_000
    """Taken at a time, which bounds what is held."""

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be."""
        for name in ("window_s", "delay_s", "every_s", "files_max"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, and should be above 0")


class Live:
    """Two queries over one journal, which write below `out` until they are stopped."""

    def __init__(
        self, spark: SparkSession, root: str, out: Path, pace: Pace, say: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        """Start them; `say` is told of each window that was judged: a row of `live/audit`, and `late_rows` so far."""
        self._spark, self._place, self._out, self._pace = spark, place_at(root), out, pace
        self._say = say or (lambda _: None)
        self._late: dict[tuple[str | None, int], int] = {}
        self.queries: list[StreamingQuery] = []
        for start in (self._audit, self._drains):  # one may have something to say before the other is there
            self.queries.append(start())

    def late_rows(self) -> int:
        """Rows that came after their window was judged, in this run."""
        for query in self.queries:
            for progress in query.recentProgress:
                batch = query.name, progress["batchId"]
                dropped = sum(operator["numRowsDroppedByWatermark"] for operator in progress["stateOperators"])
                self._late[batch] = max(dropped, self._late.get(batch, 0))
        return sum(self._late.values())

    def run(self, until_idle: bool = False) -> None:  # noqa: FBT001, FBT002 - the two ways there are
        """Go on until a query fails, which is raised; or until all files that are there were taken.

        Raises:
            JournalError: a file cannot be read; the text says which.
        """
        try:
            if until_idle:
                for query in self.queries:
                    query.processAllAvailable()
            else:
                self._any_ended().result()
        except StreamingQueryException as error:
            self.stop()
            raise JournalError(f"{self._place.root}: {_cause(error)}") from error

    def stop(self) -> None:
        """End; what was not judged yet is when it begins again."""
        for query in self.queries:
            query.stop()

    def _any_ended(self) -> Future[None]:
        """The end of the first query that ends, waited for in a thread of its own.

        A signal interrupts the main thread. In the midst of a call to the JVM it would leave its connection there
        with an answer under way, and `stop` would take that answer for its own.
        """
        ended: Future[None] = Future()

        def wait() -> None:
            try:
                self._spark.streams.awaitAnyTermination()
            except Exception as error:  # noqa: BLE001 - `result` raises it
                ended.set_exception(error)
            else:
                ended.set_result(None)

        Thread(target=wait, name="first-query-to-end", daemon=True).start()
        return ended

    def _audit(self) -> StreamingQuery:
        rows = self._stream(DELIVERIES)
        carried = [name for name in rows.columns if name not in NOT_CARRIED and name != "wall"]
        of_key = rows.groupBy(self._window(), *KEY).agg(F.collect_list(F.struct(*carried)).alias("rows"))
        return self._start("audit", of_key, self._judge)

    def _drains(self) -> StreamingQuery:
        of_window = (
            self._stream(DRAINS)
            .groupBy(self._window(), "topic", "subscription")
            .agg(
                F.count(F.lit(1)).alias("hand_overs"),
                (F.sum("duration_ns") / 1e6).alias("total_ms"),
                (F.max("duration_ns") / 1e6).alias("max_ms"),
                F.count(F.when(F.col("waiting_messages") > 0, 1)).alias("waited"),
            )
        )
        return self._start("drains", of_window, self._keep_drains)

    def _stream(self, table: Table) -> DataFrame:
        self._place.make(table.name)  # Spark wants it to be there; the gateway makes it later
        place = self._place.table(table.name)
        reader = self._spark.readStream.schema(spark_schema(table)).option("basePath", place)
        rows = reader.option("maxFilesPerTrigger", self._pace.files_max).parquet(place)
        wall = (F.col("wall_ns") / 1e9).cast("timestamp")
        return rows.withColumn("wall", wall).withWatermark("wall", f"{self._pace.delay_s} seconds")

    def _window(self) -> Any:
        return F.window("wall", f"{self._pace.window_s} seconds").alias("window")

    def _start(self, name: str, rows: DataFrame, take: Callable[[DataFrame, int], None]) -> StreamingQuery:
        return (
            rows.writeStream.queryName(name)
            .outputMode("append")
            .option("checkpointLocation", str(self._out / CHECKPOINTS / name))
            .trigger(processingTime=f"{self._pace.every_s} seconds")
            .foreachBatch(take)
            .start()
        )

    def _judge(self, of_keys: DataFrame, number: int) -> None:
        whole = of_keys.persist()
        begins = sorted(row[0] for row in whole.select(F.unix_seconds("window.start")).distinct().collect())
        told = [row.asDict() for row in _events(self._spark, self._place).collect()]
        counted: list[dict[str, Any]] = []
        found: list[pa.Table] = []
        for begin in begins:
            of_window = whole.where(F.unix_seconds("window.start") == begin)
            rows = of_window.select(*KEY, F.explode("rows").alias("row")).select(*KEY, "row.*")
            since = datetime.fromtimestamp(begin, UTC)
            until = since + timedelta(seconds=self._pace.window_s)
            found.append(violations(judge(rows, parties_of(rows), told, Edge(since, until))).toArrow())
            counts = rows.agg(*_counts()).first()
            assert counts is not None
            start_ns = begin * 1_000_000_000
            counted.append({"window_start_ns": start_ns, **counts.asDict(), "violations": found[-1].num_rows})
        whole.unpersist()
        self._write("audit", number, pa.Table.from_pylist(counted))
        if found:
            self._write("violations", number, pa.concat_tables(found))
        for row in counted:
            self._say({**row, "late_rows": self.late_rows()})

    def _keep_drains(self, rows: DataFrame, number: int) -> None:
        start = (F.unix_seconds("window.start") * 1_000_000_000).alias("window_start_ns")
        self._write(
            "drains", number, rows.select(start, *[name for name in rows.columns if name != "window"]).toArrow()
        )

    def _write(self, name: str, number: int, table: pa.Table) -> None:
        if not table.num_rows:
            return
        with replacing(self._out / "live" / name) as part:
            directory = part / BATCH.format(number)
            directory.mkdir()
            pq.write_table(table, directory / "rows.parquet")


class Edge(Span):
    """A window's span: nothing around it is there."""

    @property
    def around(self) -> Span:
        """Itself."""
        return self


def _cause(error: StreamingQueryException) -> str:
    """The first line that says something: Spark's texts go on with plans and stacks."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if ".parquet" in line), lines[0])


def _counts() -> list[Column]:
    """Of a window: rows by what they tell, and keys."""
    kinds = [
        F.count(F.when(F.col("event") == kind, 1)).alias(kind) for kind in ("sent", "acked", "returned", "dropped")
    ]
    return [*kinds, F.count_distinct(*KEY).alias("keys")]


def _events(spark: SparkSession, place: Place) -> DataFrame:
    """What there is by now; a subscription's beginnings matter to the audit."""
    schema = spark_schema(EVENTS)
    if not any(files_of(place, EVENTS.name)):
        return spark.createDataFrame([], schema)
    there = place.table(EVENTS.name)
    rows = spark.read.schema(schema).option("basePath", there).option("recursiveFileLookup", "false").parquet(there)
    return rows.where(F.col("kind").isin(*BEGINNINGS, *ABSENCES))
