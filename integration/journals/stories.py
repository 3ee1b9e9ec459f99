"""Stories of one key, step by step, of which a made journal plants many: their rows, and what a report has to count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from integration.journals.rows import Deliveries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration.journals.plan import Known
    from integration.journals.rows import Rows

MS: Final = 1_000_000
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class Step(NamedTuple):
    """A row: what happened, after so many ms, to one of the key's messages at one of two workers."""

    event: str
    at_ms: int
    sent_ms: int
    message: int = 0
    worker: int = 0
    attempt: int = 1
    why: str | None = None

    def rows(self, key: Numbers, worker: Numbers, first_entry: Numbers, ledger: int, begin_ns: Numbers) -> Rows:
        """Of stories that begin then: of each its key, the worker, and the entry of its first message."""
        sent_ns = begin_ns + self.sent_ms * MS
        messages = Deliveries(key, worker, np.full_like(key, ledger), first_entry + self.message, sent_ns)
        return messages.rows(self.event, begin_ns + self.at_ms * MS, sent_ns, self.attempt, self.why)


def count(steps: Sequence[Step], stories: int, known: Known) -> None:
    """Add so many stories of these steps to what is known of the journal."""
    known.keys += stories
    known.rows += len(steps) * stories
    known.messages += len({step.message for step in steps if step.event == "sent"}) * stories
    known.deliveries += sum(step.event == "sent" for step in steps) * stories
    known.acked += len({step.message for step in steps if step.event == "acked"}) * stories
    known.returned += sum(step.event == "returned" for step in steps) * stories
