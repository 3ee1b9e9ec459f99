"""A subscription's dead letter topic at the brokers, and what a gateway owes to what it gives up.

Held against every frame that the gateway sends there:

- what is given up came back from its worker after its last attempt, in this life of the gateway, and no worker has it
  now;
- that was a delivery of this message alone, unless it is of a batch that cannot be opened, and not one that a worker
  left behind together with an earlier message;
- a message that was given back so is not delivered again;
- the pieces of a chunked message share all that: its attempts are those of the piece that came back most often, and a
  worker had it in its hands if it had all of it; none of them is acknowledged before a client of the topic can put the
  message together, unless its worker asked for what it had of it.

A message that the topic has is done: it may be acknowledged on the original topic, and what is newer of its key may be
delivered. Before that nothing of its key may overtake it, since no worker has acknowledged it (G2).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import peek
from tests.sim.own_topics import OwnTopic
from tests.sim.seats import FRAME_BYTES_MAX, Violation, numbers_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.sim.checkers import Model
    from tests.sim.connection import End
    from tests.sim.seats import Seat
    from tests.sim.storage import Storage

T = pb.BaseCommand


class DeadLetters(OwnTopic):
    """The topic, and the count of attempts. What it has it keeps, whatever becomes of its broker."""

    def __init__(self, name: str, model: Model, storage: Storage, attempts_max: int) -> None:
        """Of the subscription that `model` judges."""
        super().__init__(name)
        self._model = model
        self._storage = storage
        self._attempts_max = attempts_max
        self._splitters: dict[End, frames.FrameSplitter] = {}
        self._has: set[int] = set()
        self._begun: dict[str, int] = {}
        """Of chunked messages, how many pieces a client of the topic has in a row, by uuid."""
        self._whole: set[int] = set()
        """Last pieces of those that it has put together."""
        self._dropped: set[int] = set()
        """Last pieces of those that a worker asked for again without having all of it."""
        self._came_back: Counter[int] = Counter()
        """How often a worker had a message and has it no more, in this life of the gateway."""
        self._given_back: Counter[int] = Counter()
        """How often it asked for it again."""
        self._fit: set[int] = set()
        """Messages that may be given up for how they came back last."""
        self._over: set[int] = set()
        """Messages that are not to be delivered again in this life."""
        self._given_up: set[int] = set()
        """Messages that were, in this life."""

    @property
    def total(self) -> int:
        """Messages that it has, each counted once."""
        return len(self._has)

    def has(self, number: int) -> bool:
        """Whether it has the message; of a piece, whether its message can be put together."""
        pieces = self._model.pieces_of(number)
        if number not in self._has or len(pieces) == 1 or pieces[-1] in self._whole | self._dropped:
            return number in self._has
        return any(self._model.was_acked(piece) for piece in pieces if piece not in self._has)

    def gave_up(self, number: int) -> bool:
        """Whether this life of the subscription sent the message there."""
        return number in self._given_up

    # ---- what the model tells

    def new_gateway(self) -> None:
        """It counts anew, from what the broker tells."""
        self._came_back.clear()
        self._fit.clear()

    def new_life(self) -> None:
        """The subscription begins anew; of its former life the gateway may know attempts, and may not."""
        self._given_back.clear()
        self._over.clear()
        self._given_up.clear()

    def given_back(self, seat: Seat, numbers: Sequence[int]) -> None:
        """The worker wants one delivery again, of which it has not acknowledged these messages."""
        left = self._comes_back(numbers)
        self._given_back.update(left)
        for number in left:
            pieces = self._model.pieces_of(number)
            if len(pieces) == 1 or len(self._model.pieces_at(seat, number)) == len(pieces):
                if number in self._fit and self._given_back[number] >= self._attempts_max:
                    self._over.update(pieces)
            else:
                self._dropped.add(pieces[-1])

    def claimed(self, numbers: Iterable[int]) -> None:
        """A worker has acknowledged these in a transaction: an abort is an attempt more, and never the last one."""
        self._came_back.update(numbers)
        self._fit.difference_update(numbers)

    def left_behind(self, deliveries: Iterable[Iterable[int]]) -> None:
        """A worker has gone that had all these, in the order in which it got them."""
        held = [list(delivery) for delivery in deliveries]
        there = {number for delivery in held for number in delivery}
        earlier = False
        for delivery in held:
            left = self._comes_back(delivery)
            pieces = self._model.pieces_of(left[-1]) if left else []
            if len(pieces) > 1 and left[-1] != pieces[-1]:
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

    def delivered(self, seat: Seat, number: int, *, anew: bool) -> None:
        """A worker gets the message; `anew` if the gateway may have forgotten it since it had it last."""
        if anew:
            self._over.discard(number)
            self._given_back.pop(number, None)
        if number in self._over:
            raise Violation(
                f"attempts: message {number} for {seat.name}, which came back {self._came_back[number]} times"
            )

    # ---- on its way

    def wrote(self, end: End, data: bytes) -> None:
        """The gateway sends this to a broker."""
        if end not in self._splitters:
            self._splitters[end] = frames.FrameSplitter(FRAME_BYTES_MAX)
        for frame in self._splitters[end].feed(data):
            if frames.frame_type(frame) == T.SEND:
                numbers, _ = numbers_in(frame[frames.payload_start(frame) :])
                for number in numbers:
                    self._goes(number)

    def _goes(self, number: int) -> None:
        if self._model.unsettled:
            return
        pieces = self._model.pieces_of(number)
        for piece in pieces:
            if piece in self._model.holder:
                raise Violation(f"dead letters: {number} is given up, and {piece} at {self._model.holder[piece].name}")
        attempts = max(self._came_back[n] + self._storage.messages[n].entry.redeliveries_max for n in pieces)
        if attempts < self._attempts_max:
            raise Violation(f"dead letters: message {number} is given up after {attempts} attempts")
        if number not in self._fit and self._given_up.isdisjoint(pieces):
            raise Violation(f"dead letters: message {number} is given up, and no worker had it alone or first")
        self._given_up.add(number)

    def publish(self, tail: bytes) -> tuple[int, int]:
        """As the base says."""
        numbers, _ = numbers_in(tail)
        metadata = peek(tail).metadata
        if metadata.num_chunks_from_msg > 1:
            self._read(metadata, numbers[0])
        for number in numbers:
            self._has.add(number)
            self._model.retry_at.pop(number, None)
            self._model.no_longer_open(number)
        return super().publish(tail)

    def _read(self, metadata: pb.MessageMetadata, number: int) -> None:
        """What a client of the topic does with a chunk. It drops what has one twice within, or lacks one."""
        if metadata.chunk_id not in {0, self._begun.get(metadata.uuid)}:
            self._begun.pop(metadata.uuid, None)
            return
        self._begun[metadata.uuid] = metadata.chunk_id + 1
        if metadata.chunk_id + 1 == metadata.num_chunks_from_msg:
            self._whole.add(number)

    def check_end(self) -> None:
        """Once the subscription has ended."""
        if self._producers.shared:
            raise Violation("leak: a producer of dead letters was left behind at the broker")
