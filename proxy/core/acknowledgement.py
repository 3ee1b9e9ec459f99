"""What workers give back: acks of whole deliveries, of single messages of a batch, and redelivery requests.

Functions of a dispatcher's state. Three rules:

An ack counts only for the worker that holds the delivery, under the very key it was delivered by; anything else
changes nothing and is counted. So a late ack for a delivery that has moved on can never count for its new holder, nor
an ack of one slice for another.

An entry is acknowledged upstream when its last message is (G3); its slots are freed one by one as their own messages
are.

A message that comes back waits at its place in topic order, before newer ones of its slot (G2). It is never asked for
again at the broker: everything needed is here, and asking for one message while later ones of its key are held would
make the two wait for each other when ranges move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.entry import Batch, Delivery, Part, bits_to_indexes, forget_acked
from proxy.core.waiting import WaitingSlot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.worker import Worker


def ack(dispatcher: Dispatcher, worker: Worker, key: int, now: float) -> bool:
    """The worker acknowledged a delivery whole; False if it holds none by this key."""
    unit = worker.pending.pop(key, None)
    if unit is None:
        worker.acks_unknown += 1
        return False
    worker.last_acked_at = now
    if isinstance(unit, Part):
        _credit(worker, unit.count if not unit.acked else unit.remaining)
        _finish(dispatcher, unit, worker, now)
    else:
        for part in list(unit.parts):
            _credit(worker, part.remaining)
            _finish(dispatcher, part, worker, now)
    _reopen(dispatcher, worker, now)
    return True


def ack_indexes(dispatcher: Dispatcher, worker: Worker, key: int, unacked: int, now: float) -> bool:
    """The worker acknowledged some messages of a delivered batch.

    `unacked` has a bit for each message, in the order delivered, set where the message is still unacknowledged (the
    wire's ack_set). False if the worker holds no delivery by this key.
    """
    unit = worker.pending.get(key)
    if unit is None:
        worker.acks_unknown += 1
        return False
    if not unacked:
        return ack(dispatcher, worker, key, now)
    worker.last_acked_at = now
    if isinstance(unit, Part):
        _ack_bits(dispatcher, unit, worker, _cleared(unit.count, unacked), now)
        if unit.holder is None:
            del worker.pending[key]
    else:
        _ack_delivery_bits(dispatcher, unit, worker, unacked, now)
        if not unit.parts:
            del worker.pending[key]
    _reopen(dispatcher, worker, now)
    return True


def redeliver(dispatcher: Dispatcher, worker: Worker, keys: Iterable[int] | None, now: float) -> int:
    """The worker wants deliveries again, all of them if `keys` is None; returns how many messages come back."""
    wanted = list(worker.pending) if keys is None else keys
    returned: list[Part] = []
    for key in wanted:
        unit = worker.pending.pop(key, None)
        if unit is not None:
            returned += parts_of(unit)
    count = take_back(dispatcher, returned, worker, now)
    worker.redelivered_messages += count
    dispatcher.settle_slots(dict.fromkeys(part.slot for part in returned), now)
    _reopen(dispatcher, worker, now)
    return count


def take_back(dispatcher: Dispatcher, returned: Sequence[Part], worker: Worker, now: float) -> int:
    """Parts that were pending wait again, each at its place; settles nothing. Returns their messages."""
    by_slot: dict[int, list[Part]] = {}
    count = 0
    for part in returned:
        _credit(worker, part.remaining, acknowledged=False)
        dispatcher.release(part, worker, now)
        forget_acked(part)
        part.redeliveries += 1
        count += part.count
        by_slot.setdefault(part.slot, []).append(part)
    for slot, parts in by_slot.items():
        entry = dispatcher.waiting.get(slot)
        if entry is None:
            entry = dispatcher.waiting[slot] = WaitingSlot(now)
        entry.insert_all(parts)
    dispatcher.waiting_messages += count
    return count


def parts_of(unit: Part | Delivery) -> Sequence[Part]:
    """The parts of a delivery; a part alone is its own."""
    return (unit,) if isinstance(unit, Part) else unit.parts


def _credit(worker: Worker, count: int, *, acknowledged: bool = True) -> None:
    worker.unacked -= count
    assert worker.unacked >= 0, f"{worker!r} gave back more than it had"
    if acknowledged:
        worker.acked_messages += count


def _reopen(dispatcher: Dispatcher, worker: Worker, now: float) -> None:
    """Past half of its unacknowledged limit a blocked worker gets messages again, as the broker does it."""
    if worker.over_unacked and worker.unacked <= worker.max_unacked // 2:
        worker.over_unacked = False
        if worker.reconsider():
            dispatcher.serve(worker, now)


def _finish(dispatcher: Dispatcher, part: Part, worker: Worker, now: float) -> None:
    """The part's last message was acknowledged: the entry may be done, the slot may be free."""
    batch = part.batch
    outstanding = dispatcher.outstanding
    if batch is None:
        outstanding.complete(part.position, len(part.tail))
        entry_done = True
    else:
        for index in part.message_indexes():
            batch.unacked &= ~(1 << index)
        entry_done = _close_part(dispatcher, batch, part)
    if entry_done and dispatcher.gated:
        pass_gates(dispatcher, part.position, now)
    if dispatcher.release(part, worker, now):
        dispatcher.settle_freed(part.slot, now)


def _close_part(dispatcher: Dispatcher, batch: Batch, part: Part) -> bool:
    batch.parts.remove(part)
    batch.open_parts -= 1
    if batch.open_parts:
        dispatcher.outstanding.index_acks[batch.position] = batch.unacked
        return False
    assert not batch.unacked, "an entry is done while a message of it is not"
    dispatcher.outstanding.complete(batch.position, len(batch.tail))
    return True


def pass_gates(dispatcher: Dispatcher, position: int, now: float) -> None:
    """An entry is done: workers that joined behind it may have nothing more to wait for (PIP-282)."""
    opened = False
    for worker in dispatcher.gated:
        gate = worker.join_gate
        assert gate is not None
        if position <= gate.position:
            gate.outstanding -= 1
            if not gate.outstanding:
                worker.join_gate = None
                opened = True
    if opened:
        dispatcher.gated = [worker for worker in dispatcher.gated if worker.join_gate is not None]
        dispatcher.settle_waiting(now)


def _cleared(count: int, unacked: int) -> int:
    return ~unacked & ((1 << count) - 1)


def _ack_bits(dispatcher: Dispatcher, part: Part, worker: Worker, bits: int, now: float) -> None:
    """Messages of a part, as bits in its own order, were acknowledged."""
    fresh = bits & ~part.acked
    if not fresh:
        return
    _credit(worker, fresh.bit_count())
    part.acked |= fresh
    if part.acked == (1 << part.count) - 1:
        _finish(dispatcher, part, worker, now)
        return
    batch = part.batch
    if batch is None:
        batch = part.batch = Batch(part.position, part.tail, part.count)
        batch.add(part)
        dispatcher.outstanding.replace(part.position, batch)
    for index in bits_to_indexes(fresh, part.message_indexes()):
        batch.unacked &= ~(1 << index)
    dispatcher.outstanding.index_acks[batch.position] = batch.unacked


def _ack_delivery_bits(dispatcher: Dispatcher, delivery: Delivery, worker: Worker, unacked: int, now: float) -> None:
    sequence = delivery.message_indexes()
    acked = set(bits_to_indexes(_cleared(len(sequence), unacked), sequence))
    for part in list(delivery.parts):
        bits = sum(1 << bit for bit, index in enumerate(part.message_indexes()) if index in acked)
        _ack_bits(dispatcher, part, worker, bits, now)
        if part.holder is None:
            delivery.parts.remove(part)
