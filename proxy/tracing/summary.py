"""Traces in numbers, for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TracesSummary:
    """Entries that were followed."""

    exported_total: int
    lost: dict[str, int]
    """Entries of the sample without a trace, by cause; every cause is there."""


NO_TRACES: Final = TracesSummary(0, {"too_many": 0, "queue_full": 0, "export_failed": 0})
