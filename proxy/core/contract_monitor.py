"""Checks the contract on what really arrived, left and was acknowledged, for a sample of hash slots.

Problem: the dispatcher keeps the order of keys by its own tables. If one of them is wrong, everything that is asked of
it agrees with the error, and an operator learns of it from corrupted data. So this keeps books of its own, for one slot
in a thousand: of each message that came, whether it waits or which worker has it. It is told where entries arrive,
where frames are written to sockets, and where acknowledgements and requests for redelivery are read. It decides
nothing.

Rules held against each delivery (docs/concepts.md, "The contract"):

- `Kind.TWO_WORKERS`: no other worker has an unacknowledged message of the slot.
- `Kind.OVERTAKEN`: no earlier message of the slot waits.
- `Kind.SENT_TWICE`: the worker does not have the message already.

No false alarm is worth more than a missed one, so only what is known is judged, and where that could be wrong it is
forgotten: a message counts from its arrival on, if it is later than all of its slot that came before (not after a seek,
nor a delayed one); a transaction's acknowledgement is taken for its end; what was redriven from a parking topic, and
the rest of a chunked message that its worker has begun, are exceptions of the contract. Before the alarm the entries
that are here are asked for the other message: it may be in a dead letter topic meanwhile, or skipped by an operator.

Memory: `MESSAGES_MAX` messages of a subscription are followed at most, some 400 bytes each, and `NAMED_MAX` are named
in deliveries, 8 bytes each. Clients choose what they acknowledge and give back, how often, and in what portions. So a
message of a delivery is acknowledged once, and a delivery given back once.

Specification: design section 1; PIP-379.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import compress
from typing import TYPE_CHECKING, Final

from proxy.core.contract_violations import KINDS, Kind, Violation
from proxy.core.entry import Batch
from proxy.core.index_bits import bits_to_indexes

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Sequence

    from proxy.core.contract_sample import Sample
    from proxy.core.contract_violations import ContractTotals
    from proxy.core.entry import Part
    from proxy.core.worker import Worker

MESSAGES_MAX: Final = 5_000
"""Messages of one subscription that are followed at once; what comes beyond is not judged."""
NAMED_MAX: Final = 500_000
"""Messages that deliveries of parts of batches list, watched or not; an entry beyond that is not judged."""
KEPT_MAX: Final = 100
"""Violations kept for the caller, who takes them once a turn; all are counted."""


class _Slot:
    """What is known of one slot."""

    __slots__ = ("highest", "holders", "number", "waiting")

    def __init__(self, number: int) -> None:
        self.number = number
        self.highest = -1
        """Position of the last message that came."""
        self.holders: dict[Worker, int] = {}
        """Workers that have messages of it, with how many: one, if all is well."""
        self.waiting: list[tuple[int, int]] = []
        """A heap of positions and indexes, each once; of what waits no more, too, until it comes to the top."""


class _Message:
    __slots__ = ("holder", "is_listed", "slot")

    def __init__(self, slot: _Slot) -> None:
        self.slot = slot
        self.holder: Worker | None = None
        """None while it waits."""
        self.is_listed = True
        """Whether it is in its slot's `waiting`."""


class _Entry:
    __slots__ = ("deliveries", "messages", "named", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.messages: dict[int, _Message] = {}
        """Those that are watched and not acknowledged, by their index in the entry."""
        self.deliveries: list[tuple[Worker, int]] = []
        """To whom, and by which key; each once."""
        self.named = 0
        """Messages that they list."""


class _Delivery:
    __slots__ = ("entry", "indexes", "is_out", "named", "unacked")

    def __init__(self, entry: _Entry, indexes: Sequence[int], named: int) -> None:
        self.entry = entry
        self.indexes = indexes
        """In the order delivered, which an ack set counts by; also of messages that are not watched."""
        self.named = named
        """How many they are, if they are listed one by one."""
        self.unacked = (1 << len(indexes)) - 1
        """A bit for each of them that the worker has not acknowledged."""
        self.is_out = True
        """False once it was given back: its messages may be at the same worker again, in other deliveries."""


class ContractMonitor:
    """Of one ordered subscription."""

    __slots__ = (
        "_entries",
        "_followed",
        "_named",
        "_outstanding",
        "_sample",
        "_slots",
        "_totals",
        "held",
        "news",
        "violations",
        "watched",
    )

    def __init__(self, sample: Sample, outstanding: dict[int, Part | Batch], totals: ContractTotals) -> None:
        """Nothing has come. `outstanding` has the entries that are here, by position; only asked before an alarm."""
        self._sample = sample
        self._outstanding = outstanding
        self.watched = sample.flags
        """1 for each slot that is: looked at for every message."""
        self._totals = totals
        self._slots: dict[int, _Slot] = {}
        self._entries: dict[int, _Entry] = {}
        self._followed = 0
        self._named = 0
        self.held: dict[Worker, dict[int, _Delivery]] = {}
        """Deliveries that were made, by worker and by the key that it acknowledges them by; also what it gave back."""
        self.violations: dict[str, int] = dict.fromkeys(KINDS, 0)
        """By kind."""
        self.news: list[Violation] = []
        """Those the caller has not taken."""

    # ---- from the broker

    def arrived(self, position: int, slot: int, count: int) -> None:
        """An entry came whose messages all have this slot, which is watched."""
        self._arrived(position, slot, range(count))

    def arrived_batch(self, position: int, slots: Sequence[int], wanted: Sequence[int] | None) -> None:
        """A batch came, with the slot of each message; `wanted` are the indexes of those that are to be delivered."""
        if self._sample.slots.isdisjoint(slots):
            return
        flags = self._sample.flags
        those = None if wanted is None else frozenset(wanted)
        by_slot: dict[int, list[int]] = {}
        # Few are watched: what is not is passed over in C.
        for index in compress(range(len(slots)), map(flags.__getitem__, slots)):
            if those is None or index in those:
                by_slot.setdefault(slots[index], []).append(index)
        for slot, indexes in by_slot.items():
            self._arrived(position, slot, indexes)

    def _arrived(self, position: int, number: int, indexes: Sequence[int]) -> None:
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = _Slot(number)
        if position <= slot.highest or self._followed + len(indexes) > MESSAGES_MAX:
            return
        slot.highest = position
        entry = self._entries.get(position)
        if entry is None:
            entry = self._entries[position] = _Entry(position)
        if len(slot.waiting) > 2 * MESSAGES_MAX:
            self._tidy(slot)
        for index in indexes:
            entry.messages[index] = _Message(slot)
            heappush(slot.waiting, (position, index))
        self._followed += len(indexes)

    def _tidy(self, slot: _Slot) -> None:
        """Messages that are followed no more wait behind one that stays: it is overtaken again and again."""
        entries = self._entries
        slot.waiting = [each for each in slot.waiting if each[0] in entries and each[1] in entries[each[0]].messages]
        heapify(slot.waiting)

    # ---- to workers

    def sent(self, worker: Worker, units: Iterable[Part]) -> None:
        """These were written to the worker's socket, in this order."""
        entries, flags = self._entries, self._sample.flags
        if not entries:
            return
        for unit in [each for each in units if flags[each.slot] or (each.count > 1 and each.slots is not None)]:
            entry = entries.get(unit.position)
            if entry is not None and not unit.foreign:
                self._sent(worker, unit, entry)

    def _sent(self, worker: Worker, unit: Part, entry: _Entry) -> None:
        indexes, messages = unit.message_indexes(), entry.messages
        watched = list(filter(messages.__contains__, indexes))
        if not watched:
            return
        before = self.held.get(worker, {}).get(unit.key)
        named = 0 if unit.indexes is None else len(indexes)
        more = named if before is None else named - before.named
        if self._named + more > NAMED_MAX:
            self._forget_entry(entry)
            return
        if before is None:
            entry.deliveries.append((worker, unit.key))
        entry.named += more
        self._named += more
        self.held.setdefault(worker, {})[unit.key] = _Delivery(entry, indexes, named)
        last: dict[_Slot, int] = {}
        for index in watched:
            message = messages[index]
            self._totals.checked_messages += 1
            holder = message.holder
            if holder is worker:
                self._violated(Kind.SENT_TWICE, message.slot, entry.position, index, worker, entry.position, index)
                continue
            if holder is not None:
                self._let_go(message, holder)
                self._violated(
                    Kind.TWO_WORKERS, message.slot, entry.position, index, worker, entry.position, index, holder.name
                )
            message.holder = worker
            message.slot.holders[worker] = message.slot.holders.get(worker, 0) + 1
            last[message.slot] = index
        begun = unit.chunk is not None and unit.chunk.index > 0
        for slot, index in last.items():
            if len(slot.holders) > 1:
                self._check_holders(slot, entry.position, index, worker)
            if not begun:
                self._check_order(slot, entry.position, index, worker)

    def _check_holders(self, slot: _Slot, position: int, index: int, worker: Worker) -> None:
        """Messages of the slot were sent to the worker, and another has some."""
        for other in list(self._entries.values()):
            for other_index, message in list(other.messages.items()):
                holder = message.holder
                if message.slot is not slot or holder is None or holder is worker:
                    continue
                if self._is_here(other.position, other_index):
                    self._violated(
                        Kind.TWO_WORKERS, slot, position, index, worker, other.position, other_index, holder.name
                    )
                    return
                self._done(other, other_index)

    def _check_order(self, slot: _Slot, position: int, index: int, worker: Worker) -> None:
        """Messages of the slot were sent up to this one: none before it may wait."""
        waiting = slot.waiting
        while waiting and waiting[0] <= (position, index):
            first, first_index = waiting[0]
            entry = self._entries.get(first)
            message = entry.messages.get(first_index) if entry is not None else None
            if entry is None or message is None:
                heappop(waiting)
            elif message.holder is not None:
                heappop(waiting)
                message.is_listed = False
            elif self._is_here(first, first_index):
                self._violated(Kind.OVERTAKEN, slot, position, index, worker, first, first_index)
                return
            else:
                self._done(entry, first_index)

    def _is_here(self, position: int, index: int) -> bool:
        """Whether the gateway has the message still, unacknowledged."""
        entry = self._outstanding.get(position)
        if isinstance(entry, Batch):
            return any(index in part.unacked_indexes() for part in entry.parts)
        return entry is not None

    def _violated(
        self,
        kind: Kind,
        slot: _Slot,
        position: int,
        index: int,
        worker: Worker,
        other_position: int,
        other_index: int,
        other_worker: str = "",
    ) -> None:
        self.violations[kind.value] += 1
        self._totals.violations[kind.value] += 1
        if len(self.news) < KEPT_MAX:
            name = worker.name if kind is Kind.SENT_TWICE else other_worker
            self.news.append(
                Violation(kind, slot.number, position, index, worker.name, other_position, other_index, name)
            )

    # ---- from workers

    def acked(self, worker: Worker, key: int, unacked: int = 0) -> None:
        """The worker acknowledged a delivery whole, or but for the messages `unacked`, a bit for each as delivered.

        Also inside a transaction. One of what it gave back is believed: the message is judged no more.
        """
        delivery = self.held.get(worker, {}).get(key)
        if delivery is None:
            return
        entry, fresh = delivery.entry, delivery.unacked & ~unacked
        if not fresh:
            return
        delivery.unacked ^= fresh
        acked = bits_to_indexes(fresh, delivery.indexes) if unacked else delivery.indexes
        for index in list(filter(entry.messages.__contains__, acked)):
            holder = entry.messages[index].holder
            if holder is worker or holder is None:
                self._done(entry, index)

    def given_back(self, worker: Worker, keys: Iterable[int] | None) -> None:
        """The worker wants these deliveries again; None for all that it has."""
        deliveries = self.held.get(worker, {})
        for key in list(deliveries) if keys is None else keys:
            delivery = deliveries.get(key)
            if delivery is not None and delivery.is_out:
                delivery.is_out = False
                self._wait_again(worker, delivery)

    def kept_only(self, worker: Worker, kept: Container[int], wanted: Collection[int]) -> None:
        """The worker has only these deliveries, but for those it wants again."""
        self.given_back(worker, [key for key in self.held.get(worker, {}) if key not in kept or key in wanted])

    def left(self, worker: Worker) -> None:
        """The worker has left, or is to get nothing any more: what it has waits again."""
        left = self.held.pop(worker, {})
        entries: dict[int, _Entry] = {}
        for delivery in left.values():
            self._wait_again(worker, delivery)
            entry = delivery.entry
            entry.named -= delivery.named
            self._named -= delivery.named
            entries[entry.position] = entry
        for entry in entries.values():
            entry.deliveries = [each for each in entry.deliveries if each[0] is not worker]

    def forget(self) -> None:
        """What is here may be here no more, or come again: only what comes from now on is judged."""
        self._entries.clear()
        self.held.clear()
        self._followed = self._named = 0
        for slot in self._slots.values():
            slot.holders.clear()
            slot.waiting.clear()

    def _wait_again(self, worker: Worker, delivery: _Delivery) -> None:
        messages = delivery.entry.messages
        for index in delivery.indexes:
            message = messages.get(index)
            if message is not None and message.holder is worker:
                self._let_go(message, worker)
                message.holder = None
                if not message.is_listed:
                    message.is_listed = True
                    heappush(message.slot.waiting, (delivery.entry.position, index))

    def _forget_entry(self, entry: _Entry) -> None:
        for index in list(entry.messages):
            self._done(entry, index)

    def _done(self, entry: _Entry, index: int) -> None:
        """The message is not followed any more."""
        message = entry.messages.pop(index)
        self._followed -= 1
        if message.holder is not None:
            self._let_go(message, message.holder)
        if entry.messages:
            return
        if self._entries.get(entry.position) is entry:
            del self._entries[entry.position]
            self._named -= entry.named
        for worker, key in entry.deliveries:
            deliveries = self.held.get(worker)
            if deliveries is not None:
                deliveries.pop(key, None)
                if not deliveries:
                    del self.held[worker]

    def _let_go(self, message: _Message, worker: Worker) -> None:
        holders = message.slot.holders
        if holders.get(worker, 0) <= 1:
            holders.pop(worker, None)
        else:
            holders[worker] -= 1
