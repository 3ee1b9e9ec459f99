"""A look at a journal before it is judged: who took part, what gateways counted themselves, and what they told.

Few rows, made of few columns of all rows. Where journal and Spark are on this machine DuckDB looks: it has done so
before Spark has begun, which would spend more time on preparing each question than on its answer.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from proxy.journal.schema import DELIVERIES, TABLES
from spark_reports import asking, policy_audit
from spark_reports.columns import RUN
from spark_reports.gateway_runs import runs
from spark_reports.place import JournalError, first_line
from spark_reports.reading import hour_of
from spark_reports.schemas import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from spark_reports.asking import Ask, Row
    from spark_reports.reading import Journal
    from spark_reports.span import Span

_COUNTED: Final = pa.schema(
    dict.fromkeys(RUN, pa.string()) | dict.fromkeys(("counted", "since_ns", "until_ns"), pa.int64())
)


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen."""

    parties: list[Row]
    """Who took part in the span or around it: what `holdings.numbered` needs."""
    runs: list[Row]
    """What `gateway_runs.runs` gives."""
    counts: list[tuple[int, int]]
    """For each run and subscription, how many deliveries its gateway counted, and how many of these are there."""
    totals: dict[str, int]
    """How many `consumers`, `lives` and `gateways` have rows in the span."""
    rows_lost: int
    """That gateways counted."""
    told: list[Row]
    """Events of the kinds that an audit needs."""


def look(ask: Ask, span: Span, killed: Collection[str] = ()) -> Looked:
    """Ask for all of it; `killed` are runs of which it is known."""
    ends = span.ends_ns
    counted = ask("counted", ends)
    parties = ask("present", ends, {"counted": pa.Table.from_pylist(counted, _COUNTED)})
    present = [row for row in parties if row["rows"]]
    sent: Counter[tuple[str, ...]] = Counter()
    for row in present:
        sent[_run(row)] += row["sent_then"]
    return Looked(
        parties=parties,
        runs=runs([*present, *ask("others", ends)], killed),
        counts=[(row["counted"], sent[_run(row)]) for row in counted],
        totals={
            "consumers": len({(row["topic"], row["subscription"], row["consumer"]) for row in present}),
            "lives": len({row["life"] for row in present}),
            "gateways": len({row["gateway"] for row in present}),
        },
        rows_lost=ask("lost", ends)[0]["rows_lost"],
        told=policy_audit.told(ask),
    )


def _run(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in RUN)


@contextmanager
def looking(journal: Journal, span: Span) -> Iterator[Future[Looked]]:
    """Look at a journal of this machine by DuckDB, beside what the block does; at its end, no longer."""
    with connected(journal, span) as connection, ThreadPoolExecutor(1, "look") as pool:
        try:
            yield pool.submit(look, asking.of_duckdb(connection), span, journal.killed)
        finally:
            connection.interrupt()


@contextmanager
def connected(journal: Journal, span: Span, **settings: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with all tables; of deliveries only the files that may have rows around the span.

    Raises:
        JournalError: DuckDB cannot read them.
    """
    try:
        with duckdb.connect(config={"temp_directory": tempfile.gettempdir(), **settings}) as connection:
            for name, table in TABLES.items():
                found = journal.files.get(name, [])
                if name == DELIVERIES.name:
                    found = [file for file in found if (hour := hour_of(file)) is None or span.around.touches(hour)]
                connection.register(f"empty_{name}", arrow_schema(table).empty_table())
                source = f"FROM empty_{name}"
                if found:
                    paths = ", ".join("'" + file.replace("'", "''") + "'" for file in found)
                    options = "hive_partitioning = true, hive_types_autocast = false, union_by_name = true"
                    source += f" UNION ALL BY NAME FROM read_parquet([{paths}], {options})"
                connection.execute(f"CREATE VIEW {name} AS {source}")
            yield connection
    except duckdb.Error as error:
        raise JournalError(f"{journal.place.root}: {first_line(error)}") from error
