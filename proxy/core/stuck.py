"""Which hash slots wait, oldest first, why, and for whom: what an operator looks through when much waits.

Walks all that waits once, in steps, and asks the dispatcher for the reasons of those that are listed. A slot that waits
for its owner's permits alone is listed, too: behind a worker that has stopped it waits as long as any.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from proxy.core.positions import format_position
from proxy.core.steps import in_steps
from proxy.core.worker_health import Urgency, WorkerState, checkup_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.steps import Steps
    from proxy.core.worker_health import Checkup

LISTED_MAX: Final = 1_000
"""Slots in one answer; the counts are whole."""


@dataclass(frozen=True, slots=True)
class StuckSlot:
    """One slot of which something waits."""

    slot: int
    key: str | None
    """Of its first message, as text; None where it is not known: other keys may share the slot."""
    state: str
    """A `WaitReason`; ``flowing`` where it could go at once."""
    waiting_messages: int
    waiting_s: float
    """Since what has waited longest of it came."""
    position: str
    """``ledger:entry`` of its first message."""
    worker: str | None
    """Who has to acknowledge, ask for more or read."""
    worker_state: WorkerState | None
    urgency: Urgency
    """That worker's."""


@dataclass(frozen=True, slots=True)
class StuckSlots:
    """Those that have waited longest."""

    slots: tuple[StuckSlot, ...]
    waiting_slots: int
    """All that wait."""
    waiting_messages: int


class _Found:
    """What is seen of a slot while all that waits is walked."""

    __slots__ = ("head", "messages", "since", "slot")

    def __init__(self, slot: int, head: Part) -> None:
        self.slot = slot
        self.head = head
        self.since = head.waits_since
        self.messages = 0


def stuck_steps(
    dispatcher: Dispatcher, limit: int, key_of: Callable[[Part], str | None], now: float
) -> Steps[StuckSlots]:
    """The slots that have waited longest, at most `limit`; `now` is on the clock of the dispatcher's other calls."""
    found: dict[int, _Found] = {}
    for run in in_steps(list(dispatcher.waiting_parts())):
        for part in run:
            for slot, messages in part.messages_by_slot():
                seen = found.get(slot)
                if seen is None:
                    seen = found[slot] = _Found(slot, part)
                seen.messages += messages
                seen.since = min(seen.since, part.waits_since)
                if part.order < seen.head.order:
                    seen.head = part
        yield
    oldest = nsmallest(limit, found.values(), key=lambda each: (each.since, each.slot))
    checkup = yield from checkup_steps(dispatcher, now)
    slots = []
    for each in oldest:
        slots.append(_shown(dispatcher, each, checkup, key_of, now))
        yield
    return StuckSlots(tuple(slots), len(found), sum(each.messages for each in found.values()))


def _shown(
    dispatcher: Dispatcher, found: _Found, checkup: Checkup, key_of: Callable[[Part], str | None], now: float
) -> StuckSlot:
    reason = dispatcher.wait_reason(found.slot, found.head, now)
    worker = checkup.awaited(dispatcher, found.slot, reason)
    health = None if worker is None else checkup.workers.get(worker)
    return StuckSlot(
        slot=found.slot,
        key=key_of(found.head),
        state="flowing" if reason is None else reason.value,
        waiting_messages=found.messages,
        waiting_s=now - found.since,
        position=format_position(found.head.position),
        worker=None if worker is None else worker.name,
        worker_state=None if health is None else health.state,
        urgency=Urgency.NONE if health is None else health.urgency,
    )
