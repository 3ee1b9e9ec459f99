"""The deliveries that must be acknowledged before a slot's next message can go: evidence for `explain`.

Everything is read at one moment and nothing is changed. Walks at most one worker's pending acks, until the slot's own
are found, and for a join position (PIP-282) the entries outstanding; never all workers' pending acks.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.core.entry import Batch, topic_order
from proxy.core.positions import format_position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.worker import Worker

BLOCKING_LISTED_MAX: Final = 10
"""Blocking deliveries listed; the counts are always whole."""


@dataclass(frozen=True, slots=True)
class BlockingDelivery:
    """Something unacknowledged that must go before the slot's head can."""

    position: str
    """``ledger:entry``."""
    slot: int
    """Of its first unacknowledged message: where it waits, if it waits itself."""
    messages: int
    """Those not acknowledged, of the slot alone where only the slot's count."""
    sent_age_s: float | None
    """Since it was last sent; None if it waits itself."""
    attempts: int
    redeliveries: int
    holder: str | None
    """Who has it; None if it waits itself."""


class PendingOfSlot(NamedTuple):
    """What a worker has of a slot."""

    deliveries: int
    messages: int
    oldest: tuple[BlockingDelivery, ...]


_NOTHING: Final = PendingOfSlot(0, 0, ())


def pending_of(dispatcher: Dispatcher, slot: int, worker: Worker | None, now: float) -> PendingOfSlot:
    """What the worker has of the slot. Walks its pending acks, which stand in the order sent, until all is found."""
    unseen = dispatcher.slots.count(slot)
    if worker is None or (dispatcher.ordered and not unseen):
        return _NOTHING
    deliveries = messages = 0
    oldest: list[BlockingDelivery] = []
    for unit in worker.pending.values():
        own = unit.unacked_of(slot)
        if not own:
            continue
        deliveries += 1
        messages += own
        if len(oldest) < BLOCKING_LISTED_MAX:
            oldest.append(_blocking((unit,), now, slot))
        unseen -= own
        if not unseen:
            # Without order nothing is counted, and this is never true.
            break
    return PendingOfSlot(deliveries, messages, tuple(oldest))


def oldest_of(worker: Worker, now: float) -> tuple[BlockingDelivery, ...]:
    """What the worker has had longest, of any slot."""
    return tuple(_blocking((unit,), now) for unit in islice(worker.pending.values(), BLOCKING_LISTED_MAX))


def before_gate(dispatcher: Dispatcher, gate_entries: int, now: float) -> tuple[BlockingDelivery, ...]:
    """What keeps a join gate shut, in topic order. Some of it may wait itself."""
    entries = dispatcher.outstanding.entries
    listed: list[BlockingDelivery] = []
    for position in nsmallest(min(gate_entries, BLOCKING_LISTED_MAX), entries):
        by_holder: dict[int, list[Part]] = {}
        for part in parts_at(dispatcher, position):
            by_holder.setdefault(part.holder.index if part.holder is not None else 0, []).append(part)
        listed += [_blocking(held, now) for held in by_holder.values()]
    return tuple(listed[:BLOCKING_LISTED_MAX])


def parts_at(dispatcher: Dispatcher, position: int) -> Sequence[Part]:
    """The parts of an outstanding entry."""
    entry = dispatcher.outstanding.entries[position]
    return entry.parts if isinstance(entry, Batch) else (entry,)


def _blocking(parts: Sequence[Part], now: float, slot: int | None = None) -> BlockingDelivery:
    """Parts of one entry that are at one worker, or that all wait; if only a slot counts, its messages of them."""
    first = min(parts, key=topic_order)
    holder = first.holder
    return BlockingDelivery(
        position=format_position(first.position),
        slot=slot if slot is not None else next(iter(first.unacked_slots())),
        messages=sum(part.remaining if slot is None else part.unacked_of(slot) for part in parts),
        sent_age_s=now - min(part.sent_at for part in parts) if holder is not None else None,
        attempts=max(part.attempts for part in parts),
        redeliveries=max(part.redeliveries for part in parts),
        holder=holder.name if holder is not None else None,
    )
