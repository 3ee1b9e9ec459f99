"""Streams come to this replica and leave it: what that does to what waits and to what workers hold.

Functions of a dispatcher with leases. Opening and closing a stream changes who may get its messages now and nothing
else; owners and what workers were sent stay as they are, so a stream that is held and opened again goes on where it
was. What no worker was sent yet waits: nothing leaves of a stream that is held, however long ago it was dispatched.

A stream is handed over in this order: hold it, wait until nothing of it is pending, forget what waits (the next
replica gets that from the broker). Only a lease that is lost is forgotten with deliveries pending; their late acks
then count for nothing. The wait needs a limit of the caller's: a chunked message that a worker has begun gets no rest
while its stream is held, and cannot be acknowledged before.

All messages of one entry are in one stream: the caller makes sure, by consuming each stream on its own.

Source: EIP-0028, "General Idea" and "Session Side"; design section 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.acknowledgement import give_back, pass_gates, reopen, withdraw
from proxy.core.delivery_log import How, note
from proxy.core.entry import Batch
from proxy.core.outstanding import size_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.hash_ranges import HashRange
    from proxy.core.stream_leases import StreamLeases
    from proxy.core.worker import Worker


def open_stream(dispatcher: Dispatcher, stream: int, now: float) -> None:
    """Deliver the stream from now on; what waits of it goes out in this turn, unless the leases have run out."""
    _leases_of(dispatcher).open(stream)
    dispatcher.settle(_blocked_in(dispatcher, stream), now)
    dispatcher.serve_begun(now)


def hold_stream(dispatcher: Dispatcher, stream: int, now: float) -> None:
    """Deliver nothing of the stream any more. What workers have of it they keep, and may acknowledge or give back.

    What is in their outboxes they do not have: it waits again. Left there it would leave when the leases are renewed,
    after a process was stopped for instance, and another replica may have delivered the stream meanwhile.
    """
    span = _leases_of(dispatcher).range_of(stream)
    _leases_of(dispatcher).close(stream)
    # First: the permits of what comes back are for other streams.
    dispatcher.block(span, now)
    for worker in dispatcher.workers.values():
        _forget_acknowledged_unsent(dispatcher, worker, span)
        unsent = [unit for unit in worker.outbox if _is_in(unit, span)]
        for unit in unsent:
            del worker.pending[unit.key]
        if unsent:
            give_back(dispatcher, worker, unsent, now)


def renew(dispatcher: Dispatcher, until: float, now: float) -> None:
    """The open streams may be delivered until `until`, earlier than before or later; both in monotonic seconds.

    If they could not be before this call, what waits of them goes out in this turn.
    """
    leases = _leases_of(dispatcher)
    had_lapsed = leases.lapsed(now)
    leases.until = until
    if had_lapsed and not leases.lapsed(now):
        dispatcher.settle_waiting(now)
        dispatcher.serve_begun(now)


def pending_in(dispatcher: Dispatcher, stream: int) -> bool:
    """Whether a worker has something unacknowledged of the stream.

    Cost: the stream's slots; without order, which keeps no account of slots, all that workers have.
    """
    span = _leases_of(dispatcher).range_of(stream)
    if dispatcher.ordered:
        return any(True for _ in dispatcher.slots.in_range(span.start, span.end))
    units = (unit for worker in dispatcher.workers.values() for unit in worker.pending.values())
    return any(_is_in(unit, span) for unit in units)


def forget_stream(dispatcher: Dispatcher, stream: int, now: float) -> int:
    """Drop everything of the stream that is here, waiting or pending; returns how many messages that were.

    Nothing of it is acknowledged upstream: the broker sends it to the stream's next owner, and to this replica as new
    if that is us. Deliveries that have not left their worker's outbox yet give their permits back. A slot that drained
    drains no more, but no hand-over is told of: the next owner may be at another replica.
    """
    span = _leases_of(dispatcher).range_of(stream)
    dropped = _drop_waiting(dispatcher, stream)
    messages = sum(part.count for part in dropped)
    bereft: list[Worker] = []
    for worker in dispatcher.workers.values():
        _forget_acknowledged_unsent(dispatcher, worker, span)
        units = [unit for unit in worker.pending.values() if _is_in(unit, span)]
        if units:
            bereft.append(worker)
            lost = _drop_pending(dispatcher, worker, units, now)
            messages += sum(part.remaining for part in lost)
            dropped += lost
    for position in _discard(dispatcher, dropped, span):
        # After all is dropped: a gate that opens lets other streams go on at once.
        pass_gates(dispatcher, position, now)
    for worker in bereft:
        reopen(dispatcher, worker, now)
        dispatcher.serve(worker, now)
    return messages


def _leases_of(dispatcher: Dispatcher) -> StreamLeases:
    assert dispatcher.leases is not None, "streams of a subscription that has no leases"
    return dispatcher.leases


def _blocked_in(dispatcher: Dispatcher, stream: int) -> list[int]:
    """Blocked slots of the stream, in the order in which they became so."""
    span = _leases_of(dispatcher).range_of(stream)
    return [slot for slot in dispatcher.blocked if span.start <= slot <= span.end]


def _is_in(part: Part, span: HashRange) -> bool:
    """Whether a part is of the stream with these slots; it is so with all its messages or with none."""
    return span.start <= part.slot <= span.end


def _forget_acknowledged_unsent(dispatcher: Dispatcher, worker: Worker, span: HashRange) -> None:
    """What the worker has acknowledged before it left, by an earlier delivery or by a guess, does not leave."""
    over = [unit for unit in worker.outbox if worker.pending.get(unit.key) is not unit]
    withdraw(dispatcher, worker, [unit for unit in over if _is_in(unit, span)])


def _drop_waiting(dispatcher: Dispatcher, stream: int) -> list[Part]:
    span = _leases_of(dispatcher).range_of(stream)
    dropped: list[Part] = []
    for slot in _blocked_in(dispatcher, stream):
        parts = dispatcher.blocked[slot].parts
        dropped += parts
        parts.clear()
        dispatcher.forget_blocked(slot)
    for worker in dispatcher.workers.values():
        own = [part for part in worker.ready if _is_in(part, span)]
        if own:
            dropped += own
            kept = [part for part in worker.ready if not _is_in(part, span)]
            worker.ready.clear()
            worker.ready.extend(kept)
    dispatcher.waiting_messages -= sum(part.count for part in dropped)
    dispatcher.outstanding.spill.waits_no_more(dropped)
    return dropped


def _drop_pending(dispatcher: Dispatcher, worker: Worker, units: Iterable[Part], now: float) -> list[Part]:
    """Take deliveries from their worker as if it never had them; returns them."""
    units = list(units)
    unsent = withdraw(dispatcher, worker, units)
    lost: list[Part] = []
    for unit in units:
        if dispatcher.endings is not None and id(unit) not in unsent:
            note(dispatcher.endings, How.DROPPED, unit, worker, now)
        del worker.pending[unit.key]
        worker.unacked -= unit.remaining
        lost.append(unit)
        unit.holder = None
        if not dispatcher.ordered:
            continue
        if unit.slots is None:
            dispatcher.slots.release(unit.slot, unit.remaining)
        else:
            dispatcher.slots.release_each(unit.slots_of(unit.unacked_indexes()))
        # Not `Dispatcher.release`: that would tell of a hand-over.
        for slot in unit.unacked_slots():
            if not dispatcher.slots.holder(slot) and dispatcher.draining.end(slot) is not None:
                dispatcher.drain_ended(worker)
    assert worker.unacked >= 0, f"{worker!r} lost more than it had"
    return lost


def _discard(dispatcher: Dispatcher, dropped: Iterable[Part], span: HashRange) -> list[int]:
    """Hold the entries of these parts no more; returns their positions, each once."""
    entries = dispatcher.outstanding.entries
    gone: list[int] = []
    for part in dropped:
        dispatcher.chunked.give_up(part)
        dispatcher.diversions.drop(part)
        entry = entries.get(part.position)
        if entry is not None:
            parts = entry.parts if isinstance(entry, Batch) else (entry,)
            slots = (slot for each in parts for slot in each.distinct_slots())
            assert all(span.start <= slot <= span.end for slot in slots), "an entry is in several streams"
            dispatcher.outstanding.discard(part.position, size_of(entry))
            gone.append(part.position)
    return gone
