"""Adds invalid rows, each fault on its own key, so that a correct report finds exactly one violation for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from integration.journals.plan import FAULTS, Known, Plan
from integration.journals.rows import in_time
from integration.journals.stories import Step, count

if TYPE_CHECKING:
    from integration.journals.rows import Rows

LEDGER: Final = 1 << 40
"""Of planted messages: no others have it."""


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
            worker = (first_worker + step.worker) % plan.workers
            parts.append(step.rows(key, worker, 2 * key, LEDGER, begin_ns))
        known.violations[kind] = plan.faults
        count(STORIES[kind], plan.faults, known)
    return in_time(parts)
