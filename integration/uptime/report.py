"""Prints how much each host owns after each failure, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from integration.uptime.scenario import Record


def distribution_table(record: Record) -> Table:
    """One line for each step, one column for each host; a failed host has a dash."""
    mode = "with priorities" if record.with_priorities else "first in, first out"
    table = Table(title=f"Endpoints owned, {mode}", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("failed", no_wrap=True)
    hosts = [*record.plan.primaries, *record.plan.standbys]
    for host in hosts:
        table.add_column(host.replace("-", "\n"), justify="right")
    table.add_column("all owned\nafter", justify="right")
    gone: set[str] = set()
    for step in record.steps:
        if step.failed is not None:
            gone.add(step.failed)
        loads = ["-" if host in gone else str(step.load_of(host)) for host in hosts]
        table.add_row(step.failed or "none", *loads, f"{step.settled_s * 1_000:.0f} ms" if step.failed else "")
    return table
