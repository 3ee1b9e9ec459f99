"""Adds invalid rows, each fault on its own key, so that a correct report finds exactly one violation for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from integration.journals.plan import FAULTS, Known, Plan
from integration.journals.rows import Deliveries, in_time

if TYPE_CHECKING:
    from integration.journals.rows import Rows

MS: Final = 1_000_000
LEDGER: Final = 1 << 40
"""Of planted messages: no others have it."""


class Step(NamedTuple):
    """A row: what happened, after so many ms, to the first or second message, at the first or second worker."""

    event: str
    at_ms: int
    sent_ms: int
    message: int = 0
    worker: int = 0
    attempt: int = 1


STORIES: Final = {
    "overlap": (
        Step("sent", 0, 0),
        Step("sent", 3, 3, 1, worker=1),
        Step("acked", 4, 3, 1, worker=1),
        Step("acked", 8, 0),
    ),
    "inversion": (Step("sent", 0, 0, 1), Step("acked", 1, 0, 1), Step("sent", 2, 2), Step("acked", 3, 2)),
    "never_acked": (Step("sent", 0, 0), Step("returned", 1, 0), Step("sent", 2, 2, 1), Step("acked", 3, 2, 1)),
    "never_delivered": (Step("sent", 0, 0), Step("acked", 1, 0), Step("acked", 2, 2, 1, worker=1)),
    "repeated": (
        Step("sent", 0, 0),
        Step("acked", 1, 0),
        Step("sent", 2, 2, attempt=2),
        Step("acked", 3, 2, attempt=2),
    ),
}


def planted(plan: Plan, span_ns: int, known: Known) -> Rows:
    """All planted rows, anywhere in a journal of this length."""
    draw = np.random.default_rng((plan.seed, 1))
    parts = []
    for kind_number, kind in enumerate(FAULTS):
        fault = np.arange(plan.faults, dtype=np.int64)
        key = plan.keys + kind_number * plan.faults + fault
        begin_ns = draw.integers(0, span_ns + 1, plan.faults)
        first_worker = draw.integers(0, plan.workers, plan.faults)
        for step in STORIES[kind]:
            sent_ns = begin_ns + step.sent_ms * MS
            worker = (first_worker + step.worker) % plan.workers
            messages = Deliveries(key, worker, np.full_like(key, LEDGER), 2 * key + step.message, sent_ns)
            parts.append(messages.rows(step.event, begin_ns + step.at_ms * MS, sent_ns, step.attempt))
        _count(plan, kind, known)
    return in_time(parts)


def _count(plan: Plan, kind: str, known: Known) -> None:
    steps, faults = STORIES[kind], plan.faults
    known.violations[kind] = faults
    known.keys += faults
    known.rows += len(steps) * faults
    known.messages += len({step.message for step in steps if step.event == "sent"}) * faults
    known.deliveries += sum(step.event == "sent" for step in steps) * faults
    known.acked += len({step.message for step in steps if step.event == "acked"}) * faults
    known.returned += sum(step.event == "returned" for step in steps) * faults
