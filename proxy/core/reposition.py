"""The subscription's cursor was moved under us: by a seek through the gateway, or by an operator at the broker."""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING

from proxy.core.acknowledgement import pass_gates
from proxy.core.delivery_log import How, note
from proxy.core.draining_hashes import DrainingHashes
from proxy.core.outstanding import size_of
from proxy.core.slots import SlotTable

if TYPE_CHECKING:
    from collections import deque

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.outstanding import Outstanding


def reset(dispatcher: Dispatcher, now: float) -> None:
    """Forget every entry, pending and waiting, without acknowledging it; workers stay, with their permits.

    For a seek: the broker sends from the new position on, and the caller disconnects the workers as the broker does.
    """
    dispatcher.outstanding.reset()
    dispatcher.slots = SlotTable()
    dispatcher.draining = DrainingHashes()
    dispatcher.unblocking.clear()
    dispatcher.retries.clear()
    dispatcher.diversions.clear()
    dispatcher.blocked.clear()
    dispatcher.waiting_messages = 0
    dispatcher.chunked.clear()
    for index in dispatcher.in_transaction.clear():
        heappush(dispatcher.free_indexes, index)
    dispatcher.gated.clear()
    for worker in dispatcher.workers.values():
        if dispatcher.endings is not None:
            unsent = {id(unit) for unit in worker.outbox}
            for unit in worker.pending.values():
                if id(unit) not in unsent:
                    note(dispatcher.endings, How.DROPPED, unit, worker, now)
        worker.pending.clear()
        worker.ready.clear()
        worker.outbox.clear()
        worker.unacked = 0
        worker.over_unacked = False
        worker.draining_slots = 0
        worker.join_gate = None
        worker.reconsider()


def least_mark_delete(outstanding: Outstanding) -> int | None:
    """Return the lowest possible cursor position if everything below arrived here and it was not moved; None: unknown.

    That is before the first entry of which the broker did not confirm that it has the ack.
    """
    return outstanding.last_confirmed_below(outstanding.open_from)


def was_moved(outstanding: Outstanding, mark_delete: int, least: int | None) -> bool:
    """Whether the cursor at this position was moved: below `least`, or over an entry that is held."""
    held = min(outstanding.entries, default=outstanding.highest + 1)
    return held <= mark_delete < outstanding.highest or (least is not None and mark_delete < least)


def discard_up_to(dispatcher: Dispatcher, position: int, now: float) -> int:
    """Drop what waits at or below the broker's mark-delete position; returns how many messages.

    After a reconnect: what is acknowledged at the broker (skipped, expired, cleared by an operator meanwhile) must not
    be delivered. What a worker already holds stays until the worker gives it back; its ack then changes nothing.
    """
    dropped: list[Part] = []
    for worker in dispatcher.workers.values():
        dropped += _drop_first(worker.ready, position)
    for slot, entry in list(dispatcher.blocked.items()):
        dropped += _drop_first(entry.parts, position)
        if not entry.parts:
            dispatcher.forget_blocked(slot)
    messages = sum(part.count for part in dropped)
    dispatcher.waiting_messages -= messages
    dispatcher.outstanding.spill.waits_no_more(dropped)
    gone = [part.position for part in dropped if _drop(dispatcher, part)]
    if dispatcher.gated:
        for discarded in gone:
            pass_gates(dispatcher, discarded, now)
    dispatcher.settle_waiting(now)
    return messages


def _drop_first(queue: deque[Part], position: int) -> list[Part]:
    """Take out of a queue in topic order what lies at or below the position, but for what came from elsewhere."""
    dropped: list[Part] = []
    kept: list[Part] = []
    while queue:
        part = queue[0]
        if part.position > position and not part.foreign:
            break
        (kept if part.foreign else dropped).append(queue.popleft())
    queue.extendleft(reversed(kept))
    return dropped


def _drop(dispatcher: Dispatcher, part: Part) -> bool:
    """Forget a part that waited; True if nothing is left of its entry."""
    dispatcher.chunked.give_up(part)
    dispatcher.diversions.drop(part)
    batch = part.batch
    if batch is None:
        dispatcher.outstanding.discard(part.position, size_of(part))
        return True
    batch.parts.remove(part)
    if batch.parts:
        dispatcher.outstanding.part_done(batch)
        return False
    dispatcher.outstanding.discard(part.position, batch.bytes_held)
    return True
