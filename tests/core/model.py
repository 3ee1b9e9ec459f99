"""A reference for the dispatcher: what clients, the broker and an onlooker know, kept apart from the code under test.

`World` plays broker and clients against a dispatcher. What a client was sent it learns from outboxes alone, as over the
wire; from that it knows who has what. It checks the guarantees of design section 1 on every delivery and, after every
step, that the dispatcher's tables say what a plain recount says. It is slow and obvious on purpose.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.core import acknowledgement, join_gates, membership, policy_change, reposition, spilling
from proxy.core.dispatcher import Dispatcher, OrderingMode
from proxy.core.entry import MIXED_MESSAGE_BYTES, PART_BYTES, Batch, Part
from proxy.core.key_policy import NO_POLICY, KeyPolicy
from proxy.core.outstanding import size_of
from proxy.core.waiting import BLOCKED_SLOT_BYTES
from tests.core.batches import by_slot
from tests.core.record_model import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.selectors.base import Selector
    from proxy.core.worker import Worker

LOOK_AHEAD = 8
BUDGET_BYTES = 12_000
"""Bounds of a subscription in which keys may be beyond their share."""

Message = tuple[int, int]
"""Position of the entry, index in it."""


@dataclass
class Entry:
    """An entry as the broker has it."""

    position: int
    slots: list[int | None]
    """Slot of each message; None for one that is no concern of ours (acknowledged in an earlier life)."""
    opaque: bool
    redeliveries: int = 0
    asked: int = 0
    """How often the dispatcher asked for it again, as the broker counts."""

    def messages(self) -> list[Message]:
        """The messages that must be delivered; all of them if the entry only goes whole."""
        return [(self.position, i) for i, slot in enumerate(self.slots) if slot is not None or self.opaque]


@dataclass
class Client:
    """A worker as its own client sees it."""

    worker: Worker
    budget: int = 0
    """Granted and not used."""
    held: dict[int, list[Message]] = field(default_factory=dict)
    """Key of a delivery to its messages, in the order delivered."""
    seen: dict[int, list[Message]] = field(default_factory=dict)
    """Every delivery ever got, for late and foreign acks."""
    gate: int | None = None
    """PIP-282: join position, until everything up to it is done."""

    def unacked(self, done: set[Message]) -> set[Message]:
        """Messages it has and has not acknowledged."""
        return {message for messages in self.held.values() for message in messages} - done


class World:
    """A dispatcher, its clients and its broker."""

    def __init__(
        self,
        selector: Selector[Worker],
        mode: OrderingMode,
        unblocking_interval_s: float = 0.0,
        policy: KeyPolicy = NO_POLICY,
        *,
        recorded: bool = True,
    ) -> None:
        """Nobody joined, nothing arrived. The policy's pauses are all as long as the first."""
        self.dispatcher = Dispatcher(selector, mode, unblocking_interval_s=unblocking_interval_s, key_policy=policy)
        self.policy = policy if mode is not OrderingMode.UNORDERED else NO_POLICY
        self.retry_at: dict[Message, float] = {}
        """When a message that was given back may be sent again."""
        self.interval_s = unblocking_interval_s
        self.blocked: dict[int, Worker] = {}
        """Slots that drained when it was looked last, and of which something waited, each with its holder."""
        self.released_at: float | None = None
        """When the slots that came free must go on, as it was seen when the first of them did."""
        self.looked_at = 0.0
        self.dispatcher.endings = [] if recorded else None
        self.record = Record()
        self.ordered = mode is not OrderingMode.UNORDERED
        self.now = 0.0
        self.next_position = 1 << 40
        self.entries: dict[int, Entry] = {}
        self.by_slot: dict[int, list[Message]] = {}
        """Messages of a slot in topic order."""
        self.done: set[Message] = set()
        self.delivered: dict[Message, int] = {}
        """How often a message was sent."""
        self.clients: list[Client] = []
        self.mark_deleted = 0
        """Everything at or below was skipped by an operator."""
        self.acks_in_flight: list[int] = []
        self.acked_at_broker: set[int] = set()
        self.turn_open = False
        """Within a turn nothing is sent yet."""
        self.asked: list[int] = []
        """Entries that the broker is to send again, since the dispatcher has let their bytes go."""

    # ---- broker -----------------------------------------------------------------------------------------------

    def arrive(self, slots: Sequence[int | None], *, opaque: bool = False) -> None:
        """The next entry of the topic."""
        entry = Entry(self.next_position, list(slots), opaque)
        self.next_position += 1
        self.entries[entry.position] = entry
        for message in entry.messages():
            self.by_slot.setdefault(self.slot_of(message), []).append(message)
        self._offer(entry)

    def slot_of(self, message: Message) -> int:
        """Slot that keeps the message's order; an opaque entry has that of its first message."""
        entry = self.entries[message[0]]
        slots = [slot for slot in entry.slots if slot is not None]
        slot = slots[0] if entry.opaque else entry.slots[message[1]]
        assert slot is not None
        return slot

    def answer(self, count: int) -> None:
        """The broker sends the first of what it was asked for again, but for what is acknowledged or skipped since."""
        sent, self.asked = self.asked[:count], self.asked[count:]
        for position in sent:
            if position not in self.acked_at_broker and position > self.mark_deleted:
                self._offer(self.entries[position])

    def _offer(self, entry: Entry) -> None:
        """As the intake would hand it to the dispatcher."""
        redeliveries = entry.redeliveries + entry.asked
        position, total, tail = entry.position, len(entry.slots), b"x" * (10 + 7 * len(entry.slots))
        groups: dict[int, tuple[int, ...]] = {}
        for index, slot in enumerate(entry.slots):
            if slot is not None:
                key = self.slot_of((position, index))
                groups[key] = (*groups.get(key, ()), index)
        whole = len(groups) == 1 and None not in entry.slots
        if entry.opaque and whole:
            part = Part(position, next(iter(groups)), total, tail, redeliveries, self.now)
            part.opaque = True
            self.dispatcher.receive_part(part, self.now)
        elif whole:
            self.dispatcher.receive(position, next(iter(groups)), total, tail, redeliveries, self.now)
        else:
            batch = by_slot(position, tail, total, list(groups.items()), redeliveries, self.now)
            for part in batch.parts:
                part.opaque = entry.opaque
            kept_back = sum(1 << index for index, slot in enumerate(entry.slots) if slot is None)
            self.dispatcher.receive_batch(batch, self.now, kept_back)

    def confirm(self, count: int) -> None:
        """The broker confirms the oldest acks on their way."""
        confirmed, self.acks_in_flight = self.acks_in_flight[:count], self.acks_in_flight[count:]
        self.acked_at_broker.update(confirmed)
        self.dispatcher.outstanding.confirmed(confirmed)

    def reconnect(self, *, seen: int, forgotten: int) -> None:
        """The broker lost our consumer after it saw `seen` unconfirmed acks, and forgot `forgotten` confirmed ones."""
        self.acked_at_broker.update(self.acks_in_flight[:seen])
        self.acks_in_flight = []
        self.acked_at_broker -= set(sorted(self.acked_at_broker)[-forgotten:] if forgotten else ())
        expected = sorted(self.dispatcher.outstanding.unconfirmed)
        self.dispatcher.outstanding.acks = expected
        self._take_acks()
        self.asked.clear()
        for position, entry in self.entries.items():
            entry.asked = 0
            if position not in self.acked_at_broker and position > self.mark_deleted:
                entry.redeliveries += 1
                self._offer(entry)

    def mark_delete(self, position: int) -> None:
        """An operator skipped everything up to the position; what clients have they may still acknowledge."""
        held = {message for client in self.clients for message in self.in_hands(client)}
        dropped = [m for messages in self.by_slot.values() for m in messages if m[0] <= position]
        lost = {message for message in dropped if message not in held} - self.done
        assert reposition.discard_up_to(self.dispatcher, position, self.now) == len(lost)
        self.done |= lost
        self.mark_deleted = max(self.mark_deleted, position)

    def _take_acks(self) -> None:
        outstanding = self.dispatcher.outstanding
        acks, outstanding.acks = outstanding.acks, []
        for position in acks:
            assert self.done.issuperset(self.entries[position].messages()), "G3: acknowledged upstream too early"
        self.acks_in_flight += acks
        indexes, outstanding.index_acks = outstanding.index_acks, {}
        for position, batch in indexes.items():
            entry, unacked = self.entries[position], batch.unacked
            assert not self.done.issuperset(entry.messages()), "an index ack for an entry that is done"
            if not entry.opaque:
                left = sum(1 << index for at, index in entry.messages() if (at, index) not in self.done)
                assert unacked == left, "an index ack says something else than the clients did"

    # ---- clients ----------------------------------------------------------------------------------------------

    def join(self, worker: Worker) -> Client:
        """A worker joins. Raises what the selector raises, having changed nothing."""
        if self.dispatcher.mode is OrderingMode.LAST_SENT_POSITION:
            self.flush()
        last_sent = self._last_sent()
        membership.join(self.dispatcher, worker, self.now)
        client = Client(worker)
        if self.clients:
            assert self.turn_open or worker.last_sent_position_when_joining == last_sent
            if self.dispatcher.mode is OrderingMode.LAST_SENT_POSITION:
                client.gate = last_sent
        self.clients.append(client)
        return client

    def _last_sent(self) -> int | None:
        """PIP-282: everything at or below was sent."""
        sent = None
        for position, entry in sorted(self.entries.items()):
            waits = {part.position for part in self.dispatcher.waiting_parts()}
            if position in waits and not all(m in self.delivered or m in self.done for m in entry.messages()):
                return position - 1
            sent = position
        return sent

    def leave(self, client: Client) -> None:
        """A worker goes; what it had waits again."""
        self.clients.remove(client)
        self._undone(client.held.values())
        membership.leave(self.dispatcher, client.worker, self.now)
        assert not client.worker.outbox
        assert membership.leave(self.dispatcher, client.worker, self.now) == []

    def flow(self, client: Client, permits: int) -> None:
        """A client grants permits."""
        client.budget += permits
        self.dispatcher.flow(client.worker, permits, self.now)

    def ack(self, client: Client, key: int, bits: int = 0) -> None:
        """A client acknowledges a delivery, but for the messages whose bits are set; perhaps late or not its own."""
        known = key in client.worker.pending
        if known and key not in client.seen:
            return  # On its way and not sent: no client can name it.
        if bits:
            accepted = acknowledgement.ack_indexes(self.dispatcher, client.worker, key, bits, self.now)
        else:
            accepted = acknowledgement.ack(self.dispatcher, client.worker, key, self.now)
        assert accepted == known
        if key in client.held:
            assert known, "a client has a delivery that the dispatcher does not know of"
        if not known:
            return
        messages = client.held.get(key) or client.seen[key]
        self.done.update(message for bit, message in enumerate(messages) if not bits >> bit & 1)
        if self.done.issuperset(messages):
            client.held.pop(key, None)
        elif key not in client.held:
            # A late ack of some messages: what was about to be sent once more is put together anew.
            self._undone([messages])

    def nack(self, client: Client, keys: Iterable[int] | None) -> None:
        """A client wants deliveries again."""
        keys = None if keys is None else list(keys)
        returned = list(client.held) if keys is None else [key for key in dict.fromkeys(keys) if key in client.held]
        given_back = [client.held.pop(key) for key in returned]
        self._undone(given_back)
        if self.policy.retry_delay_s:
            again = (message for messages in given_back for message in messages if message not in self.done)
            self.retry_at.update(dict.fromkeys(again, self.now + self.policy.retry_delay_s))
        acknowledgement.redeliver(self.dispatcher, client.worker, keys, self.now)

    def change_policy(self, policy: KeyPolicy) -> None:
        """An operator's order; what was decided before it has left."""
        self.flush()
        policy_change.change_key_policy(self.dispatcher, policy, self.now)
        self.policy = policy if self.ordered else NO_POLICY
        if not self.policy.retry_delay_s:
            self.retry_at.clear()

    def _undone(self, deliveries: Iterable[list[Message]]) -> None:
        """An entry that only goes whole comes back whole, whatever was acknowledged of it."""
        for messages in deliveries:
            if self.entries[messages[0][0]].opaque:
                self.done.difference_update(messages)

    def in_hands(self, client: Client) -> set[Message]:
        """What is pending at a worker by the dispatcher's tables, on its way or there."""
        parts = client.worker.pending.values()
        return {(part.position, index) for part in parts for index in part.message_indexes()} - self.done

    @staticmethod
    def unended(client: Client) -> set[Message]:
        """What a worker has and has not acknowledged, by the dispatcher's tables."""
        found = set()
        for part in client.worker.pending.values():
            indexes = part.message_indexes()
            found |= {(part.position, index) for bit, index in enumerate(indexes) if not part.acked >> bit & 1}
        return found

    # ---- what is sent -----------------------------------------------------------------------------------------

    def flush(self) -> None:
        """The end of a turn: outboxes leave, if they may."""
        if self.dispatcher.endings is not None:
            self.record.read(self.dispatcher.endings)
        if not self.may_deliver():
            return
        by_worker = {id(client.worker): client for client in self.clients}
        for worker in self.dispatcher.take_touched():
            units, worker.outbox = worker.outbox, []
            for unit in units:
                self._deliver(by_worker[id(worker)], unit)

    def _deliver(self, client: Client, unit: Part) -> None:
        entry = self.entries[unit.position]
        messages = [(unit.position, index) for index in unit.message_indexes()]
        assert unit.position not in self.dispatcher.outstanding.spill.sizes, "sent without its bytes"
        assert messages == sorted(messages)
        assert unit.count == len(messages)
        assert (unit.key == unit.position) == (len(messages) == len(entry.slots)), "a real id means the whole entry"
        assert unit.key not in client.held, "two deliveries at one worker by one key"
        if entry.opaque:
            assert len(messages) == len(entry.slots), "an opaque entry was cut"
            assert client.budget > 0, "G5"
        else:
            assert unit.count <= client.budget, "G5: more than granted"
        client.budget -= unit.count
        for message in messages:
            self._deliver_message(client, message)
        returned = max(self.delivered[message] for message in messages) - 1
        assert bool(returned) <= bool(unit.redeliveries) <= bool(returned or entry.redeliveries)
        if self.dispatcher.endings is not None:
            self.record.sent(client.worker, messages, unit.attempts)
        self._check_policy(client, messages, opaque=entry.opaque)
        client.held[unit.key] = messages
        client.seen[unit.key] = messages

    def _check_policy(self, client: Client, messages: list[Message], *, opaque: bool) -> None:
        """A delivery is of one slot then, within its window, and no retry comes before its time."""
        for message in messages:
            assert self.retry_at.pop(message, self.now) <= self.now, "sent again before its pause was over"
        if self.policy.neutral:
            return
        (slot,) = {self.slot_of(message) for message in messages}
        there = client.unacked(self.done).intersection(self.by_slot[slot])
        assert not self.policy.window or len(there) + len(messages) <= self.policy.window or (opaque and not there)

    def _deliver_message(self, client: Client, message: Message) -> None:
        assert message not in self.done, "an acknowledged message was sent"
        for other in self.clients:
            assert message not in other.unacked(self.done), "G4: sent twice, although nobody gave it back"
        slot = self.slot_of(message)
        if self.ordered:
            siblings = self.by_slot[slot]
            for earlier in siblings[: siblings.index(message)]:
                there = earlier in self.done or earlier in client.unacked(self.done) or earlier[0] == message[0]
                assert there, f"G2: {message} overtakes {earlier}"
            for other in self.clients:
                if other is not client:
                    assert not other.unacked(self.done).intersection(siblings), "G1: a slot at two workers"
        if client.gate is not None:
            assert message[0] <= client.gate, "PIP-282: sent behind a join position that is not done"
        self.delivered[message] = self.delivered.get(message, 0) + 1

    # ---- after every step -------------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything that must hold between calls."""
        self._open_gates()
        check_interval(self)
        check_retries(self)
        if not self.turn_open:
            self.flush()
            if self.may_deliver():
                if self.dispatcher.endings is not None:
                    self.record.compare({client.worker: self.unended(client) for client in self.clients})
                assert not any(client.worker.outbox for client in self.clients)
        self._take_acks()
        if self.policy.share:
            spilling.spill(self.dispatcher, LOOK_AHEAD, BUDGET_BYTES, self.now)
        for position in spilling.take_wants(self.dispatcher, self.now):
            self.entries[position].asked += 1
            self.asked.append(position)
        check_tables(self)
        check_wake_ups(self)

    def may_have(self, slot: int) -> bool:  # noqa: ARG002 - a group's replica has not all
        """Whether the slot is ours to deliver."""
        return True

    def may_deliver(self) -> bool:
        """Whether anything is, now."""
        return True

    def _open_gates(self) -> None:
        for client in self.clients:
            if client.gate is not None and all(
                self.done.issuperset(e.messages()) for p, e in self.entries.items() if p <= client.gate
            ):
                client.gate = None

    @property
    def unfinished(self) -> list[int]:
        """Entries with a message nobody acknowledged."""
        return [p for p, entry in self.entries.items() if not self.done.issuperset(entry.messages())]

    def drain(self, fresh: Iterable[Worker]) -> None:
        """The end: everybody gets permits and acknowledges everything; `fresh` join if slots have no owner."""
        self.turn_open = False
        self.dispatcher.resume(self.now)
        if self.unfinished:
            for worker in fresh:
                self.join(worker)
        for client in self.clients:
            self.dispatcher.set_writable(client.worker, True, self.now)
            self.dispatcher.set_drained(client.worker, False, self.now)
        for _ in range(10_000):
            if not self.unfinished:
                break
            self.now += 1.0
            self.answer(len(self.asked))
            if self.dispatcher.outstanding.spill.asked and not self.asked:
                self.mark_delete(self.mark_deleted)  # as when the broker, asked in vain, tells where the cursor stands
            for client in self.clients:
                self.flow(client, 3)
                self.check()
                for key in list(client.held):
                    self.ack(client, key)
                    self.check()
        assert not self.unfinished, "something is left that nobody gets"
        self.confirm(len(self.acks_in_flight))
        assert self.acked_at_broker.issuperset(p for p in self.entries if p > self.mark_deleted)
        dispatcher = self.dispatcher
        assert not dispatcher.blocked
        assert not dispatcher.gated
        assert not dispatcher.chunked
        assert not dispatcher.outstanding.entries
        assert not dispatcher.outstanding.unconfirmed
        assert dispatcher.outstanding.bytes_held == dispatcher.waiting_messages == 0
        assert len(dispatcher.slots) == len(dispatcher.draining) == len(dispatcher.unblocking.held) == 0
        assert dispatcher.due_at is None
        assert dispatcher.outstanding.spill.messages == len(dispatcher.outstanding.spill.times) == 0
        assert not dispatcher.retries.held
        for client in self.clients:
            assert client.worker.unacked == 0
            assert client.worker.permits == client.budget
            assert not client.worker.pending
            assert not client.worker.ready


def slots_in(part: Part) -> list[tuple[int, bool]]:
    """Slot of each of a part's messages, and whether it is acknowledged."""
    return [
        (part.slot if part.slots is None else part.slots[index], bool(part.acked >> bit & 1))
        for bit, index in enumerate(part.message_indexes())
    ]


def _cost(entry: Part | Batch) -> int:
    """As `size_of`, counted anew."""
    if isinstance(entry, Part):
        return size_of(entry)
    slots = MIXED_MESSAGE_BYTES * entry.total if entry.slots is not None else 0
    return len(entry.tail) + slots + PART_BYTES * len(entry.parts)


def check_tables(world: World) -> None:
    """The dispatcher's tables against a recount of what is pending and what waits."""
    dispatcher = world.dispatcher
    in_flight: dict[int, list[Worker]] = {}
    placed: list[int] = []
    for worker in dispatcher.workers.values():
        parts = worker.pending.values()
        placed += map(id, parts)
        assert all(part.holder is worker for part in parts)
        assert worker.unacked == sum(part.remaining for part in parts)
        for part in parts:
            for slot, acked in slots_in(part):
                if not acked:
                    in_flight.setdefault(slot, []).append(worker)
    for queue in [worker.ready for worker in dispatcher.workers.values()] + [
        blocked.parts for blocked in dispatcher.blocked.values()
    ]:
        assert [p.order for p in queue] == sorted(p.order for p in queue)
        assert all(part.holder is None and not part.acked for part in queue)
        placed += map(id, queue)
    for slot, blocked in dispatcher.blocked.items():
        assert blocked.parts, "an empty slot is blocked"
        assert all({each for each, _ in slots_in(part)} == {slot} for part in blocked.parts)
    waiting = list(dispatcher.waiting_parts())
    entries = dispatcher.outstanding.entries
    known = [part for e in entries.values() for part in (e.parts if isinstance(e, Batch) else [e])]
    assert sorted(map(id, known)) == sorted(placed), "a part must wait or be pending, once"
    assert all(part.slot == slots_in(part)[0][0] for part in known)
    assert all(e.parts for e in entries.values() if isinstance(e, Batch))
    assert set(entries) == set(world.unfinished)
    held = sum(map(_cost, entries.values())) + BLOCKED_SLOT_BYTES * len(dispatcher.blocked)
    assert dispatcher.outstanding.bytes_held == held, "G7"
    assert dispatcher.waiting_messages == sum(part.count for part in waiting), "G7"
    spill = dispatcher.outstanding.spill
    assert spill.messages == sum(part.count for part in waiting if not part.tail)
    assert {position for position, entry in entries.items() if not entry.tail} == set(spill.sizes)
    assert all(part.tail is e.tail for e in entries.values() if isinstance(e, Batch) for part in e.parts)
    assert set(spill.asked) <= set(spill.sizes)
    assert set(spill.times) <= set(entries)
    by_slot = Counter(slot for part in waiting for slot, _ in slots_in(part))
    assert dispatcher.waiting_by_slot() == by_slot
    assert all(sum(part.unacked_of(slot) for part in dispatcher.waiting_in(slot)) == by_slot[slot] for slot in by_slot)
    if not world.ordered:
        in_flight = {}
    assert {slot: (holder, count) for slot, holder, count in dispatcher.slots.in_range(0, 65_536)} == {
        slot: (holders[0].index, len(holders)) for slot, holders in in_flight.items()
    }
    assert all(len(set(map(id, holders))) == 1 for holders in in_flight.values()), "G1"
    draining = {slot for slot, holders in in_flight.items() if holders[0] is not dispatcher.select(slot)}
    assert set(dispatcher.draining.slots()) == draining
    assert len(dispatcher.draining) == len(draining)
    for worker in dispatcher.workers.values():
        assert worker.draining_slots == sum(in_flight[slot][0] is worker for slot in draining)
    gated = sorted((c for c in world.clients if c.gate is not None), key=lambda c: c.gate or 0)
    assert [c.worker for c in gated] == join_gates.workers(dispatcher.gated)
    for gate in dispatcher.gated:
        outstanding = sum(position <= gate.position for position in entries)
        assert join_gates.outstanding_up_to(dispatcher.gated, gate) == outstanding > 0
        assert all(worker.join_gate is gate for worker in gate.workers)


def check_interval(world: World) -> None:
    """PIP-379 rule 5: what drained and came free waits until the interval ends, and no moment longer.

    Plays the caller's timer too, which may be late by a step.
    """
    dispatcher, unblocking = world.dispatcher, world.dispatcher.unblocking
    for slot, holder in world.blocked.items():
        if slot in dispatcher.draining or slot in unblocking.held:
            continue
        here = dispatcher.slots.holder(slot)
        returned = holder.index == here and dispatcher.workers.get(here) is holder
        dropped = not here and not dispatcher.waiting_in(slot)
        assert returned or dropped, f"slot {slot} went on before the interval was over"
    if unblocking.due_at is not None and world.released_at is None:
        assert unblocking.due_at == world.looked_at + world.interval_s
    elif unblocking.due_at is not None:
        assert unblocking.due_at == world.released_at, "the interval of those that wait was made longer"
    assert (unblocking.due_at is None) == (len(unblocking.held) == 0)
    if unblocking.due_at is not None and world.now >= unblocking.due_at:
        dispatcher.unblock(world.now)
        assert not unblocking.held, "the interval is over and a slot is held"
    world.released_at = unblocking.due_at
    world.looked_at = world.now
    draining = {slot: dispatcher.workers[dispatcher.slots.holder(slot)] for slot in dispatcher.draining.slots()}
    world.blocked = {
        slot: holder for slot, holder in draining.items() if world.interval_s and slot in dispatcher.blocked
    }


def check_retries(world: World) -> None:
    """A slot waits as long as a message of it must, and no longer. Plays the caller's timer too."""
    dispatcher, retries = world.dispatcher, world.dispatcher.retries
    for slot, until in retries.held.items():
        assert until <= max(world.retry_at.get(message, 0.0) for message in world.by_slot[slot])
    assert retries.due_at == min(retries.held.values(), default=None)
    if retries.due_at is not None and world.now >= retries.due_at:
        dispatcher.unblock(world.now)
    assert all(until > world.now for until in retries.held.values())
    assert all(slot in dispatcher.blocked for slot in retries.held)


def check_wake_ups(world: World) -> None:
    """G6, and the ready queues that see to it."""
    dispatcher = world.dispatcher
    gates = {client.worker.index: client.gate for client in world.clients}

    def target_of(slot: int) -> Worker | None:
        owner = dispatcher.select(slot)
        holder = dispatcher.slots.holder(slot)
        target = owner if owner is not None and holder in {0, owner.index} and world.may_have(slot) else None
        if slot in dispatcher.unblocking.held:
            assert world.ordered
            assert not holder, "a slot that somebody holds is held for the interval's end"
            return None
        return target if slot not in dispatcher.retries.held else None

    for slot, blocked in dispatcher.blocked.items():
        target = target_of(slot)
        if target is not None:
            awaited = blocked.parts[0].position in dispatcher.outstanding.spill.asked
            assert awaited or beyond_window(world, slot, target, blocked.parts[0]), "G6: a slot waits for nothing"
    assert all(slot in dispatcher.blocked for slot in dispatcher.unblocking.held)
    for worker in dispatcher.workers.values():
        if not dispatcher.retries.held:
            assert all(target_of(slot) is worker for part in worker.ready for slot, _ in slots_in(part))
        willing = worker.writable and not worker.drained_by_operator and not worker.over_unacked
        assert worker.open == willing
        gate = gates[worker.index]
        stopped = dispatcher.paused or not world.may_deliver()
        if worker.ready and (gate is None or worker.ready[0].position <= gate):
            awaited = worker.ready[0].position in dispatcher.outstanding.spill.asked
            assert stopped or not willing or worker.permits <= 0 or awaited, "G6: a message lies before an open door"
        if worker.max_unacked:
            assert worker.over_unacked >= (worker.unacked >= worker.max_unacked)
            assert worker.over_unacked <= (worker.unacked > worker.max_unacked // 2)


def beyond_window(world: World, slot: int, target: Worker, head: Part) -> bool:
    """Whether the slot's worker has as many messages of it as it may, or will with those that stand in its queue."""
    if not world.policy.window:
        return False
    there = world.dispatcher.slots.count(slot)
    there += sum(part.unacked_of(slot) for part in target.ready)
    room = world.policy.window - there
    return room <= 0 or (not head.divisible and there > 0 and head.count > room)
