"""Which waiting entries lose their bytes to make room for keys that can move; a function of the dispatcher's state.

Nothing is done while there is room, nor while every worker has all it asked for: to read ahead further would help no
worker then, and each entry would be read twice. Otherwise each queue keeps its share of the subscription's look-ahead
and bytes, in topic order from its head, and what stands behind that is held without bytes. A blocked slot's share is
the policy's, and if its worker does not move, an even part at most; a worker's queue has an even part, so that one that
hangs leaves the others theirs. Even parts of a kind are three eighths together, however many there are. What is left of
an entry without bytes counts apart, and no more entries are let go when that comes to what the subscription may hold.

Why not an even part for each slot: with a window, each key that is at a worker blocks its slot, and a thousand keys
that all move would let go, and fetch again, nearly all that comes. No worker waits for room because of them.

What workers have, and may give back, is no different: only its place is needed until then.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.core.entry import Batch
from proxy.core.spill import SPILLED_BYTES

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable

    from proxy.core.entry import Part
    from proxy.core.serving import Serving
    from proxy.core.worker import Worker

STILL_S: Final = 1.0
"""A worker that has acknowledged nothing of what it had so long ago does not move. Clients group acks for 0.1 s."""


class _Share(NamedTuple):
    messages: int
    size: int


def spill(dispatcher: Serving, look_ahead_messages: int, budget_bytes: int, now: float) -> None:
    """Let queues beyond their share go without bytes, if that helps; messages and bytes are the subscription's bounds.

    To be called at the end of a turn, when what can leave has left, and `STILL_S` after it left `spared` set.
    """
    spilled = dispatcher.outstanding.spill
    here, held = dispatcher.waiting_messages - spilled.messages, dispatcher.outstanding.bytes_counted
    full = here * 4 >= look_ahead_messages * 3
    spent = held * 4 >= budget_bytes * 3
    if not full and not spent:
        spilled.quiet_below = spilled.quiet_below_bytes = 0
        return
    due = (full and here >= spilled.quiet_below) or (spent and held >= spilled.quiet_below_bytes)
    if not due or spilled.messages * SPILLED_BYTES >= budget_bytes or not _one_starves(dispatcher):
        return
    share = dispatcher.policy.share
    look_ahead, room = look_ahead_messages * 3 // 8, budget_bytes * 3 // 8
    each = max(len(dispatcher.blocked), 1)
    of_slot = _Share(int(look_ahead_messages * share), int(budget_bytes * share))
    even = _Share(min(of_slot.messages, look_ahead // each), min(of_slot.size, room // each))
    moving = {worker for worker in dispatcher.workers.values() if _moves(worker, now)}
    most = budget_bytes // SPILLED_BYTES
    for slot, blocked in dispatcher.blocked.items():
        _trim(dispatcher, blocked.parts, of_slot if _worker_of(dispatcher, slot) in moving else even, most)
    workers = max(len(dispatcher.workers), 1)
    of_worker = _Share(look_ahead // workers, room // workers)
    for worker in dispatcher.workers.values():
        _trim(dispatcher, worker.ready, of_worker, most)
        if spent and not worker.outbox:
            _drop_beyond(dispatcher, worker.pending.values(), of_worker.size)
    spilled.quiet_below_bytes = dispatcher.outstanding.bytes_counted + budget_bytes // 16
    spilled.quiet_below = dispatcher.waiting_messages - spilled.messages + max(look_ahead_messages // 16, 1)
    spilled.spared = bool(moving)


def _moves(worker: Worker, now: float) -> bool:
    """Whether something came to an end there lately, or what it holds is new."""
    oldest = next(iter(worker.pending.values()), None)
    since = worker.last_acked_at if oldest is None else max(worker.last_acked_at, oldest.sent_at)
    return since > now - STILL_S


def _worker_of(dispatcher: Serving, slot: int) -> Worker | None:
    """Whose the slot's messages are, or will be."""
    return dispatcher.workers.get(dispatcher.slots.holder(slot)) or dispatcher.select(slot)


def _one_starves(dispatcher: Serving) -> bool:
    """Whether a worker takes messages and none waits for it."""
    return any(worker.open and worker.permits > 0 and not worker.ready for worker in dispatcher.workers.values())


def _trim(dispatcher: Serving, queue: deque[Part], share: _Share, most: int) -> None:
    """Let what is beyond the share go, from the end back to what has gone already. The head always stays.

    No more than `most` messages are without bytes then, or one entry more.
    """
    kept = messages = size = 0
    for part in queue:
        messages += part.count
        size += part.wire_bytes
        if kept and (messages > share.messages or size > share.size):
            break
        kept += 1
    for _, part in zip(range(len(queue) - kept), reversed(queue), strict=False):
        if not part.tail or dispatcher.outstanding.spill.messages > most:
            break
        drop(dispatcher, part)


def _drop_beyond(dispatcher: Serving, parts: Iterable[Part], most: int) -> None:
    """Let the bytes of parts go that together have more than this; the first keep theirs."""
    size = 0
    for part in parts:
        size += part.wire_bytes
        if size > most:
            drop(dispatcher, part)


def drop(dispatcher: Serving, part: Part) -> None:
    """Hold the part's entry without bytes from now on, unless a piece of it is still to be written to a worker."""
    batch = part.batch
    parts = (part,) if batch is None else batch.parts
    if not part.tail or any(_is_needed(dispatcher, each) for each in parts):
        return
    outstanding = dispatcher.outstanding
    size = len(part.tail)
    outstanding.spill.dropped(part.position, size)
    outstanding.spill.messages += sum(each.count for each in parts if _waits(dispatcher, each))
    if batch is not None:
        if batch.content is not None:
            size += batch.content.bytes_held
            batch.content = None
        batch.tail = b""
        batch.bytes_held -= size
    for each in parts:
        each.tail = b""
    outstanding.grew(-size)


def _waits(dispatcher: Serving, part: Part) -> bool:
    """Whether it is at no worker, and not held in a transaction."""
    return part.holder is None and not dispatcher.in_transaction.holds(part)


def _is_needed(dispatcher: Serving, part: Part) -> bool:
    """Whether its bytes are: it may lie in an outbox, or go to another topic, at once or when its worker gives it back.

    A record of messages tells the size of what workers had.
    """
    holder = part.holder
    if part.foreign:
        return True
    if holder is None:
        return part.slot in dispatcher.diversions.held
    return bool(holder.outbox) or dispatcher.endings is not None or dispatcher.policy.max_attempts > 0


def fill(dispatcher: Serving, position: int, tail: bytes, now: float) -> None:
    """The broker sent an entry again that it was asked for: its bytes are here, and what waited for them goes on."""
    outstanding = dispatcher.outstanding
    if not tail or not outstanding.spill.came(position):
        return
    entry = outstanding.entries[position]
    outstanding.repeated -= 1
    outstanding.grew(len(tail))
    if isinstance(entry, Batch):
        entry.tail = tail
        entry.bytes_held += len(tail)
    waiting: list[Part] = []
    for part in entry.parts if isinstance(entry, Batch) else (entry,):
        part.tail = tail
        if _waits(dispatcher, part):
            waiting.append(part)
            outstanding.spill.messages -= part.count
    slots = dict.fromkeys(chain.from_iterable(part.distinct_slots() for part in waiting))
    dispatcher.diversions.dirty.update((slot, None) for slot in slots if slot in dispatcher.diversions.parked)
    dispatcher.settle([slot for slot in slots if slot in dispatcher.blocked], now)
    for owner in dict.fromkeys(dispatcher.select(slot) for slot in slots):
        if owner is not None and owner.ready:
            dispatcher.serve(owner, now)
    if dispatcher.chunked:
        dispatcher.serve_begun(now)


def take_wants(dispatcher: Serving, now: float) -> list[int]:
    """Positions to ask the broker for, each once, in the order in which they are needed."""
    spilled = dispatcher.outstanding.spill
    if spilled.has_room:
        spilled.refused = False
        for worker in dispatcher.workers.values():
            if worker.ready:
                dispatcher.serve(worker, now)
    wants, spilled.wants = spilled.wants, []
    return [position for position in wants if position in spilled.asked]
