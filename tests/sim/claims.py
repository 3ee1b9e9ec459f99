"""What workers have acknowledged in transactions, as the gateway was told: the checkers of `transactions`.

A message is claimed from the moment the gateway reads such an acknowledgement until it is refused, committed, or
delivered again. Held against every delivery:

- a message that is pending at the broker in an open transaction is delivered to no worker;
- while a worker has claimed a message in one, no other worker gets its key, whether that worker stays or not;
- what is aborted comes before what is newer of its key, unless the gateway is not told of the end for `BLIND_S`: then
  it may take the end for a commit. Where a gateway asks what is pending when it takes the subscription over, and gets
  an answer, this goes for what was acknowledged before, too.

The last two not for what was claimed in an earlier life of the subscription at the gateway, which a seek ends, too, or
refused after all: the gateway does not know of it, and the broker keeps it back, or sends it late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.sim.seats import Violation
from tests.sim.storage import bits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy.wire import pulsar_pb2 as pb
    from tests.sim.seats import Connection, Seat
    from tests.sim.storage import Entry, Storage
    from tests.sim.transactions import Coordinator, Transaction

BLIND_S = 2.0
"""So long after it knows that a transaction is gone, and not how it ended, a gateway takes it for committed."""


@dataclass(eq=False)
class _Claim:
    """Of one message."""

    seat: Seat | None
    """Who acknowledged it; None if the broker's answer will not be seen."""
    transaction: Transaction
    connection: Connection
    request_id: int
    answered: bool = False


class Claims:
    """Of one life of the subscription at the gateway."""

    def __init__(self, coordinator: Coordinator, storage: Storage, now: Callable[[], float], *, in_parts: bool) -> None:
        """`in_parts`: single messages of an entry are taken."""
        self._in_parts = in_parts
        self._coordinator = coordinator
        self._storage = storage
        self._now = now
        self._of: dict[int, _Claim] = {}
        self._by_key: dict[str, set[int]] = {}
        self._late: set[int] = set()
        """Messages that an abort gave back of which this life did not know that they were in a transaction."""
        self._refused: set[int] = set()
        """Messages of which the gateway refused it in this life, or a broker did: one may have them pending."""
        self.asks: Callable[[], bool] = bool
        """Whether this life of the subscription has waited until nothing was pending that it does not know."""
        self.is_parked: Callable[[int], bool] = lambda _number: False
        """Whether a worker has the message from the parking topic: it is acknowledged there, in no transaction."""
        self.keys: set[str] = set()
        """Those of which something was claimed in this life."""
        self.claimed: set[int] = set()
        """All messages that were, in this life, and were not delivered since: an abort gives them back."""
        self.total = 0
        """Messages that were claimed."""

    # ---- what the model tells

    def new_life(self) -> None:
        """The gateway knows of no transaction, and what was given back comes in its order."""
        self._of.clear()
        self._by_key.clear()
        self._late.clear()
        self._refused.clear()
        self.keys.clear()
        self.claimed.clear()

    def claim(self, connection: Connection, seat: Seat, body: pb.CommandAck) -> dict[tuple[int, int], set[int]]:
        """A worker acknowledged deliveries in a transaction; returns which messages of each it holds no more.

        All or none: where it does not hold one of them, an entry goes whole only, or one is redriven, the gateway
        refuses.
        """
        transaction = self._coordinator.find(body.txnid_least_bits)
        assert transaction is not None
        taken: dict[tuple[int, int], set[int]] = {}
        for place in body.message_id:
            key = place.ledgerId, place.entryId
            numbers, left = seat.held.get(key, []), bits_of(place.ack_set)
            named = {number for index, number in enumerate(numbers) if not left >> index & 1}
            if not named - {-1} or (-1 in named and (left or self._is_opaque(named))):
                return {}
            if any(map(self.is_parked, named)):
                return {}
            if not (self._in_parts or self._is_whole(named)):
                return {}
            taken[key] = named - {-1}
        for number in [number for numbers in taken.values() for number in numbers]:
            self._of[number] = _Claim(seat, transaction, connection, body.request_id)
            self._by_key.setdefault(self._key(number), set()).add(number)
            self.keys.add(self._key(number))
            self.claimed.add(number)
            self.total += 1
        return taken

    def answered(self, connection: Connection, request_id: int, *, refused: bool) -> None:
        """The worker is told what the broker says."""
        for number, claim in list(self._of.items()):
            if claim.connection is connection and claim.request_id == request_id:
                claim.answered = True
                if refused:
                    self._refused.add(number)
                    self._drop(number)

    def left(self, seat: Seat) -> None:
        """A worker's consumer has ended: answers to it are seen no more."""
        for claim in self._of.values():
            if claim.seat is seat and not claim.answered:
                claim.seat = None

    def told(self, number: int) -> None:
        """The gateway hears of a transaction's end."""
        transaction = self._coordinator.find(number)
        if transaction is not None:
            transaction.told = True

    def committed(self, numbers: Iterable[int]) -> set[int]:
        """These are acknowledged; returns those that were claimed in this life in the transaction that has ended."""
        claims = {number: self._of[number] for number in numbers if number in self._of}
        for number in claims:
            self._drop(number)
        return {number for number, claim in claims.items() if claim.transaction.ended_at is not None}

    def given_back(self, entry: Entry, bits: int) -> None:
        """The broker noticed an abort: it will send these again."""
        self._late.update(number for number in entry.numbers_in(bits) if number not in self._of)

    def open_in(self, key: str) -> int:
        """How many messages of the key are in open transactions, as the gateway must know."""
        claims = (self._of[number] for number in self._by_key.get(key, ()))
        return sum(claim.seat is not None and claim.transaction.ended_at is None for claim in claims)

    # ---- checks

    def check(self, seat: Seat, number: int, *, ordered: bool) -> None:
        """A worker is sent the message, which is one as any other from then on."""
        if self._coordinator.has_open(number):
            raise Violation(f"transaction: message {number} for {seat.name} is in one that is open")
        for other in self._by_key.get(self._key(number), ()) if ordered else ():
            claim = self._of[other]
            if claim.seat not in {None, seat} and claim.transaction.ended_at is None:
                raise Violation(f"transaction: {number} for {seat.name}, but {other} of its key is in another's")
        self._drop(number)
        self._late.discard(number)
        self.claimed.discard(number)

    def excuse(self, seat: Seat, number: int) -> bool:
        """Whether a newer message of its key may go to this worker before it."""
        claim = self._of.get(number)
        if claim is None:
            unknown = number in self._refused or not self.asks()
            return unknown and (number in self._late or self._storage.is_pending(number))
        if claim.transaction.ended_at is None or not claim.transaction.told:
            return self.is_blind(number) or claim.seat is seat
        return False

    def is_blind(self, number: int) -> bool:
        """Whether the gateway may take it for committed, since it was not told how its transaction ended."""
        claim = self._of.get(number)
        ended_at = None if claim is None or claim.transaction.told else claim.transaction.ended_at
        return ended_at is not None and self._now() >= ended_at + BLIND_S

    def _is_opaque(self, numbers: set[int]) -> bool:
        """Whether they are of a batch that the gateway takes whole only: nothing of it may be acknowledged before."""
        return self._storage.messages[max(numbers)].entry.opaque

    def _is_whole(self, numbers: set[int]) -> bool:
        """Whether they are all messages of an entry."""
        return numbers == set(self._storage.messages[max(numbers)].entry.numbers)

    def _key(self, number: int) -> str:
        return self._storage.messages[number].key

    def _drop(self, number: int) -> None:
        if self._of.pop(number, None) is not None:
            self._by_key[self._key(number)].discard(number)
