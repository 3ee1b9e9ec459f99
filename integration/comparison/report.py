"""The comparison as a table of text, in Markdown so that it can be pasted as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from integration.load.options import Batching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration.comparison.run import Comparison
    from integration.load.audit import AuditResult

NAMED: Final = ("Pulsar", "batching", "messages", "clients connect to")
COUNTED: Final = ("out of order", "at two workers at once", "lost")
COLUMNS: Final = (*NAMED, *COUNTED)
BATCHING: Final = {Batching.NONE: "none", Batching.DEFAULT: "default", Batching.KEY_BASED: "by key"}


def table(comparisons: Sequence[Comparison]) -> str:
    """Return the table: for each case a row of the broker and a row of the gateway."""
    lines = [COLUMNS]
    for comparison in comparisons:
        load = comparison.case.load
        named = (comparison.case.version, BATCHING[load.batching], f"{load.messages:,}")
        lines.append((*named, "the broker", *_counts(comparison.direct)))
        lines.append((*named, "Keyline", *_counts(comparison.gateway)))
    widths = [max(len(line[place]) for line in lines) for place in range(len(COLUMNS))]
    rows = ["| " + " | ".join(_aligned(line, widths)) + " |" for line in lines]
    rules = ["-" * (width + 1) + (":" if place >= len(NAMED) else "-") for place, width in enumerate(widths)]
    return "\n".join([rows[0], "|" + "|".join(rules) + "|", *rows[1:]])


def _counts(result: AuditResult) -> tuple[str, str, str]:
    found = result.order_violations, result.holder_violations, result.missing
    out_of_order, shared, lost = (f"{len(items):,}" for items in found)
    return out_of_order, shared, lost


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        text.rjust(width) if place >= len(NAMED) else text.ljust(width)
        for place, (text, width) in enumerate(zip(line, widths, strict=True))
    ]
