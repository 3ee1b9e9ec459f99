"""How often each message came back from a worker: what may be given up, and what must.

What is given up came back after its last attempt, in this life of the gateway. That was a delivery of this message
alone, unless it is of a batch that cannot be opened, and not one that a worker left behind together with an earlier
message. What a worker has asked for again so is not delivered again in this life of the subscription.

The pieces of a chunked message share all that: its attempts are those of the piece that came back most often, and a
worker had it in its hands if it had all of it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.sim.seats import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.sim.seats import Holdings, Seat
    from tests.sim.storage import Storage


class Attempts:
    """The count, from what the gateway's edge shows."""

    def __init__(self, storage: Storage, model: Holdings, attempts_max: int) -> None:
        """None yet."""
        self._storage = storage
        self._model = model
        self._attempts_max = attempts_max
        self._came_back: Counter[int] = Counter()
        """How often a worker had a message and has it no more, in this life of the gateway."""
        self._given_back: Counter[int] = Counter()
        """How often it asked for it again."""
        self._fit: set[int] = set()
        """Messages that may be given up for how they came back last."""
        self._over: set[int] = set()
        """Messages that are not to be delivered again in this life."""
        self._anew: set[int] = set()
        """Messages of which another copy than the topic's is delivered, so that the broker's count says nothing."""

        self.dropped: set[int] = set()
        """First pieces of chunked messages that a worker asked for again without having all of it."""

    def new_gateway(self) -> None:
        """It counts anew, from what the broker tells."""
        self._came_back.clear()
        self._fit.clear()

    def new_life(self) -> None:
        """The subscription begins anew; of its former life the gateway may know attempts, and may not."""
        for known in (self._given_back, self._over, self._anew):
            known.clear()

    def begin_again(self, numbers: Iterable[int]) -> None:
        """Of these: it is another copy that is delivered from now on."""
        for number in numbers:
            self._came_back.pop(number, None)
            self._given_back.pop(number, None)
            self._fit.discard(number)
            self._over.discard(number)
            self._anew.add(number)

    def may_begin_again(self, numbers: Iterable[int]) -> None:
        """Of these: it may be another copy that is delivered from now on."""
        for number in numbers:
            self._given_back.pop(number, None)
            self._over.discard(number)

    def let_deliver(self, numbers: Iterable[int]) -> None:
        """These may be delivered again, whatever was."""
        self._over.difference_update(numbers)

    def given_back(self, seat: Seat, numbers: Iterable[int]) -> None:
        """The worker wants one delivery again, of which it has not acknowledged these messages."""
        left = self._comes_back(numbers)
        self._given_back.update(left)
        for number in left:
            pieces = self._model.pieces_of(number)
            if self._model.has_whole(seat, number):
                if number in self._fit and self._given_back[number] >= self._attempts_max:
                    self._over.update(pieces)
            else:
                self.dropped.add(pieces[0])

    def claimed(self, numbers: set[int], parked: set[int]) -> None:
        """A worker has acknowledged these in a transaction: an abort is an attempt more, and never the last one.

        But for those that are `parked`: the worker may have the copy, of which that is refused, and give it back.
        """
        self._came_back.update(numbers)
        self._fit -= numbers
        self._fit |= parked

    def left_behind(self, deliveries: Iterable[Iterable[int]]) -> None:
        """A worker has gone that had all these, in the order in which it got them."""
        held = [list(delivery) for delivery in deliveries]
        there = {number for delivery in held for number in delivery}
        earlier = False
        for delivery in held:
            left = self._comes_back(delivery)
            last = max(delivery, default=-1)  # of those that it had still: of a batch that goes whole, all come back
            pieces = self._model.pieces_of(last) if left else ()
            if left and self._model.goes_further(last):
                continue  # it gets the message with its last piece
            if earlier or not there.issuperset(pieces):
                self._fit.difference_update(left, pieces)
            earlier |= bool(left)

    def _comes_back(self, numbers: Iterable[int]) -> list[int]:
        left = [number for number in numbers if number >= 0]
        entries = [self._storage.messages[number].entry for number in left[:1]]
        whole = bool(entries) and entries[0].opaque
        if whole:
            left = list(entries[0].numbers)
        self._came_back.update(left)
        if whole:
            self._fit.update(left)
        elif len(left) == 1:
            self._fit.update(self._model.pieces_of(left[0]))
        else:
            self._fit.difference_update(left)
        return left

    def delivered(self, seat: Seat, number: int, *, anew: bool, parked: bool) -> None:
        """A worker gets the message; `anew` if the gateway may have forgotten it since it had it last.

        If it is not `parked`, the topic's copy has come, perhaps once more.
        """
        if not parked:
            self._anew.discard(number)
        if anew:
            self._over.discard(number)
            self._given_back.pop(number, None)
        if number in self._over:
            raise Violation(
                f"attempts: message {number} for {seat.name}, which came back {self._came_back[number]} times"
            )

    def used_up(self) -> list[int]:
        """Messages that may be given up."""
        return [number for number in self._fit if not self.why_not(number)]

    def why_not(self, number: int, *, begun: bool = False) -> str:
        """Why the message may not be given up; empty if it may. `begun` if a piece of it was given up already."""
        attempts = max(self._came_back[piece] + self._told(piece) for piece in self._model.pieces_of(number))
        if attempts < self._attempts_max:
            return f"after {attempts} attempts"
        return "" if begun or number in self._fit else "and no worker had it alone or first"

    def _told(self, number: int) -> int:
        return 0 if number in self._anew else self._storage.messages[number].entry.redeliveries_max
