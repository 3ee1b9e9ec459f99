"""A report for each day, computed only if its files have changed since the last time: daily runs, and late files.

A day's report is made of the files of that day and of an hour around it. Which these were is kept beside it, so that a
run that finds the same ones leaves it alone, and a file that came late makes its day (and at its edge the neighbour's)
again as a whole: a repeated run never adds anything twice.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, StrictUndefined

from proxy.journal.schema import METRICS
from spark_reports.coverage import written
from spark_reports.output import replacing
from spark_reports.place import JournalError, place_at
from spark_reports.reading import hour_of, list_files, open_journal
from spark_reports.run import NoWatcher, report_on
from spark_reports.service import with_before
from spark_reports.span import EVERYTHING, Span, day

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spark_reports.reading import Listed
    from spark_reports.run import Watcher

DAYS: Final = "days"
INPUTS: Final = "inputs.json"
"""Beside a day's report: which files it is made of."""
FORMAT: Final = 2
"""Of what lies there; reports of another one are made again."""
SAID: Final = ("violations", "unjudged", "is_idle", "line", "caveats", "judged")
"""What a day's `audit.json` has that is told."""

_LIST: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Keyline reports by day</title>
<style>:root { color-scheme: light dark; } td { padding: 2px 16px 2px 0; vertical-align: top; }
body { font: 14px/1.6 system-ui, sans-serif; margin: 24px; }
.broken { color: light-dark(#b3202a, #ff8088); font-weight: 600; }
.unjudged { color: light-dark(#8a5300, #e8a94a); }</style></head>
<body><h1>Keyline reports by day</h1><table>
{% for one in days %}<tr{% if one.violations %} class="broken"{% elif one.unjudged %} class="unjudged"{% endif %}>
<td><a href="days/{{ one.day }}/index.html">{{ one.day }}</a></td><td>{{ one.line }}</td><td>{{ one.judged }}</td></tr>
{% endfor %}</table></body></html>
"""


@dataclass(frozen=True, slots=True)
class DayReport:
    """One day's."""

    day: date
    made: bool
    """In this run; else it was there, of the same files."""
    violations: int
    unjudged: str | None
    is_idle: bool
    line: str
    caveats: list[str]
    judged: str


@dataclass(frozen=True, slots=True)
class Due:
    """A day that the journal has files of."""

    day: date
    out: Path
    """Where its report lies."""
    files: list[Listed]
    inputs: dict[str, Any]

    @property
    def is_made(self) -> bool:
        """Whether its report is there, of the same files."""
        return _read(self.out / INPUTS) == self.inputs


def days_of(root: str, out: Path, span: Span = EVERYTHING) -> list[Due]:
    """Every day of the journal that `span` touches.

    Raises:
        JournalError: there is nothing to report on.
    """
    listed = [(hour, file) for file in list_files(place_at(root)) if (hour := hour_of(file.path)) is not None]
    days = sorted({hour.date() for hour, _ in listed if _touches(span, hour.date())})
    if not days:
        raise JournalError(
            f"{root}: nothing was judged: no file of a journal in that time; "
            f"{written(file.path for _, file in listed)} below TABLE/date=.../hour=..."
        )
    return [_due(out / DAYS / f"{of}", of, [file for hour, file in listed if _is_for(hour, file, of)]) for of in days]


def daily(
    spark: SparkSession | None, root: str, out: Path, days: list[Due], watcher: Watcher | None = None
) -> list[DayReport]:
    """Bring the reports in `out/days/` up to date; without a day that has changed, Spark is not needed.

    `out/index.html` lists all that are there.

    Raises:
        JournalError: there is nothing to report on.
    """
    found = [_one(spark, root, due, watcher or NoWatcher()) for due in days]
    _list(out)
    return found


def _due(out: Path, of: date, files: list[Listed]) -> Due:
    return Due(of, out, files, {"format": FORMAT, "files": len(files), "digest": _digest(files)})


def _one(spark: SparkSession | None, root: str, due: Due, watcher: Watcher) -> DayReport:
    made = not due.is_made
    if made:
        wanted = {file.path for file in due.files}
        assert spark is not None
        report_on(spark, open_journal(root, wanted.__contains__), due.out, day(due.day), watcher)
        with replacing(due.out) as part:  # last: without it, all is made again
            (part / INPUTS).write_text(json.dumps(due.inputs) + "\n")
    said = _read(due.out / "audit.json")
    assert said is not None
    return DayReport(due.day, made, **{name: said[name] for name in SAID})


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


def _is_for(hour: datetime, file: Listed, of: date) -> bool:
    """Whether a day's report reads the file: an hour around it, of the metrics the day before."""
    around = with_before(day(of)) if file.table == METRICS.name else day(of).around
    assert around.since is not None
    assert around.until is not None
    return around.since <= hour < around.until


def _touches(span: Span, of: date) -> bool:
    whole = day(of)
    assert whole.since is not None
    assert whole.until is not None
    return (span.until is None or whole.since < span.until) and (span.since is None or whole.until > span.since)
