"""Statistics of a journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

LOST_AT_FIRST: Final = dict.fromkeys(
    ("drains", "redeliveries", "metrics", "sent", "acked", "returned", "dropped", "worker_joined", "worker_left"), 0
)
"""Shown also at zero; other kinds of events only when rows were dropped."""


@dataclass(frozen=True, slots=True)
class JournalSummary:
    """Counts are since the start."""

    kept: bool = True
    """Whether there is a journal at all."""
    rows_written: int = 0
    rows_dropped: dict[str, int] = field(default_factory=lambda: dict(LOST_AT_FIRST))
    """Dropped rows, by kind: an event's kind, the table of other rows, a delivery's ending."""
    messages_unlisted: int = 0
    """Messages that were sent and have no row of their own: of a batch with one row, as its producer counts them."""
    rows_recovered: int = 0
    """From unfinished files of an earlier run."""
    files_published: int = 0
    held_bytes: int = 0
    """Memory of rows that are not written yet."""
    failures: int = 0
    """Times that something could not be written or published."""
    problem: str | None = None
    """The current fault."""

    @property
    def well(self) -> bool:
        """Whether there is no fault."""
        return self.problem is None


NO_JOURNAL: Final = JournalSummary(kept=False)


@dataclass(slots=True)
class TopicSummary:
    """Statistics of the topic of events; counts are since the start."""

    kept: bool = False
    """Whether events are sent anywhere."""
    sent: int = 0
    dropped: int = 0
    well: bool = True
