"""A subscription's parking topic at the broker, and what the deployment owes to what is in it.

A message in it that is not acknowledged is parked: it may be acknowledged on the original topic. Held against every
entry and every acknowledgement here:

- what is acknowledged here was acknowledged by a worker, or its key's drop was ordered, or another copy is left;
- a worker's receipt for a redriven message means that this topic has the acknowledgement.

That nothing newer of a key is delivered before what is parked of it needs no rule of its own: no worker has
acknowledged it, so G2 says that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.wire import commands
from proxy.wire.parked import mark_of
from tests.sim.own_topics import OwnTopic, Reader, send
from tests.sim.seats import Violation, numbers_in

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from proxy.wire import pulsar_pb2 as pb
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
        self._may_drop: set[int] = set()
        """Messages that are to be deleted by order of an operator."""
        self.dropped: set[int] = set()
        """Those that were."""
        self.parked_total = self.redriven_total = 0

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

    # ---- operators

    def let_drop(self, numbers: Iterable[int]) -> None:
        """An operator has these deleted, if they are parked; what did not get there goes on, and waits for no retry."""
        numbers = list(numbers)
        self._may_drop.update(numbers)
        self.let_redrive(numbers)

    def let_redrive(self, numbers: Iterable[int]) -> None:
        """An operator has these delivered: none waits for a retry."""
        for number in numbers:
            self._model.retry_at.pop(number, None)

    def another_owner(self) -> None:
        """An order ends with the owner that took it."""
        self._may_drop.clear()

    # ---- at the broker

    def publish(self, tail: bytes) -> tuple[int, int]:
        """As the base says."""
        if mark_of(tail) is None:
            entry = len(self.entries)
            numbers, _ = numbers_in(tail)
            self._numbers[entry] = tuple(numbers)
            for number in numbers:
                self._copies.setdefault(number, set()).add(entry)
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
                self._latest.append(place.entryId)
                self._check(self._numbers.get(place.entryId, ()))
        return commands.ack_response(reader.consumer_id, body)

    def _check(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self.has(number):
                continue
            if self._model.was_acked(number):
                self.redriven_total += 1
            elif number in self._may_drop:
                self.dropped.add(number)
                self._model.no_longer_open(number)
            else:
                raise Violation(f"parked: message {number} was deleted, and no worker had acknowledged it")

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
        self._acked.difference_update(self._latest[dice.randint(0, len(self._latest)) :])
        self._latest.clear()
