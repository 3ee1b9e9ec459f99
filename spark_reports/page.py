"""The report as one HTML file that needs nothing else: tables, and plots as SVG in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from spark_reports.cells import CHANGE, CODES, cell, change, heading, is_moment, is_number, moment
from spark_reports.jobs import SECTIONS, Section
from spark_reports.plots import CAPTIONS, plot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from spark_reports.report import Report

    Results = Mapping[str, pa.Table]
    Whose = tuple[str, str]
    """A topic and a subscription."""

ROWS_MAX: Final = 50
"""Shown of a result; its Parquet file has all."""
NEVER_BROKEN: Final = ("violation", "other")
"""Columns of names that are to be read, and copied, in one piece."""
DRAWN_MAX: Final = 3
"""Subscriptions with plots: those with most messages."""
BUSIEST: Final = ("key_gini", "messages")
"""The result that tells, and its column."""


class Column(NamedTuple):
    """Of a table."""

    heading: str
    kind: str
    """Of its cells: `number`, `moment`, `code` or `text`."""


@dataclass(frozen=True, slots=True)
class Table:
    """A result as it is shown."""

    title: str
    columns: list[Column]
    rows: list[list[str]]
    count: int

    @property
    def left_out(self) -> int:
        """Rows that are not shown."""
        return self.count - len(self.rows)


def page(report: Report, results: Results) -> str:
    """The file's text; `results` are those of the jobs, `violations` and `runs`, by name."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string((files("spark_reports") / "page.html.j2").read_text())
    whose = _subscriptions(results)
    only = whose[0] if len(whose) == 1 else None
    drawn = _busiest(results)
    return template.render(
        report=report,
        heading=heading,
        only=only,
        period=_period(results["runs"]),
        sections=[_section(section, results, drawn, only) for section in SECTIONS],
        violations=_table("Violations", results["violations"], only),
        runs=_table("Runs", results["runs"], None),
    )


def _section(section: Section, results: Results, drawn: Sequence[Whose], only: Whose | None) -> dict[str, Any]:
    several = len(drawn) > 1
    figures = []
    for name in section.plots:
        rows = results[name].to_pylist()
        for topic, subscription in drawn:
            svg = plot(name, [row for row in rows if (row["topic"], row["subscription"]) == (topic, subscription)])
            if svg:
                whose = f"{topic} {subscription}: " if several else ""
                figures.append({"svg": Markup(svg), "caption": f"{whose}{CAPTIONS[name]}"})  # noqa: S704 - our own
    tables = [_table(job.title, results[job.name], only) for job in section.jobs if job.listed]
    return {
        "title": section.title,
        "text": section.text,
        "anchor": section.title.lower().replace(" ", "-"),
        "figures": figures,
        "tables": [table for table in tables if table.rows],
    }


def _table(title: str, result: pa.Table, only: Whose | None) -> Table:
    rows = result.slice(0, ROWS_MAX).to_pylist()
    said: set[str] = set() if only is None else {"topic", "subscription"}  # above, for all of the page
    if "wall_ns" in result.column_names:
        said.add("at_ns")  # the same moment by the gateway's own clock, which the Parquet files have
    names = [name for name in result.column_names if name not in said and not _says_nothing(name, result)]
    names = [name for name in names if not name.endswith(CHANGE)]
    columns = [Column(heading(name), _kind(name, rows)) for name in names]
    texts = [[cell(name, row[name]) + change(row.get(f"{name}{CHANGE}")) for name in names] for row in rows]
    return Table(title, columns, texts, result.num_rows)


def _kind(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    if name in CODES or name in NEVER_BROKEN:
        return "code"
    if is_moment(name):
        return "moment"
    return "number" if any(is_number(row[name]) for row in rows) else "text"


def _says_nothing(name: str, result: pa.Table) -> bool:
    """Whether no row has a value in it."""
    return result.num_rows > 0 and result.column(name).null_count == result.num_rows


def _subscriptions(results: Results) -> list[Whose]:
    """All that any result is about; a metric of the whole gateway is about none."""
    found = set()
    for result in results.values():
        if {"topic", "subscription"} <= set(result.column_names):
            found |= {
                (row["topic"], row["subscription"]) for row in result.select(["topic", "subscription"]).to_pylist()
            }
    return sorted(whose for whose in found if None not in whose)


def _busiest(results: Results) -> list[Whose]:
    """The subscriptions that are drawn."""
    name, column = BUSIEST
    sizes: Counter[Whose] = Counter()
    for row in results[name].to_pylist():
        sizes[row["topic"], row["subscription"]] += row[column]
    if not sizes:  # a journal without the record of messages
        for row in results["drain_timeline"].to_pylist():
            sizes[row["topic"], row["subscription"]] += 1
    return [whose for whose, _ in sizes.most_common(DRAWN_MAX)]


def _period(runs: pa.Table) -> str:
    rows = runs.to_pylist()
    if not rows:
        return "no rows"
    return f"{moment(min(row['first_wall_ns'] for row in rows))} to {moment(max(row['last_wall_ns'] for row in rows))}"
