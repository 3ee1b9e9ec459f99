"""A second subscription of a made journal, which asks for key policies: kept rules, and planted breaches of each.

Each story is of a key of its own, at a moment of its own. Those named after a violation have exactly one of it; `kept`
has none: a window that is full and becomes free, a retry after its delay, a parked key, a lease that ended in time, a
quarantine that is over, and an excluded worker that is readmitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from integration.journals.rows import Deliveries, in_time
from integration.journals.stories import MS, Step, count

if TYPE_CHECKING:
    from integration.journals.plan import Known, Plan
    from integration.journals.rows import Rows

    Told = tuple[int, str, str | None, dict[str, Any]]

SUBSCRIPTION: Final = "settled"
LEDGER: Final = 1 << 41
POLICY: Final = {
    "key_window": 1,
    "retry_delay_ms": 100,
    "retry_multiplier": 2.0,
    "retry_delay_max_ms": 300,
    "ack_lease_ms": 1_000,
    "park_after": 2,
    "quarantine_after": 1,
}
ENTRIES: Final = 6
"""Of each story's key."""
ORDERS: Final = ("exclude", "readmit")
APART_NS: Final = 10_000 * MS
"""From one story to the next."""
EXTENSIONS: Final = "keyline_subscription_ack_lease_extensions_total"


class Event(NamedTuple):
    """An event, after so many ms."""

    kind: str
    at_ms: int


RETRIED: Final = (
    Step("sent", 0, 0),
    Step("returned", 1, 0, why="asked_for"),
    Step("sent", 101, 101, attempt=2),
    Step("returned", 102, 101, attempt=2, why="given_up"),
)
STORIES: Final[dict[str, tuple[Step | Event, ...]]] = {
    "kept": (
        *RETRIED,
        Event("keys_parked", 103),
        Event("redriven", 200),
        Step("sent", 201, 201, message=1),
        Step("acked", 202, 201, message=1),
        Step("sent", 202, 202, message=2),
        Event("ack_lease_lost", 1_202),
        Event("worker_quarantined", 1_202),
        Event("worker_left", 1_202),
        Step("returned", 1_202, 202, message=2),
        Step("sent", 1_202, 1_202, message=2, worker=1, attempt=2),
        Step("acked", 1_203, 1_202, message=2, worker=1, attempt=2),
        Event("quarantine_ended", 1_300),
        Event("worker_joined", 1_300),
        Step("sent", 1_301, 1_301, message=3),
        Step("acked", 1_302, 1_301, message=3),
        Event("exclude", 1_400),
        Step("sent", 1_401, 1_401, message=4, worker=1),
        Step("acked", 1_402, 1_401, message=4, worker=1),
        Event("readmit", 1_500),
        Step("sent", 1_501, 1_501, message=5),
        Step("acked", 1_502, 1_501, message=5),
    ),
    "window": (
        Step("sent", 0, 0),
        Step("sent", 1, 1, message=1),
        Step("acked", 2, 0),
        Step("acked", 3, 1, message=1),
    ),
    "overtaking": (
        Step("sent", 0, 0),
        Step("returned", 1, 0),
        Step("sent", 2, 2, message=1),
        Step("acked", 3, 2, message=1),
        Step("sent", 4, 4, attempt=2),
        Step("acked", 5, 4, attempt=2),
    ),
    "too_early": (
        Step("sent", 0, 0),
        Step("returned", 1, 0, why="asked_for"),
        Step("sent", 100, 100, attempt=2),
        Step("acked", 101, 100, attempt=2),
    ),
    "not_parked": (
        *RETRIED,
        Event("keys_parked", 103),
        Step("sent", 110, 110, message=1),
        Step("acked", 111, 110, message=1),
        Event("redriven", 200),
    ),
    "lease": (Step("sent", 0, 0), Step("acked", 8_000, 0)),
    "excluded": (
        Event("exclude", 0),
        Step("sent", 1, 1),
        Step("acked", 2, 1),
        Event("readmit", 3),
    ),
    "quarantined": (
        Event("worker_quarantined", 0),
        Event("worker_left", 0),
        Event("worker_joined", 1),
        Step("sent", 2, 2),
        Step("acked", 3, 2),
        Event("quarantine_ended", 4),
    ),
}
KINDS: Final = tuple(kind for kind in STORIES if kind != "kept")


def policy_rows(plan: Plan, known: Known) -> Rows:
    """The record of messages."""
    parts: list[Rows] = []
    for number, kind in enumerate(STORIES):
        story = np.arange(plan.policy_faults, dtype=np.int64)
        key, begin_ns = _key(plan, number, story), _begin_ns(plan, number, story)
        steps = [step for step in STORIES[kind] if isinstance(step, Step)]
        parts += [step.rows(key, np.full_like(key, step.worker), ENTRIES * key, LEDGER, begin_ns) for step in steps]
        if kind in KINDS:
            known.violations[kind] = plan.policy_faults
        count(steps, plan.policy_faults, known)
    return in_time(parts)


def policy_events(plan: Plan) -> list[Told]:
    """In their order."""
    told: list[Told] = [(0, "subscription_began", None, {"ordering_mode": "draining_hashes", **POLICY})]
    for number, kind in enumerate(STORIES):
        for story in range(plan.policy_faults):
            index = np.array([story], np.int64)
            key, begin_ns = int(_key(plan, number, index)[0]), int(_begin_ns(plan, number, index)[0])
            events = [event for event in STORIES[kind] if isinstance(event, Event)]
            told += [(begin_ns + event.at_ms * MS, *_told(event.kind, key)) for event in events]
    return sorted(told, key=lambda one: one[0])


def looks_ns(plan: Plan) -> np.ndarray[Any, np.dtype[np.int64]]:
    """When the gateway counted, each second: no worker asked for more time."""
    end = _begin_ns(plan, len(STORIES), np.array([0]))[0]
    return np.arange(0, end, 1_000 * MS, dtype=np.int64)


def _told(kind: str, key: int) -> tuple[str, str | None, dict[str, Any]]:
    """The event's kind, worker and facts."""
    slot, position = Deliveries.slot_of(key), f"{LEDGER}:{ENTRIES * key + 2}"
    if kind in ORDERS:
        return "operator_order", "w0", {"order": kind}
    of_slot: dict[str, dict[str, Any]] = {"keys_parked": {"slots": [slot]}, "redriven": {"slot": slot}}
    of_worker: dict[str, dict[str, Any]] = {
        "ack_lease_lost": {"position": position, "messages": 1, "held_s": 1.0},
        "worker_quarantined": {"lasts_s": 30.0},
    }
    return (kind, None, of_slot[kind]) if kind in of_slot else (kind, "w0", of_worker.get(kind, {}))


def _key(plan: Plan, number: int, story: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return 1_000_000 + number * plan.policy_faults + story


def _begin_ns(
    plan: Plan, number: int, story: np.ndarray[Any, np.dtype[np.int64]]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    return APART_NS * (1 + number * plan.policy_faults + story)
