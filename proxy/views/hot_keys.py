"""The keys with the most recent messages, and what of each is not acknowledged: for those who ask.

`core.hot_keys` counts keys; what waits and what workers have is looked up in all that the subscription holds, once, in
steps. That is known by hash slot only: keys of the same slot share these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.core.entry import Batch
from proxy.core.steps import in_steps

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.hot_keys import HotKey, HotKeys
    from proxy.core.steps import Steps

CUT_OFF: Final = "…"


@dataclass(frozen=True, slots=True)
class HotKeyStatistics:
    """One key."""

    key: str
    """As text, at most its first 128 bytes; of a message without a key, what the broker hashes in its place."""
    slot: int
    messages_per_s: float
    """That came from the broker lately, at least so many."""
    share_percent: float
    """Of all messages that came lately."""
    waiting_messages: int
    """Of its slot, here."""
    unacked_messages: int
    """Of its slot, at workers, or acknowledged in transactions that are open."""
    oldest_s: float | None
    """Since the oldest of both came; None if there are none."""
    state: str
    """Why its slot waits, a `WaitReason`; ``flowing`` where it does not."""
    worker: str | None
    """Who has messages of its slot, or would get them."""


@dataclass(frozen=True, slots=True)
class HotKeysPage:
    """Those with the most messages."""

    messages_per_s: float
    """Of all keys."""
    keys: tuple[HotKeyStatistics, ...]


class _Held:
    """What is not acknowledged of a slot."""

    __slots__ = ("head", "since", "unacked", "waiting")

    def __init__(self) -> None:
        self.waiting = self.unacked = 0
        self.since: float | None = None
        self.head: Part | None = None

    def add(self, part: Part, messages: int, *, waits: bool) -> None:
        self.since = part.received_at if self.since is None else min(self.since, part.received_at)
        if not waits:
            self.unacked += messages
            return
        self.waiting += messages
        if self.head is None or part.order < self.head.order:
            self.head = part


def hot_keys_steps(dispatcher: Dispatcher, hot_keys: HotKeys, limit: int, now: float) -> Steps[HotKeysPage]:
    """At most so many; `now` is on the clock of the dispatcher's other calls."""
    found = hot_keys.top(limit, now)
    per_s = hot_keys.per_s(now)
    held = {each.slot: _Held() for each in found}
    yield
    for run in in_steps(list(dispatcher.outstanding.entries.values())):
        for entry in run:
            for part in entry.parts if isinstance(entry, Batch) else (entry,):
                _add(dispatcher, held, part)
        yield
    return HotKeysPage(per_s, tuple(_shown(dispatcher, each, held[each.slot], per_s, now) for each in found))


def _add(dispatcher: Dispatcher, held: dict[int, _Held], part: Part) -> None:
    for slot in part.distinct_slots():
        of_slot = held.get(slot)
        if of_slot is not None and (messages := part.unacked_of(slot)):
            waits = part.holder is None and not dispatcher.in_transaction.holds(part)
            of_slot.add(part, messages, waits=waits)


def _shown(dispatcher: Dispatcher, hot: HotKey, held: _Held, per_s: float, now: float) -> HotKeyStatistics:
    reason = None if held.head is None else dispatcher.wait_reason(hot.slot, held.head, now)
    worker = dispatcher.workers.get(dispatcher.slots.holder(hot.slot)) or dispatcher.select(hot.slot)
    return HotKeyStatistics(
        key=hot.key.decode(errors="replace") + (CUT_OFF if hot.shortened else ""),
        slot=hot.slot,
        messages_per_s=hot.per_s,
        share_percent=100 * hot.per_s / per_s if per_s else 0.0,
        waiting_messages=held.waiting,
        unacked_messages=held.unacked,
        oldest_s=None if held.since is None else now - held.since,
        state="flowing" if reason is None else reason.value,
        worker=None if worker is None else worker.name,
    )
