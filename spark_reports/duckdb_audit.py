"""The audit by DuckDB instead of Spark: for a journal that one machine can take, in a fraction of the time.

The questions are those of `ordering_audit`, as SQL; both engines give the same verdict and the same violations. What is
found is put into words here. Only the audit: the other jobs are Spark's.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import duckdb

from proxy.journal.schema import DELIVERIES, TABLES
from spark_reports import ordering_audit as audit
from spark_reports import policy_audit
from spark_reports.coverage import BEGAN, COUNTED, coverage
from spark_reports.gateway_runs import ODD_NS, odd
from spark_reports.holdings import ABSENCES, BEGINNINGS
from spark_reports.place import JournalError
from spark_reports.reading import hour_of
from spark_reports.report import LOST_ROWS, SHOWN_MAX, Report, verdict
from spark_reports.schemas import arrow_schema
from spark_reports.span import EVERYTHING, Span, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_reports.reading import Journal

EVER_NS: Final = (-(1 << 62), (1 << 63) - 1)
"""Wall times of a span without ends."""
PARTIES: Final = ("consumers", "lives", "gateways")
COLUMNS: Final = ("gateway", "life", *audit.KEY, "slot", "message", "consumer")
"""Of a violation, as the query has them."""
Row = dict[str, Any]


def report(journal: Journal, span: Span = EVERYTHING, threads: int | None = None) -> tuple[Report, list[Row]]:
    """Judge a journal of this machine, on so many threads, else on all cores; returns verdict and violations in order.

    Raises:
        JournalError: it is somewhere else, or DuckDB cannot read it.
    """
    if not journal.place.is_local:
        raise JournalError(f"{journal.place.root}: --engine duckdb reads directories of this machine; spark reads this")
    since_ns, until_ns = _ends(span)
    try:
        config: dict[str, Any] = {"temp_directory": tempfile.gettempdir()}
        if threads is not None:
            config["threads"] = threads
        with duckdb.connect(config=config) as connection:
            _open(connection, journal, span)
            facts = {"began": BEGAN, "counted": COUNTED, "lost": LOST_ROWS, "odd_ns": ODD_NS}
            ends = {"since_ns": since_ns, "until_ns": until_ns, "killed": sorted(journal.killed)}
            told = _ask(connection, "runs.sql", facts | ends)
            sums, found = judge(connection, span)
            found = in_order(found + policy_audit.by_duckdb(connection, span))
    except duckdb.Error as error:
        raise JournalError(f"{journal.place.root}: {str(error).splitlines()[0]}") from error
    runs = told["runs"] or []
    counts = [(one["counted"], one["sent_then"]) for one in told["counts"] or []]
    result = verdict(
        journal,
        span,
        totals=sums | {name: told[name] for name in PARTIES},
        by_kind=dict(Counter(row["violation"] for row in found)),
        shown=found[:SHOWN_MAX],
        rows_lost=told["rows_lost"],
        odd_runs=odd(runs),
        coverage=coverage(journal, span, runs, counts),
    )
    return result, found


def judge(connection: duckdb.DuckDBPyConnection, span: Span = EVERYTHING) -> tuple[dict[str, int], list[Row]]:
    """What `ordering_audit.totals` and `violations` give, of the views `deliveries` and `events`; in order."""
    since_ns, until_ns = _ends(span)
    around_since_ns, around_until_ns = _ends(span.around)
    parameters = {
        "since_ns": since_ns,
        "until_ns": until_ns,
        "around_since_ns": around_since_ns,
        "around_until_ns": around_until_ns,
        "beginnings": list(BEGINNINGS),
        "absences": list(ABSENCES),
    }
    judged = _ask(connection, "audit.sql", parameters)
    rows = (row for one in judged["found"] or [] for row in _violations(one))
    found = [row for row in rows if since_ns <= row["wall_ns"] < until_ns]
    return {name: judged[name] for name in audit.SUMS}, in_order(found)


def in_order(found: list[Row]) -> list[Row]:
    """Violations as reports have them."""
    return sorted(found, key=lambda row: (row["violation"], row["wall_ns"], row["message"]))


def _ends(span: Span) -> tuple[int, int]:
    first, last = EVER_NS
    return (
        first if span.since is None else nanoseconds(span.since),
        last if span.until is None else nanoseconds(span.until),
    )


def _open(connection: duckdb.DuckDBPyConnection, journal: Journal, span: Span) -> None:
    """Views of all tables; of deliveries only the files that may have rows around the span."""
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


def _ask(connection: duckdb.DuckDBPyConnection, name: str, parameters: dict[str, Any]) -> Row:
    answer = connection.execute((files("spark_reports") / name).read_text(), parameters)
    (row,) = answer.fetchall()  # to the end, or the connection takes nothing else
    assert answer.description is not None
    return dict(zip([column[0] for column in answer.description], row, strict=True))


def _violations(row: Row) -> Iterator[Row]:
    """Of one delivery, as `ordering_audit.VIOLATIONS` has them."""
    held, ahead = row["held"] or {}, row["ahead"] or {}
    early_us = (held.get("until_ns", 0) - (row["sent_ns"] or 0)) // 1_000
    early = audit.UNENDED if held.get("until_ns") == audit.NEVER else audit.EARLY % divmod(early_us, 1_000)
    before = audit.BEFORE + (row["before_how"] or audit.NOT_ENDED)
    told = {
        "overlap": (row["sent_ns"], held.get("message"), held.get("consumer"), early),
        "inversion": (row["sent_ns"], ahead.get("message"), ahead.get("consumer"), audit.BEHIND),
        "never_acked": (row["sent_ns"], None, None, audit.PASSED_OVER),
        "never_delivered": (row["ended_ns"], None, None, audit.NEVER_SENT),
        "repeated": (row["sent_ns"], row["message"], row["before_consumer"], before),
    }
    for violation, (at_ns, other, other_consumer, detail) in told.items():
        if row[violation]:
            values = {name: row[name] for name in COLUMNS} | {
                "violation": violation,
                "at_ns": at_ns,
                "wall_ns": at_ns + row["ahead_ns"],
                "other": other,
                "other_consumer": other_consumer,
                "detail": detail,
            }
            yield {name: values[name] for name in audit.VIOLATIONS}
