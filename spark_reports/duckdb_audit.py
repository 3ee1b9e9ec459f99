"""The audit by DuckDB instead of Spark: for a journal that one machine can take, in a fraction of the time.

The questions are those of `ordering_audit`, as SQL; both engines give the same verdict and the same violations. What is
found is put into words here. Only the audit: the other jobs are Spark's.
"""

from __future__ import annotations

from collections import Counter
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from spark_reports import asking, policy_audit
from spark_reports import ordering_audit as audit
from spark_reports.holdings import ABSENCES, BEGINNINGS
from spark_reports.looking import connected, look
from spark_reports.place import JournalError
from spark_reports.report import SHOWN_MAX, Report, verdict
from spark_reports.span import EVERYTHING, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from spark_reports.asking import Row
    from spark_reports.reading import Journal

COLUMNS: Final = ("gateway", "life", *audit.KEY, "slot", "message", "consumer")
"""Of a violation, as the query has them."""


def report(journal: Journal, span: Span = EVERYTHING, threads: int | None = None) -> tuple[Report, list[Row]]:
    """Judge a journal of this machine, on so many threads, else on all cores; returns verdict and violations in order.

    Raises:
        JournalError: it is somewhere else, or DuckDB cannot read it.
    """
    if not journal.place.is_local:
        raise JournalError(f"{journal.place.root}: --engine duckdb reads directories of this machine; spark reads this")
    settings = {} if threads is None else {"threads": threads}
    with connected(journal, span, **settings) as connection:
        ask = asking.of_duckdb(connection)
        looked = look(ask, span, journal.killed)
        sums, found = judge(connection, span)
        found = in_order(found + policy_audit.judge(ask, looked.told, span))
    result = verdict(
        journal,
        span,
        looked,
        sums=sums,
        by_kind=dict(Counter(row["violation"] for row in found)),
        shown=found[:SHOWN_MAX],
    )
    return result, found


def judge(connection: duckdb.DuckDBPyConnection, span: Span = EVERYTHING) -> tuple[dict[str, int], list[Row]]:
    """What `ordering_audit.totals` and `violations` give, of the views `deliveries` and `events`; in order."""
    ends = span.ends_ns
    answer = connection.execute(
        (files("spark_reports") / "audit.sql").read_text(),
        ends | {"beginnings": list(BEGINNINGS), "absences": list(ABSENCES)},
    )
    (row,) = answer.fetchall()  # to the end, or the connection takes nothing else
    assert answer.description is not None
    judged = dict(zip([column[0] for column in answer.description], row, strict=True))
    rows = (row for one in judged["found"] or [] for row in _violations(one))
    found = [row for row in rows if ends["since_ns"] <= row["wall_ns"] < ends["until_ns"]]
    return {name: judged[name] for name in audit.SUMS}, in_order(found)


def in_order(found: list[Row]) -> list[Row]:
    """Violations as reports have them."""
    return sorted(found, key=lambda row: (row["violation"], row["wall_ns"], row["message"]))


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
