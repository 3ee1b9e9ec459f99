"""Acknowledgements inside transactions, and how they end. Functions of a dispatcher's state; the rule: `transactions`.

Messages acknowledged so become a part of their own, which is pending at no worker and waits in no queue. A commit is
their acknowledgement: the broker, which has it already, gets it once more, so that all that is known of acknowledged
positions (G4) holds for these too. An abort lets them wait again at their place, before what is newer of their slots.
Where neither is seen in time, they are no more than what a broker keeps back of an earlier life.

An entry that cannot be cut goes whole or not at all, so that single messages of it are not taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core import acknowledgement, kept_back
from proxy.core.cutting import batch_of, take_acked
from proxy.core.delivery_log import How, note
from proxy.core.entry import PART_BYTES
from proxy.core.errors import NotHeldError, OpaqueBatchError
from proxy.core.transactions import Held

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.transactions import TransactionId
    from proxy.core.worker import Worker


def hold(
    dispatcher: Dispatcher,
    worker: Worker,
    wanted: Sequence[tuple[int, int | None]],
    transaction: TransactionId,
    now: float,
    *,
    in_parts: bool = True,
) -> list[Held]:
    """The worker acknowledged deliveries inside a transaction: all of them, or none if an error is raised.

    `wanted` has the key of each, and the bits of the messages still unacknowledged as in `ack_indexes`; None for what
    is unacknowledged of the delivery. Without `in_parts` only whole entries are taken, for brokers that know no others.

    Raises:
        NotHeldError: the worker does not have one of them, or has acknowledged some of it.
        OpaqueBatchError: single messages of a batch that only goes whole, or is only acknowledged whole.
    """
    bits_by_key: dict[int, int] = {}
    for key, unacked in wanted:
        part = worker.pending.get(key)
        if part is None:
            worker.acks_unknown += 1
            raise NotHeldError("this consumer does not hold one of the messages")
        if part.foreign:
            raise OpaqueBatchError("a redriven message is acknowledged in the parking topic, outside transactions")
        whole = (1 << part.count) - 1
        before = bits_by_key.get(key, 0)
        if unacked is None:
            bits = 0 if dispatcher.in_transaction.has_of(part) else whole & ~part.acked
        else:
            bits = ~unacked & whole
        if not bits or bits & (part.acked | before):
            raise NotHeldError("this consumer has acknowledged one of the messages already")
        bits_by_key[key] = before | bits
        if bits_by_key[key] != whole and not part.divisible:
            raise OpaqueBatchError("a batch that cannot be opened is acknowledged whole inside a transaction")
        if not in_parts and (bits_by_key[key] != whole or part.indexes is not None):
            raise OpaqueBatchError("a part of a batch inside a transaction needs the setting upstream_batch_index_ack")
    late: acknowledgement.Late = []
    helds = [_hold(dispatcher, worker, key, bits, transaction, now, late) for key, bits in bits_by_key.items()]
    acknowledgement.forget_unsent(dispatcher, worker, late, now)
    return helds


def _hold(
    dispatcher: Dispatcher,
    worker: Worker,
    key: int,
    bits: int,
    transaction: TransactionId,
    now: float,
    late: acknowledgement.Late,
) -> Held:
    """These messages of the delivery, as bits in its own order."""
    part = taken = worker.pending[key]
    whole = (1 << part.count) - 1
    if bits == whole:
        del worker.pending[key]
    else:
        outstanding = dispatcher.outstanding
        if part.batch is None:
            outstanding.replace(part.position, batch_of(part))
        taken = take_acked(part, bits)
        outstanding.grew(PART_BYTES)
        if part.acked == whole:
            del worker.pending[key]
            assert part.batch is not None
            outstanding.part_done(part.batch)
    held = Held(taken, worker, transaction, now)
    dispatcher.in_transaction.add(held)
    dispatcher.in_transaction.abort = abort
    if now >= worker.pace_due:
        worker.note_pace(part.sent_at, now)
    worker.last_acked_at = now
    worker.unacked -= taken.count
    acknowledgement.reopen(dispatcher, worker, now)
    if part.redeliveries and worker.outbox:
        late.append((part, key))
    return held


def commit(dispatcher: Dispatcher, helds: Iterable[Held], now: float) -> None:
    """Their transaction was committed: they are acknowledged."""
    for held in dispatcher.in_transaction.take(helds):
        if dispatcher.endings is not None:
            note(dispatcher.endings, How.COMMITTED, held.part, held.worker, now)
        held.worker.acked_messages += held.part.count
        acknowledgement.complete(dispatcher, held.part, now)
        dispatcher.settle(dispatcher.release_held(held, now), now)


def abort(dispatcher: Dispatcher, helds: Iterable[Held], now: float) -> None:
    """Their transaction was aborted, or the broker did not take the acknowledgement: they wait again."""
    returned: list[Part] = []
    free: list[int] = []
    emptied: list[Worker] = []
    chunks: dict[Worker, list[Part]] = {}
    for held in dispatcher.in_transaction.take(helds):
        part, worker = held.part, held.worker
        if worker.outbox:
            # As with what a worker asks for again: what it was not sent yet must not overtake.
            unsent = [unit for unit in worker.outbox if worker.pending.pop(unit.key, None) is not None]
            returned += acknowledgement.take_back(dispatcher, worker, unsent, now)
            emptied.append(worker)
        if dispatcher.endings is not None:
            note(dispatcher.endings, How.ABORTED, part, worker, now)
        free += dispatcher.release_held(held, now)
        part.waits_since = now
        part.redeliveries += 1
        worker.redelivered_messages += part.count
        dispatcher.comebacks.append((worker.name, part.count))
        dispatcher.waiting_messages += part.count
        dispatcher.outstanding.spill.waits((part,))
        if part.chunk is not None:
            chunks.setdefault(worker, []).append(part)
            if dispatcher.diversions.follows(part):
                dispatcher.diversions.add(part)
        returned.append(part)
    for worker, parts in chunks.items():
        dispatcher.chunked.came_back(worker, parts)
    blocked = dispatcher.blocked
    slots = dict.fromkeys([*free, *(slot for part in returned for slot in part.distinct_slots() if slot in blocked)])
    dispatcher.place(returned, now)
    dispatcher.settle(slots, now)
    for worker in emptied:
        acknowledgement.reopen(dispatcher, worker, now)
        dispatcher.serve(worker, now)  # it has its permits again, for any slot


def committed_up_to(dispatcher: Dispatcher, position: int, now: float) -> None:
    """The broker's mark-delete position is here: what is held at or below it was committed."""
    if dispatcher.in_transaction:
        commit(dispatcher, [held for held in dispatcher.in_transaction.all() if held.part.position <= position], now)


def wait_no_more(dispatcher: Dispatcher, helds: Sequence[Held], now: float) -> None:
    """How their transaction ends is not known in time: what is newer of their slots goes on, at any owner.

    What the broker has confirmed is not here any more either: see `kept_back`. It takes no memory, and no join gate
    waits for it.
    """
    for held in dispatcher.in_transaction.take([held for held in helds if held.confirmed]):
        if dispatcher.endings is not None:
            note(dispatcher.endings, How.DROPPED, held.part, held.worker, now)
        held.worker.acked_messages += held.part.count
        if kept_back.leave(dispatcher.outstanding, held.part, now) and dispatcher.gated:
            acknowledgement.pass_gates(dispatcher, held.part.position, now)
    for held in helds:
        dispatcher.settle(dispatcher.release_held(held, now), now)
