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

from proxy.core.delivery_log import How, note, note_unit
from proxy.core.entry import PART_BYTES, Batch, Delivery, Part, bits_to_indexes, forget_acked, parts_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.worker import Worker


def ack(dispatcher: Dispatcher, worker: Worker, key: int, now: float) -> bool:
    """The worker acknowledged a delivery whole; False if it holds none by this key."""
    unit = worker.pending.pop(key, None)
    if unit is None:
        worker.acks_unknown += 1
        return False
    worker.last_acked_at = now
    # `Histogram.observe`, in place where it only counts: an ack command mostly names what was sent together.
    latency = dispatcher.ack_latency
    latency_s = now - unit.sent_at
    if latency_s == latency.latest_s:
        latency.latest_count += 1
    else:
        latency.observe(latency_s)
    if isinstance(unit, Part):
        if unit.batch is None and unit.chunk is None and not dispatcher.gated:
            _finish_plain(dispatcher, unit, worker, now)
        else:
            if dispatcher.endings is not None:
                note(dispatcher.endings, How.ACKED, unit, worker, now)
            _credit(worker, unit.remaining)
            _finish(dispatcher, unit, worker, now)
    else:
        if dispatcher.endings is not None:
            note_unit(dispatcher.endings, How.ACKED, unit, worker, now)
        for part in list(unit.parts):
            _credit(worker, part.remaining)
            _finish(dispatcher, part, worker, now)
    if worker.over_unacked:
        reopen(dispatcher, worker, now)
    if unit.redeliveries and worker.outbox:
        _forget_unsent(dispatcher, worker, unit, key, now)
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
        finished = unit.holder is None
    else:
        _ack_delivery_bits(dispatcher, unit, worker, unacked, now)
        finished = not unit.parts
    if finished:
        del worker.pending[key]
        dispatcher.ack_latency.observe(now - unit.sent_at)
    reopen(dispatcher, worker, now)
    if unit.redeliveries and worker.outbox:
        _forget_unsent(dispatcher, worker, unit, key, now)
    return True


def redeliver(dispatcher: Dispatcher, worker: Worker, keys: Iterable[int] | None, now: float) -> int:
    """The worker wants deliveries again, all of them if `keys` is None; returns how many messages come back."""
    wanted = list(worker.pending) if keys is None else keys
    units = [unit for unit in (worker.pending.pop(key, None) for key in wanted) if unit is not None]
    if units and worker.outbox:
        # What has not left yet must not overtake what comes back: it is dispatched anew, behind it.
        units += [unit for unit in worker.outbox if worker.pending.pop(unit.key, None) is not None]
    before = worker.redelivered_messages
    give_back(dispatcher, worker, units, now)
    return worker.redelivered_messages - before


def give_back(dispatcher: Dispatcher, worker: Worker, units: Collection[Part | Delivery], now: float) -> None:
    """Deliveries that the worker has no more wait again, and go out where they may."""
    returned = take_back(dispatcher, worker, units, now)
    dispatcher.settle_slots(dict.fromkeys(part.slot for part in returned), now)
    reopen(dispatcher, worker, now)
    # Permits of what was never sent are free for any slot of the worker.
    dispatcher.serve(worker, now)


def take_back(dispatcher: Dispatcher, worker: Worker, units: Collection[Part | Delivery], now: float) -> list[Part]:
    """Deliveries that were pending wait again, part by part, each at its place; settles nothing.

    What still lies in the worker's outbox is taken out of it: it was never sent, so it used no permits and is no
    redelivery. Left there, it would reach the worker twice, or a second worker as well.
    """
    unsent = withdraw(dispatcher, worker, units) if worker.outbox else set()
    before = worker.redelivered_messages
    returned: list[Part] = []
    by_slot: dict[int, list[Part]] = {}
    for unit in units:
        if dispatcher.endings is not None and id(unit) not in unsent:
            note_unit(dispatcher.endings, How.RETURNED, unit, worker, now)
        for part in parts_of(unit):
            _credit(worker, part.remaining, acknowledged=False)
            dispatcher.release(part, worker, now)
            forget_acked(part)
            if id(unit) in unsent:
                part.attempts -= 1
            else:
                part.redeliveries += 1
                worker.redelivered_messages += part.count
            dispatcher.waiting_messages += part.count
            returned.append(part)
            by_slot.setdefault(part.slot, []).append(part)
    for slot, parts in by_slot.items():
        dispatcher.waiting_slot(slot, now).insert_all(parts)
    dispatcher.chunked.came_back(worker, returned)
    if worker.redelivered_messages > before:
        dispatcher.comebacks.append((worker.name, worker.redelivered_messages - before))
    return returned


def _forget_unsent(dispatcher: Dispatcher, worker: Worker, unit: Part | Delivery, key: int, now: float) -> None:
    """A late ack of an earlier delivery: what lies in the outbox to be sent once more is needed no more, or not all."""
    if not any(unsent is unit for unsent in worker.outbox):
        return
    if key in worker.pending:
        redeliver(dispatcher, worker, (key,), now)
    else:
        withdraw(dispatcher, worker, (unit,))
        dispatcher.serve(worker, now)


def withdraw(dispatcher: Dispatcher, worker: Worker, units: Iterable[Part | Delivery]) -> set[int]:
    """Take those of the units that have not left yet out of the worker's outbox; returns their object ids."""
    wanted = {id(unit) for unit in units}
    unsent = [unit for unit in worker.outbox if id(unit) in wanted]
    if unsent:
        worker.outbox = [unit for unit in worker.outbox if id(unit) not in wanted]
        for unit in unsent:
            dispatcher.undo_post(worker, unit)
    return {id(unit) for unit in unsent}


def _credit(worker: Worker, count: int, *, acknowledged: bool = True) -> None:
    worker.unacked -= count
    assert worker.unacked >= 0, f"{worker!r} gave back more than it had"
    if acknowledged:
        worker.acked_messages += count


def reopen(dispatcher: Dispatcher, worker: Worker, now: float) -> None:
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
        outstanding.complete(part.position, len(part.tail) + PART_BYTES)
        entry_done = True
    else:
        for index in part.message_indexes():
            batch.unacked &= ~(1 << index)
        entry_done = _close_part(dispatcher, batch, part)
    if entry_done and dispatcher.gated:
        pass_gates(dispatcher, part.position, now)
    if dispatcher.release(part, worker, now):
        dispatcher.settle_freed(part.slot, now)
    if dispatcher.chunked.give_up(part):
        # The worker gave up a message it has not got whole: it needs the rest no more than others do.
        dispatcher.settle_slots((part.slot,), now)


def _finish_plain(dispatcher: Dispatcher, part: Part, worker: Worker, now: float) -> None:
    """`_credit` and `_finish` for a whole entry nobody's join gate waits for: the hot path, in one piece.

    The calls it saves are a tenth of what the gateway spends on an unbatched message.
    """
    count = part.count
    worker.unacked -= count
    worker.acked_messages += count
    outstanding = dispatcher.outstanding
    position = part.position
    del outstanding.entries[position]
    outstanding.bytes_held -= len(part.tail) + PART_BYTES
    if outstanding.index_acks:
        outstanding.index_acks.pop(position, None)
    outstanding.acks.append(position)
    outstanding.unconfirmed.add(position)
    part.holder = None
    if dispatcher.endings is not None:
        dispatcher.endings.append((How.ACKED, part, worker, now, part.sent_at, part.attempts, None))
    slot = part.slot
    if dispatcher.ordered and not dispatcher.slots.release(slot):
        if slot in dispatcher.draining:
            dispatcher.end_drain(slot, worker, now)
        if slot in dispatcher.waiting:
            dispatcher.settle_freed(slot, now)


def _close_part(dispatcher: Dispatcher, batch: Batch, part: Part) -> bool:
    batch.parts.remove(part)
    batch.open_parts -= 1
    if batch.open_parts:
        dispatcher.outstanding.index_acks[batch.position] = batch.unacked
        return False
    assert not batch.unacked, "an entry is done while a message of it is not"
    dispatcher.outstanding.complete(batch.position, batch.bytes_held)
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
    if dispatcher.endings is not None:
        indexes = tuple(bits_to_indexes(fresh, part.message_indexes()))
        dispatcher.endings.append((How.ACKED, part, worker, now, part.sent_at, part.attempts, indexes))
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
