"""An audit for people: one table, one line per question, and the first pieces of evidence under it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from integration.load.audit import AuditResult

EVIDENCE_SHOWN_MAX: Final = 5


def audit_table(result: AuditResult) -> RenderableType:
    """Return the table, with evidence if there is any."""
    table = Table(title="Audit", title_justify="left", show_header=False, title_style="bold")
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for name, count, words in _rows(result):
        table.add_row(name, f"{count:,}", words)
    for name, items, words in _violations(result):
        table.add_row(name, Text(f"{len(items):,}", style="bold red" if items else "bold green"), words)
    return Group(table, *_evidence(result))


def audit_lines(result: AuditResult) -> list[str]:
    """Return the same as plain lines."""
    lines = [f"{name}: {count}{words and f' ({words})'}" for name, count, words in _rows(result)]
    lines += [f"{name}: {len(items)}{words and f' ({words})'}" for name, items, words in _violations(result)]
    return lines + [f"  {text.plain}" for text in _evidence(result)]


def _rows(result: AuditResult) -> list[tuple[str, int, str]]:
    rows = [
        ("messages sent", result.sent, f"{result.confirmed:,} confirmed by the broker"),
        ("messages delivered", result.delivered, f"{result.keys:,} keys, to {result.lives} workers in turn"),
        ("acknowledged", result.acknowledged, ""),
    ]
    if result.mixed_batches:
        divided = f"{result.divided_batches:,} of them went to several workers, each message by its key"
        rows.append(("batches of several keys", result.mixed_batches, divided))
    for cause, count in sorted(result.duplicates_by_cause.items(), key=str):
        if cause is not None:
            rows.append(("delivered again", count, cause.value))
    return rows


def _violations(result: AuditResult) -> list[tuple[str, Sequence[object], str]]:
    return [
        ("messages lost", result.missing, "confirmed by the broker, never delivered"),
        ("order violations", result.order_violations, "a message after a later one of its key"),
        ("overtakings", result.overtakings, "a repeated message after a later one of its key"),
        ("keys at two workers", result.holder_violations, "unacknowledged at one while another got more"),
        ("duplicates without a cause", result.unexplained, ""),
        ("messages that no producer sent", [*result.invented, *range(result.garbled)], ""),
    ]


def _evidence(result: AuditResult) -> list[Text]:
    lines = []
    for name, items, _ in _violations(result):
        lines += [Text(f"{name}: {item}", style="red") for item in items[:EVIDENCE_SHOWN_MAX]]
        if len(items) > EVIDENCE_SHOWN_MAX:
            lines.append(Text(f"{name}: and {len(items) - EVIDENCE_SHOWN_MAX:,} more", style="red"))
    if lines:
        lines += [Text(f"told: {item}") for item in result.interruptions]
    return lines
