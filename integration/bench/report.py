"""The table: one row a question, the direct broker and the gateway side by side.

Several repetitions stand behind most values. A row shows their median and, in brackets, the lowest and the highest (of
eight and more the middle half), since on a small machine the spread says how much a median is worth. Comparisons are
made pair by pair, each gateway repetition with the direct one just before it, so that slow minutes of the machine fall
on both.
"""

from __future__ import annotations

import dataclasses
import io
import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS: Final = ("measured", "unit", "direct", "Pulsar's proxy", "gateway", "compared", "target")
MANY: Final = 8
THOUSAND: Final = 1_000
HUNDRED: Final = 100
TEN: Final = 10


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one thing."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Sum them up; there must be one at least. Of many, the middle half stands for the spread."""
        ordered = sorted(values)
        skipped = len(ordered) // 4 if len(ordered) >= MANY else 0
        return cls(statistics.median(ordered), ordered[skipped], ordered[-1 - skipped], len(ordered))

    def __str__(self) -> str:
        """Median, and the extremes if there is more than one value."""
        if self.count == 1:
            return figure(self.median)
        return f"{figure(self.median)} ({figure(self.low)} - {figure(self.high)})"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    section: str
    measured: str
    unit: str
    direct: Spread | None = None
    proxy: Spread | None = None
    """Through Pulsar's own, which is in Java."""
    gateway: Spread | None = None
    compared: str = ""
    target: str = ""
    met: bool | None = None
    """Whether the median reached the target; None where there is none."""
    repetitions: list[dict[str, Any]] = field(default_factory=list)
    """What is behind the row, for the JSON file."""

    def with_ratio(self, direct: Sequence[float], gateway: Sequence[float], least: float | None = None) -> Row:
        """Compare as direct / gateway: above 1 the gateway took less."""
        ratio = Spread.of(first / second for first, second in zip(direct, gateway, strict=True))
        if least is None:
            return dataclasses.replace(self, compared=f"ratio {ratio}")
        reached = ratio.median >= least
        return dataclasses.replace(self, compared=f"ratio {ratio}", target=f"ratio >= {least}", met=reached)

    def with_added(self, added: Spread, most: float | None = None) -> Row:
        """Compare as gateway - direct."""
        compared = f"added {added}"
        if most is None:
            return dataclasses.replace(self, compared=compared)
        target = f"added <= {most:g} {self.unit}"
        return dataclasses.replace(self, compared=compared, target=target, met=added.median <= most)

    def with_share(self, direct: Sequence[float], gateway: Sequence[float], most: float | None = None) -> Row:
        """Compare as gateway / direct: below 1 the gateway took less."""
        share = Spread.of(second / first for first, second in zip(direct, gateway, strict=True))
        compared = f"gateway : direct {share}"
        if most is None:
            return dataclasses.replace(self, compared=compared)
        reached = share.median <= most
        return dataclasses.replace(self, compared=compared, target=f"<= {most:g} of direct", met=reached)

    def with_times(self, compared: str, times: Spread, most: float) -> Row:
        """Compare with something else than the direct broker, of which it may be so many times as much."""
        reached = times.median <= most
        return dataclasses.replace(self, compared=f"{compared} {times}", target=f"<= {most:g} times", met=reached)

    def with_limit(self, most: float) -> Row:
        """The gateway's own value has a limit."""
        reached = self.gateway is not None and self.gateway.median <= most
        return dataclasses.replace(self, target=f"<= {most:g}", met=reached)

    def cells(self) -> tuple[str, ...]:
        """Return the text of each of `COLUMNS`."""
        target = self.target
        if self.met is not None:
            target += " reached" if self.met else " MISSED"
        sides = (str(side or "-") for side in (self.direct, self.proxy, self.gateway))
        return self.measured, self.unit, *sides, self.compared, target


def figure(value: float) -> str:
    """A number with about three digits that matter."""
    if abs(value) >= THOUSAND:
        return f"{value:,.0f}"
    if abs(value) >= HUNDRED:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= TEN else f"{value:.2f}"


def quantile(values: Iterable[float], share: float) -> float:
    """The value that this share of them did not exceed; there must be one at least."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def differences(direct: Sequence[float], gateway: Sequence[float]) -> Spread:
    """How much each gateway repetition lies above the direct one before it."""
    return Spread.of(second - first for first, second in zip(direct, gateway, strict=True))


def table_for_people(rows: Sequence[Row], title: str) -> Table:
    """The table with colours, for a terminal."""
    table = Table(title=title, title_justify="left")
    for name in COLUMNS:
        table.add_column(name, overflow="fold")
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            table.add_section()
            table.add_row(f"[bold]{section}[/bold]")
        style = {None: "", True: "green", False: "red"}[row.met]
        table.add_row(*row.cells(), style=style)
    return table


def table_as_text(rows: Sequence[Row]) -> str:
    """The table as Markdown with aligned columns, for files and pipes."""
    lines = [("section", *COLUMNS)] + [(row.section, *row.cells()) for row in rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    out = io.StringIO()
    for number, line in enumerate(lines):
        out.write("| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |\n")
        if not number:
            out.write("|" + "|".join("-" * (width + 2) for width in widths) + "|\n")
    return out.getvalue()


def verdict(rows: Sequence[Row], build: str) -> str:
    """How many targets were reached, by which build, and which were not."""
    judged = [row for row in rows if row.met is not None]
    missed = [f"\n  {row.section}: {row.measured}: {row.target}" for row in judged if not row.met]
    text = f"{len(judged) - len(missed)} of {len(judged)} targets reached, {build}"
    return f"{text}; missed:{''.join(missed)}" if missed else text


def show(rows: Sequence[Row], machine: dict[str, str]) -> None:
    """Print the table to standard output, in the form that suits it, and what was reached."""
    title = "; ".join(f"{name}: {value}" for name, value in machine.items())
    if sys.stdout.isatty():
        Console().print(table_for_people(rows, title))
    else:
        print(title + "\n")
        print(table_as_text(rows))
    print(verdict(rows, machine["build"]), flush=True)


def write_json(path: Path, rows: Sequence[Row], machine: dict[str, str], command: str) -> None:
    """Write everything that was measured, each repetition included."""
    content = {"command": command, "machine": machine, "rows": [dataclasses.asdict(row) for row in rows]}
    path.write_text(json.dumps(content, indent=1) + "\n")
