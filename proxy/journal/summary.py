"""How a journal fares, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

LOST_AT_FIRST: Final = dict.fromkeys(
    ("drains", "redeliveries", "metrics", "sent", "acked", "returned", "dropped", "worker_joined", "worker_left"), 0
)
"""Shown though nothing was lost; other kinds of events are when they were."""


@dataclass(frozen=True, slots=True)
class JournalSummary:
    """Counts are since the start."""

    kept: bool = True
    """Whether there is a journal at all."""
    rows_written: int = 0
    rows_dropped: dict[str, int] = field(default_factory=lambda: dict(LOST_AT_FIRST))
    """Lost, by kind: of an event its kind, of other rows their table, of a delivery what became of it."""
    rows_recovered: int = 0
    """Of files that a life before had left unfinished."""
    files_published: int = 0
    bytes_held: int = 0
    """Memory of rows that are not written yet."""
    failures: int = 0
    """Times that something could not be written or published."""
    problem: str | None = None
    """What is wrong now."""

    @property
    def well(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem is None


NO_JOURNAL: Final = JournalSummary(kept=False)


@dataclass(slots=True)
class TopicSummary:
    """How the topic of events fares; counts are since the start."""

    kept: bool = False
    """Whether events are sent anywhere."""
    sent: int = 0
    dropped: int = 0
    well: bool = True
