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

from typing import TYPE_CHECKING, TypeAlias

from proxy.core import join_gates
from proxy.core.attempts import judge
from proxy.core.cutting import forget_acked
from proxy.core.delivery_log import How, as_one, note, tell_why
from proxy.core.entry import PART_BYTES, Batch, Part
from proxy.core.index_bits import bits_to_indexes
from proxy.core.whole_messages import rest_of

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Sequence

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.worker import Worker

Late: TypeAlias = "list[tuple[Part, int]]"
"""What was acknowledged and may lie in its worker's outbox, to be sent once more; with its key."""


def ack(dispatcher: Dispatcher, worker: Worker, key: int, now: float, late: Late | None = None) -> bool:
    """The worker acknowledged a delivery whole; False if it holds none by this key.

    Who has several gives a list, `late`, and at the end that to `forget_unsent`.
    """
    unit = worker.pending.pop(key, None)
    if unit is None:
        worker.acks_unknown += 1
        return False
    if now >= worker.pace_due:
        worker.note_pace(unit.sent_at, now)
    worker.last_acked_at = now
    # `Histogram.observe`, in place where it only counts: an ack command mostly names what was sent together.
    latency = dispatcher.ack_latency
    latency_s = now - unit.sent_at
    if latency_s == latency.latest_s:
        latency.latest_count += 1
    else:
        latency.observe(latency_s)
    if unit.chunk is None and not unit.acked and not dispatcher.gated:
        _finish_at_once(dispatcher, unit, worker, now)
    else:
        if dispatcher.endings is not None:
            note(dispatcher.endings, How.ACKED, unit, worker, now)
        _credit(worker, unit.remaining)
        _finish(dispatcher, unit, worker, now)
    if worker.over_unacked:
        reopen(dispatcher, worker, now)
    if unit.redeliveries and worker.outbox:
        _acked_late(dispatcher, worker, unit, key, now, late)
    return True


def ack_indexes(
    dispatcher: Dispatcher, worker: Worker, key: int, unacked: int, now: float, late: Late | None = None
) -> bool:
    """The worker acknowledged some messages of a delivered batch; `late` as in `ack`.

    `unacked` has a bit for each message, in the order delivered, set where the message is still unacknowledged (the
    wire's ack_set). False if the worker holds no delivery by this key.
    """
    unit = worker.pending.get(key)
    if unit is None:
        worker.acks_unknown += 1
        return False
    if not unacked:
        return ack(dispatcher, worker, key, now, late)
    if now >= worker.pace_due:
        worker.note_pace(unit.sent_at, now)
    worker.last_acked_at = now
    _ack_bits(dispatcher, unit, worker, ~unacked & ((1 << unit.count) - 1), now)
    if unit.holder is None:
        del worker.pending[key]
        dispatcher.ack_latency.observe(now - unit.sent_at)
    reopen(dispatcher, worker, now)
    if unit.redeliveries and worker.outbox:
        _acked_late(dispatcher, worker, unit, key, now, late)
    return True


def redeliver(dispatcher: Dispatcher, worker: Worker, keys: Iterable[int] | None, now: float) -> int:
    """The worker wants deliveries again, all of them if `keys` is None; returns how many messages come back.

    With a chunk all that it has of the message does, which is no attempt more for chunks that it did not name.
    """
    wanted = list(worker.pending if keys is None else keys)
    rest = _taken(worker, rest_of(worker, wanted))
    units = _taken(worker, wanted) + rest
    if units and worker.outbox:
        units += _taken(worker, [unit.key for unit in _behind(units, worker.outbox)])
    before = worker.redelivered_messages
    along = {id(unit) for unit in rest}
    _place_again(dispatcher, worker, take_back(dispatcher, worker, units, now, wanted=True, along=along), now)
    return worker.redelivered_messages - before


def redeliver_others(
    dispatcher: Dispatcher, worker: Worker, kept: Container[int], wanted: Iterable[int], now: float
) -> None:
    """As `redeliver` of `wanted`, and give back in the same moment what the worker has not seen: all that it keeps not.

    That is no redelivery, and waits for no retry.
    """
    units = _taken(worker, wanted)
    unseen = _taken(worker, [key for key in worker.pending if key not in kept])
    returned = take_back(dispatcher, worker, units, now, wanted=True) + take_back(
        dispatcher, worker, unseen, now, seen=False
    )
    _place_again(dispatcher, worker, returned, now)


def _taken(worker: Worker, keys: Iterable[int]) -> list[Part]:
    """Those of the deliveries that were pending, which they are no more."""
    return [unit for unit in (worker.pending.pop(key, None) for key in keys) if unit is not None]


def _behind(units: Iterable[Part], outbox: Iterable[Part]) -> list[Part]:
    """What of an outbox must not overtake these and is to be dispatched again: what has one of their slots.

    And what has one of its slots. Not all of it: a client that asks for messages one by one would have the rest sent
    anew each time.
    """
    slots: set[int] = set()
    for unit in units:
        slots.update(unit.distinct_slots())
    behind: list[Part] = []
    for unit in outbox:
        if unit.slot in slots if unit.slots is None else not slots.isdisjoint(unit.distinct_slots()):
            behind.append(unit)
            slots.update(unit.distinct_slots())
    return behind


def give_back(dispatcher: Dispatcher, worker: Worker, units: Collection[Part], now: float) -> None:
    """Deliveries that the worker has no more wait again, and go out where they may."""
    _place_again(dispatcher, worker, take_back(dispatcher, worker, units, now), now)


def _place_again(dispatcher: Dispatcher, worker: Worker, returned: list[Part], now: float) -> None:
    blocked = dispatcher.blocked
    # Taken before the parts are cut up among their targets. What is blocked of a slot goes behind what came back of it.
    slots = dict.fromkeys(slot for part in returned for slot in part.distinct_slots() if slot in blocked)
    dispatcher.place(returned, now)
    dispatcher.settle(slots, now)
    reopen(dispatcher, worker, now)
    # Permits of what was never sent are free for any slot of the worker.
    dispatcher.serve(worker, now)


def take_back(
    dispatcher: Dispatcher,
    worker: Worker,
    units: Collection[Part],
    now: float,
    *,
    wanted: bool = False,
    seen: bool = True,
    along: Container[int] = (),
    tried: Part | None = None,
) -> list[Part]:
    """Deliveries that were pending are so no more and count as waiting; the caller places them.

    `wanted` if the worker asked for them: then they used an attempt and wait as long as the policy says, but for those
    that it did not name, whose object ids are in `along`. Else the message that it `tried` used one. They count as
    delivered once unless the client is known not to have `seen` them.

    What still lies in the worker's outbox is taken out of it: it was never sent, so it used no permits and is no
    redelivery. Left there, it would reach the worker twice, or a second worker as well.
    """
    unsent = withdraw(dispatcher, worker, units) if worker.outbox else set()
    before = worker.redelivered_messages
    counted, places = list[Part](), list[int]()
    for part in units:
        noted = dispatcher.endings if id(part) not in unsent else None
        if noted is not None:
            note(noted, How.RETURNED, part, worker, now)
        _credit(worker, part.remaining, acknowledged=False)
        dispatcher.release(part, worker, now)
        forget_acked(part)
        part.waits_since = now
        if not seen or id(part) in unsent:
            part.attempts -= 1
        else:
            part.redeliveries += 1
            part.spared += id(part) in along
            worker.redelivered_messages += part.count
            counted.append(part)
            if noted is not None:
                places.append(len(noted) - 1)
        dispatcher.waiting_messages += part.count
        dispatcher.outstanding.spill.waits((part,))
    over = judge(dispatcher, units, counted, now, wanted=wanted, tried=tried)
    if wanted and dispatcher.policy.retry_delay_s:
        for part in [each for each in counted if id(each) not in over and id(each) not in along]:
            dispatcher.hold_for_retry(part, now)
    if dispatcher.endings is not None:
        tell_why(dispatcher.endings, places, over, wanted=wanted)
    returned = list(units)
    dispatcher.chunked.came_back(worker, returned, unsent if seen else {id(part) for part in returned})
    if worker.redelivered_messages > before:
        dispatcher.comebacks.append((worker.name, worker.redelivered_messages - before))
        if wanted:
            worker.note_refusal(now)
    return returned


def _acked_late(dispatcher: Dispatcher, worker: Worker, unit: Part, key: int, now: float, late: Late | None) -> None:
    if late is None:
        forget_unsent(dispatcher, worker, [(unit, key)], now)
    else:
        late.append((unit, key))


def forget_unsent(dispatcher: Dispatcher, worker: Worker, late: Late, now: float) -> None:
    """Late acks of earlier deliveries: what lies in the outbox to be sent once more is needed no more, or not all.

    Of all at once: thousands may lie there, and one command may name as many of them.
    """
    unsent = {id(unit) for unit in worker.outbox}
    found = [(unit, key) for unit, key in late if id(unit) in unsent]
    if not found:
        return
    withdraw(dispatcher, worker, [unit for unit, key in found if key not in worker.pending])
    redeliver(dispatcher, worker, [key for _, key in found], now)  # serves the worker, also where none is left of them


def withdraw(dispatcher: Dispatcher, worker: Worker, units: Iterable[Part]) -> set[int]:
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
    if forget_limit(worker):
        dispatcher.serve(worker, now)


def forget_limit(worker: Worker) -> bool:
    """A worker that has few enough unacknowledged messages is blocked no more; True if it is open only now."""
    if not worker.over_unacked or worker.unacked > worker.max_unacked // 2:
        return False
    worker.over_unacked = False
    return worker.reconsider()


def _finish(dispatcher: Dispatcher, part: Part, worker: Worker, now: float) -> None:
    """The part's last message was acknowledged: the entry may be done, slots may be free."""
    complete(dispatcher, part, now)
    free = dispatcher.release(part, worker, now)
    if free:
        dispatcher.settle(free, now)
    if dispatcher.chunked.give_up(part):
        # The worker gave up a message it has not got whole: it needs the rest no more than others do.
        dispatcher.settle((part.slot,), now)


def complete(dispatcher: Dispatcher, part: Part, now: float) -> None:
    """The part's last message was acknowledged: the entry may be done."""
    outstanding = dispatcher.outstanding
    batch = part.batch
    if batch is None:
        outstanding.complete(part.position, len(part.tail) + PART_BYTES)
    else:
        batch.parts.remove(part)
        if batch.foreign:
            _finish_foreign(dispatcher, part, batch)
        elif batch.parts:
            outstanding.index_acks[batch.position] = batch
            outstanding.part_done(batch)
        else:
            outstanding.complete(batch.position, batch.bytes_held)
    if dispatcher.gated and (batch is None or not (batch.parts or batch.foreign)):
        pass_gates(dispatcher, part.position, now)


def _finish_at_once(dispatcher: Dispatcher, part: Part, worker: Worker, now: float) -> None:  # noqa: C901, PLR0912 - on purpose
    """`_credit` and `_finish` for what was delivered and acknowledged in one piece: the hot path, itself in one piece.

    No join gate may wait for it. The calls it saves are a tenth of what the gateway spends on an unbatched message.
    """
    count = part.count
    worker.unacked -= count
    worker.acked_messages += count
    part.holder = None
    if dispatcher.endings is not None:
        note(dispatcher.endings, How.ACKED, part, worker, now)
    outstanding = dispatcher.outstanding
    position = part.position
    batch = part.batch
    if batch is not None:
        batch.parts.remove(part)
    if batch is not None and batch.parts:
        outstanding.index_acks[position] = batch
        batch.bytes_held -= PART_BYTES
        outstanding.bytes_held -= PART_BYTES
    elif batch is not None and batch.foreign:
        _finish_foreign(dispatcher, part, batch)
    else:
        del outstanding.entries[position]
        outstanding.bytes_held -= len(part.tail) + PART_BYTES if batch is None else batch.bytes_held
        if outstanding.index_acks:
            outstanding.index_acks.pop(position, None)
        if outstanding.spill.times:
            outstanding.spill.gone(position)
        outstanding.acks.append(position)
        outstanding.unconfirmed.add(position)
    if part.slots is not None:
        if not dispatcher.ordered:
            return
        if not dispatcher.draining.count and not dispatcher.blocked:
            dispatcher.slots.release_each(part.message_slots())
            return
        free = dispatcher.release(part, worker, now)
        if free:
            dispatcher.settle(free, now)
        return
    slot = part.slot
    if dispatcher.ordered:
        if not dispatcher.slots.release(slot, count):
            if slot in dispatcher.draining:
                dispatcher.end_drain(slot, worker, now)
            if slot in dispatcher.blocked:
                dispatcher.settle((slot,), now)
        elif dispatcher.window and slot in dispatcher.blocked:
            dispatcher.settle((slot,), now)


def _finish_foreign(dispatcher: Dispatcher, part: Part, batch: Batch) -> None:
    """What was read from another topic is not outstanding here: the caller acknowledges it there."""
    dispatcher.diversions.unfeed(part)
    dispatcher.outstanding.bytes_held -= batch.bytes_held
    dispatcher.diversions.done.append(batch)


def pass_gates(dispatcher: Dispatcher, position: int, now: float) -> None:
    """An entry is done: workers that joined behind it may have nothing more to wait for (PIP-282)."""
    for worker in join_gates.done(dispatcher.gated, position):
        dispatcher.serve(worker, now)


def _ack_bits(dispatcher: Dispatcher, part: Part, worker: Worker, bits: int, now: float) -> None:
    """Messages of a part, as bits in its own order, were acknowledged."""
    fresh = bits & ~part.acked
    if not fresh:
        return
    _credit(worker, fresh.bit_count())
    endings, last = dispatcher.endings, part.acked | fresh == (1 << part.count) - 1
    if part.slots is None and (endings is None or as_one(part)):
        indexes: Sequence[int] = range(fresh.bit_count())  # as `release_messages` says
        if endings is not None and last:
            endings.append((How.ACKED, part, worker, now, part.sent_at, part.attempts, None))
    else:
        indexes = tuple(bits_to_indexes(fresh, part.message_indexes()))
        if endings is not None:
            endings.append((How.ACKED, part, worker, now, part.sent_at, part.attempts, indexes))
    if last:
        _finish(dispatcher, part, worker, now)
        return
    part.acked |= fresh
    batch = part.batch
    if batch is None:
        batch = part.batch = Batch(part.position, part.tail, part.count)
        batch.add(part)
        dispatcher.outstanding.replace(part.position, batch)
    if not batch.foreign:  # else its position is one of another topic, where it is acknowledged when it is done
        dispatcher.outstanding.index_acks[batch.position] = batch
    free = dispatcher.release_messages(part, indexes, worker, now)
    if free:
        dispatcher.settle(free, now)
