"""Messages that workers acknowledged inside transactions that have not ended.

Problem: such a message is neither acknowledged nor to be delivered again: which of both, the transaction's end decides,
and after an abort it must come before what is newer of its key. Rule kept: until then it counts as held by the worker
that acknowledged it. So its slots stay with that worker, which may have the next messages of the key, as far as the
key's window goes, and no other worker may. The worker itself has it no more: it cannot ask for it again, and it does
not count against the worker's unacknowledged limit, as at the broker.

A worker that leaves meanwhile remains the holder, under its number, until its last transaction has ended.

State only; what a dispatcher does with it is in `transactional_acks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from proxy.core.entry import Part
    from proxy.core.worker import Worker

TransactionId = tuple[int, int]
"""Most and least significant 64 bits, as on the wire."""


class Held:
    """Messages of one entry, acknowledged inside a transaction."""

    __slots__ = ("confirmed", "part", "released", "since", "transaction", "worker")

    def __init__(self, part: Part, worker: Worker, transaction: TransactionId, now: float) -> None:
        """The broker has not answered yet."""
        self.part = part
        self.worker = worker
        self.transaction = transaction
        self.since = now
        self.confirmed = False
        """Whether the broker took the acknowledgement: if it sends the messages again, the transaction was aborted."""
        self.released = False
        """Whether its slots wait for it no more."""


class OpenTransactions:
    """All that is held so, of one subscription; false while there is nothing."""

    __slots__ = ("_by_position", "_by_slot", "abort", "came_again", "departed", "messages", "open")

    def __init__(self) -> None:
        """Nothing is held."""
        self._by_position: dict[int, dict[int, Held]] = {}
        """Of each entry, by its part's object id: one entry may have tens of thousands."""
        self._by_slot: dict[int, int] = {}
        """How many messages are held, and waited for."""
        self.messages = 0
        """How many messages."""
        self.came_again = 0
        """How often the broker sent some of it once more."""
        self.open: dict[TransactionId, int] = {}
        """Transactions in which something is held, and in how many pieces."""
        self.departed: dict[int, Worker] = {}
        """Workers that have left and still count as holders, by index."""
        self.abort: Callable[[Any, list[Held], float], None] | None = None
        """`transactional_acks.abort`, once something is held: the dispatcher is below it, and does not know it."""

    def __bool__(self) -> bool:
        """Whether something is held."""
        return bool(self._by_position)

    def __contains__(self, position: int) -> bool:
        """Whether something of this entry is."""
        return position in self._by_position

    def has_of(self, part: Part) -> bool:
        """Whether messages of this delivery, pending still with its others, are held."""
        held_here = self._by_position.get(part.position)
        if held_here is None:
            return False
        indexes = part.message_indexes() if part.indexes is None else frozenset(part.indexes)
        return any(held.part.message_indexes()[0] in indexes for held in held_here.values())

    def holds(self, part: Part) -> bool:
        """Whether this very part is held, and so neither waits nor is pending."""
        return id(part) in self._by_position.get(part.position, ())

    def count_of(self, slot: int) -> int:
        """How many messages of the slot are held, and waited for."""
        return self._by_slot.get(slot, 0)

    def all(self) -> list[Held]:
        """All of it, in no order."""
        return [held for each in self._by_position.values() for held in each.values()]

    def add(self, held: Held) -> None:
        """One more."""
        self._by_position.setdefault(held.part.position, {})[id(held.part)] = held
        self.messages += held.part.count
        self.open[held.transaction] = self.open.get(held.transaction, 0) + 1
        by_slot = self._by_slot
        for slot, messages in held.part.messages_by_slot():
            by_slot[slot] = by_slot.get(slot, 0) + messages
        held.worker.held_in_transactions += 1

    def release(self, held: Held) -> None:
        """Its slots wait for it no more; once."""
        held.released = True
        by_slot = self._by_slot
        for slot, messages in held.part.messages_by_slot():
            by_slot[slot] -= messages
            if not by_slot[slot]:
                del by_slot[slot]

    def take(self, helds: Iterable[Held]) -> list[Held]:
        """Those of them that are held still, which they are no more afterwards; the caller releases their slots."""
        taken = []
        for held in helds:
            position = held.part.position
            here = self._by_position.get(position, {})
            if here.get(id(held.part)) is not held:
                continue
            del here[id(held.part)]
            if not here:
                del self._by_position[position]
            self.messages -= held.part.count
            self.open[held.transaction] -= 1
            if not self.open[held.transaction]:
                del self.open[held.transaction]
            taken.append(held)
        return taken

    def offered_again(self, dispatcher: object, position: int, indexes: Sequence[int] | None, now: float) -> None:
        """The broker sends these messages of an entry once more, all if None: what is held of them was aborted.

        Not what the broker has not answered yet: it was on its way then.
        """
        wanted = None if indexes is None else set(indexes)
        again = [
            held
            for held in self._by_position.get(position, {}).values()
            if held.confirmed and (wanted is None or not wanted.isdisjoint(held.part.message_indexes()))
        ]
        if again:
            assert self.abort is not None
            self.came_again += 1
            self.abort(dispatcher, again, now)

    def clear(self) -> list[int]:
        """Forget everything, and give the indexes that workers who have left need no more."""
        for held in self.all():
            held.worker.held_in_transactions = 0
        self._by_position.clear()
        self._by_slot.clear()
        self.open.clear()
        self.messages = 0
        indexes = list(self.departed)
        self.departed.clear()
        return indexes
