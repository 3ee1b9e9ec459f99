"""A report for each day, computed only if its files have changed since the last time: daily runs, and late files.

A day's report is made of the files of that day and of an hour around it. Which these were is kept beside it, so that a
run that finds the same ones leaves it alone, and a file that came late makes its day (and at its edge the neighbour's)
again as a whole: a repeated run never adds anything twice.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, StrictUndefined

from spark_reports.output import replacing
from spark_reports.place import JournalError, place_at
from spark_reports.reading import list_files, open_journal
from spark_reports.run import NoWatcher, report_on
from spark_reports.span import EVERYTHING, Span, day

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spark_reports.reading import Listed
    from spark_reports.run import Watcher

DAYS: Final = "days"
INPUTS: Final = "inputs.json"
"""Beside a day's report: which files it is made of."""
_PLACE: Final = re.compile(r"/date=(\d{4}-\d{2}-\d{2})/hour=(\d{2})/")

_LIST: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Keyline reports by day</title>
<style>body { font: 14px/1.6 system-ui, sans-serif; margin: 24px; color: #1a1c1f; } td { padding: 2px 16px 2px 0; }
.broken { color: #b3202a; font-weight: 600; }</style></head>
<body><h1>Keyline reports by day</h1><table>
{% for one in days %}<tr{% if one.violations %} class="broken"{% endif %}>
<td><a href="days/{{ one.day }}/index.html">{{ one.day }}</a></td><td>{{ one.line }}</td></tr>
{% endfor %}</table></body></html>
"""


@dataclass(frozen=True, slots=True)
class DayReport:
    """One day's."""

    day: date
    made: bool
    """In this run; else it was there, of the same files."""
    violations: int
    line: str
    caveats: list[str]


def daily(
    spark: SparkSession, root: str, out: Path, span: Span = EVERYTHING, watcher: Watcher | None = None
) -> list[DayReport]:
    """Bring the reports in `out/days/` up to date, for every day of the journal that `span` touches.

    `out/index.html` lists all that are there.

    Raises:
        JournalError: there is nothing to report on.
    """
    listed = [(hour, file) for file in list_files(place_at(root)) if (hour := _hour_of(file)) is not None]
    days = sorted({hour.date() for hour, _ in listed if _touches(span, hour.date())})
    if not days:
        raise JournalError(
            f"{root}: no file of a journal in that time; there should be some below TABLE/date=.../hour=..."
        )
    found = []
    for of in days:
        files = [file for hour, file in listed if _is_around(hour, of)]
        found.append(_one(spark, root, out / DAYS / f"{of}", of, files, watcher or NoWatcher()))
    _list(out)
    return found


def _one(spark: SparkSession, root: str, out: Path, of: date, files: list[Listed], watcher: Watcher) -> DayReport:
    inputs = {"files": len(files), "digest": _digest(files)}
    before = _read(out / INPUTS)
    if before != inputs:
        wanted = {file.path for file in files}
        report_on(spark, open_journal(root, wanted.__contains__), out, day(of), watcher)
        with replacing(out) as part:  # last: without it, all is made again
            (part / INPUTS).write_text(json.dumps(inputs) + "\n")
    said = _read(out / "audit.json")
    assert said is not None
    return DayReport(of, before != inputs, said["violations"], said["line"], said["caveats"])


def _list(out: Path) -> None:
    days = [
        {"day": path.name, **said} for path in sorted((out / DAYS).iterdir()) if (said := _read(path / "audit.json"))
    ]
    text = Environment(autoescape=True, undefined=StrictUndefined).from_string(_LIST).render(days=days)
    with replacing(out) as part:
        (part / "index.html").write_text(text)


def _digest(files: list[Listed]) -> str:
    names = sorted(f"{file.path} {file.size_bytes}" for file in files)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found


def _hour_of(file: Listed) -> datetime | None:
    found = _PLACE.search(file.path)
    return None if found is None else datetime.fromisoformat(f"{found[1]}T{found[2]}:00").replace(tzinfo=UTC)


def _is_around(hour: datetime, of: date) -> bool:
    around = day(of).around
    assert around.since is not None
    assert around.until is not None
    return around.since <= hour < around.until


def _touches(span: Span, of: date) -> bool:
    whole = day(of)
    assert whole.since is not None
    assert whole.until is not None
    return (span.until is None or whole.since < span.until) and (span.since is None or whole.until > span.since)
