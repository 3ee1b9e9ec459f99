"""A subscription's parking topic at the broker, and what the deployment owes to what is in it.

A message in it that is not acknowledged is parked: it may be acknowledged on the original topic. Held against every
entry and every acknowledgement here:

- what is acknowledged here was acknowledged by a worker, or its key's drop was ordered, or another copy is left;
- of a chunked message that is redriven all pieces are parked;
- a worker's receipt for a redriven message means that this topic has the acknowledgement.

And of a lone gateway, which alone shows when it sends and what it tells operators:

- a message goes in when no worker has anything of its slot;
- the first of a slot does so when one of the slot has used its attempts (`attempts`); a redriven message's begin anew;
- a redrive that ends because of that does so after them.

That nothing newer of a key is delivered before what is parked of it needs no rule of its own: no worker has
acknowledged it, so G2 says that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.parked import mark_of
from tests.sim.own_topics import OwnTopic, Reader, send
from tests.sim.seats import Violation, numbers_in

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from proxy.net.events import Event
    from tests.sim.checkers import Model


class Lot(OwnTopic):
    """The topic with its one durable subscription, whose messages are acknowledged one by one."""

    def __init__(self, name: str, model: Model) -> None:
        """Of the subscription that `model` judges."""
        super().__init__(name)
        self._model = model
        self._acked: set[int] = set()
        self._latest: list[int] = []
        """Acknowledgements that are not stored yet, oldest first: a kill forgets them."""
        self._numbers: dict[int, tuple[int, ...]] = {}
        """Entry to the messages in it."""
        self._copies: dict[int, set[int]] = {}
        """Message to its entries here, also those that are acknowledged."""
        self._ordered_at_worker: set[int] = set()
        """Messages that a worker had when their key was ordered out."""
        self._stored_now: set[int] = set()
        """Entries that were stored in this life of the subscription at the gateway."""
        self._acked_now: set[int] = set()
        """Entries that were acknowledged in it."""
        self._forgotten: set[int] = set()
        """Messages of which a broker forgot that: this life knows that it is done with them, and the next does not."""
        self._may_drop: set[int] = set()
        """Messages that are to be deleted by order of an operator."""
        self.dropped: set[int] = set()
        """Those that were."""
        self.again: set[int] = set()
        """Messages that may be delivered once more: parked after a worker had acknowledged them, since the original
        topic sent them again, or with a copy of which a broker forgot that it was acknowledged."""
        self.parked_total = self.redriven_total = 0
        self.takes_one_in = 1
        """Of messages it refuses all but every so many-th, by their number; 0 takes nothing, 1 everything."""
        self.slot_of: Callable[[int], int] | None = None
        """A message's slot, where a lone gateway is judged."""
        self._parked: set[int] = set()
        """Slots that are parked, as far as this life of the subscription has shown."""

    # ---- what is in it

    def had(self, number: int) -> bool:
        """Whether the message was ever parked."""
        return number in self._copies

    def has(self, number: int) -> bool:
        """Whether it is parked."""
        return any(entry not in self._acked for entry in self._copies.get(number, ()))

    @property
    def left(self) -> list[int]:
        """Messages that are parked."""
        return [number for number in self._copies if self.has(number)]

    def owes(self, number: int) -> bool:
        """Whether the acknowledgement of a message that a worker has acknowledged is to be here: its copy is done."""
        beside = self._numbers[next(iter(self._copies[number]))] if self.had(number) else ()
        return self.has(number) and all(each in self._model.acked for each in beside)

    # ---- what a gateway does

    def goes(self, tail: bytes) -> None:
        """It sends this to a broker."""
        if mark_of(tail) is not None or self._model.unsettled or self.slot_of is None:
            return
        for number in numbers_in(tail)[0]:
            slot = self.slot_of(number)
            at = next((seat for each, seat in self._model.holder.items() if self.slot_of(each) == slot), None)
            if at is not None:
                raise Violation(f"parked: message {number} goes in, and {at.name} has something of its slot")
            if slot not in self._parked and not self._may_park(slot):
                raise Violation(f"parked: message {number} goes in, and none of its slot has used its attempts")
            self._parked.add(slot)

    def _may_park(self, slot: int) -> bool:
        assert self.slot_of is not None
        assert self._model.attempts is not None
        used_up = any(self.slot_of(number) == slot for number in self._model.attempts.used_up())
        return used_up or any(self.slot_of(number) == slot for number in [*self.left, *self._may_park_again()])

    def _may_park_again(self) -> list[int]:
        """What an earlier life parked, and the original topic has still: it may come again without an attempt left."""
        earlier = (number for number, entries in self._copies.items() if entries.isdisjoint(self._stored_now))
        return list(filter(self._model.is_owed, earlier))

    def told(self, event: Event) -> None:
        """The gateway tells its operators."""
        slot = event.facts["slot"]
        if event.kind in {"redriven", "parked_dropped"}:
            self._parked.discard(slot)
            return
        attempts = self._model.attempts
        if attempts is None or self.slot_of is None or "has used its attempts" not in event.facts["reason"]:
            return
        if not any(self.slot_of(number) == slot for number in attempts.used_up()):
            raise Violation(f"parked: the redrive of slot {slot} ends, and none of its messages has used its attempts")

    # ---- operators

    def let_drop(self, numbers: Iterable[int]) -> None:
        """An operator has these deleted, if they are parked; what did not get there goes on, and waits for no retry."""
        numbers = list(numbers)
        self._may_drop.update(numbers)
        self.let_redrive(numbers)

    def let_drop_incomplete(self, numbers: Iterable[int]) -> None:
        """An operator has those of these deleted that are pieces of messages of which an earlier piece is gone."""
        self._may_drop.update(number for number in numbers if self.has_gap(number))

    @property
    def hopeless(self) -> list[int]:
        """Pieces that are parked of messages that no client can read: the others are neither here nor there."""
        pieces = [number for number in self.left if self._is_in_part(number)]
        return [number for number in pieces if not any(map(self._may_come, self._model.pieces_of(number)))]

    def has_gap(self, number: int) -> bool:
        """Whether a piece of its message is gone that stands before one that is parked."""
        pieces = self._model.pieces_of(number)
        last = max((place for place, piece in enumerate(pieces) if self.has(piece)), default=0)
        return any(not self.has(piece) and not self._model.is_owed(piece) for piece in pieces[:last])

    def _may_come(self, number: int) -> bool:
        return self._model.is_owed(number) and not self.has(number)

    def _is_in_part(self, number: int) -> bool:
        message = self._model.message_of(number)
        return (
            message is not None
            and self.has(number)
            and not (message.is_published and all(map(self.has, message.numbers)))
        )

    def let_redrive(self, numbers: Iterable[int]) -> None:
        """An operator has these delivered: none waits for a retry."""
        numbers = list(numbers)
        for number in numbers:
            self._model.retry_at.pop(number, None)
        if self._model.attempts is not None:
            self._model.attempts.let_deliver(numbers)
        for number in numbers:
            if self.has(number):
                self._counts_anew(number)
                if number in self._model.holder:
                    self._ordered_at_worker.add(number)

    def _counts_anew(self, number: int) -> None:
        """It is a copy that is delivered from now on."""
        if self._model.attempts is not None and number not in self._model.holder:
            self._model.attempts.begin_again([number])

    def given_back(self, numbers: Iterable[int]) -> None:
        """A worker wants these again. Of an earlier redrive they are in the lot again, and the next begins anew."""
        again = self._ordered_at_worker.intersection(numbers)
        self._ordered_at_worker -= again
        if self._model.attempts is not None:
            self._model.attempts.may_begin_again(piece for number in again for piece in self._model.pieces_of(number))

    def another_owner(self) -> None:
        """An order ends with the owner that took it."""
        self._may_drop.clear()

    def new_life(self) -> None:
        """Of the subscription at a gateway. What was to be deleted may be on its way to the broker."""
        self._parked.clear()
        self._ordered_at_worker.clear()
        self._stored_now.clear()
        self._acked_now.clear()
        self.again |= self._forgotten
        self._forgotten.clear()

    # ---- at the broker

    def refuses(self, tail: bytes) -> pb.ServerError | None:
        """As the base says; what is refused of some messages only is their own fault."""
        if self.takes_one_in == 1:
            return None
        if not self.takes_one_in:
            return pb.ProducerBlockedQuotaExceededError
        taken = not tail or mark_of(tail) is not None or max(numbers_in(tail)[0]) % self.takes_one_in == 0
        return None if taken else pb.NotAllowedError

    def publish(self, tail: bytes) -> tuple[int, int]:
        """As the base says."""
        if mark_of(tail) is None:
            entry = len(self.entries)
            numbers, _ = numbers_in(tail)
            self._numbers[entry] = tuple(numbers)
            self._stored_now.add(entry)
            for number in numbers:
                self._copies.setdefault(number, set()).add(entry)
                if self._model.was_acked(number) and self._model.is_owed(number):
                    self.again.add(number)
                self._counts_anew(number)
                self._model.retry_at.pop(number, None)
            self.parked_total += len(numbers)
        return super().publish(tail)

    def acknowledge(self, reader: Reader, body: pb.CommandAck) -> bytes:
        """As the base says, one by one."""
        if not reader.durable:
            return commands.ack_response(reader.consumer_id, body)
        for place in body.message_id:
            if place.entryId not in self._acked:
                self._acked.add(place.entryId)
                self._acked_now.add(place.entryId)
                self._latest.append(place.entryId)
                self._check(self._numbers.get(place.entryId, ()))
        return commands.ack_response(reader.consumer_id, body)

    def _check(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self.has(number):
                continue
            self.again.discard(number)
            self._ordered_at_worker.discard(number)
            if self._model.was_acked(number):
                self.redriven_total += 1
            elif number in self._may_drop:
                self.dropped.add(number)
            elif not self._model.counts_late(number):
                raise Violation(f"parked: message {number} was deleted, and no worker had acknowledged it")
            self._model.no_longer_open(number)

    def dispatch(self) -> None:
        """Send what may go; what is acknowledged goes only to who has no place of its own here."""
        for reader in self.readers.values():
            while reader.permits > 0 and reader.next_entry < len(self.entries):
                entry = reader.next_entry
                reader.next_entry += 1
                if not (reader.durable and entry in self._acked):
                    send(reader, entry, self.entries[entry])

    # ---- ends

    def store_cursor(self) -> None:
        """What was acknowledged so far stays so."""
        self._latest.clear()

    def unload(self) -> None:
        """As the base says."""
        self.store_cursor()
        super().unload()

    def forget(self, dice: random.Random) -> None:
        """A broker was killed: some of the latest acknowledgements are gone."""
        forgotten = self._latest[dice.randint(0, len(self._latest)) :]
        self._acked.difference_update(forgotten)
        for entry in forgotten:
            (self._forgotten if entry in self._acked_now else self.again).update(self._numbers.get(entry, ()))
        self._latest.clear()
