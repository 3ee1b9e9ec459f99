"""A subscription's dead letter topic at the brokers, and what a gateway owes to what it gives up.

Held against every frame that the gateway sends there, within one life of the subscription: what is given up has used
its attempts (`attempts`), and no worker has it now. Of a chunked message all pieces are; and none of them is
acknowledged before a client of the topic can put the message together, unless its worker asked for what it had of it.

A message that the topic has is done: it may be acknowledged on the original topic, and what is newer of its key may be
delivered. Before that nothing of its key may overtake it, since no worker has acknowledged it (G2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.wire.metadata import peek
from tests.sim.own_topics import OwnTopic
from tests.sim.seats import Violation, numbers_in

if TYPE_CHECKING:
    from proxy.wire import pulsar_pb2 as pb
    from tests.sim.attempts import Attempts
    from tests.sim.checkers import Model


class DeadLetters(OwnTopic):
    """The topic. What it has it keeps, whatever becomes of its broker."""

    def __init__(self, name: str, model: Model, attempts: Attempts) -> None:
        """Of the subscription that `model` judges."""
        super().__init__(name)
        self._model = model
        self._attempts = attempts
        self._has: set[int] = set()
        self._begun: dict[str, int] = {}
        """Of chunked messages, how many pieces a client of the topic has in a row, by uuid."""
        self._whole: set[int] = set()
        """First pieces of those that it has put together."""
        self._given_up: set[int] = set()
        """Messages that were, in this life."""

    @property
    def total(self) -> int:
        """Messages that it has, each counted once."""
        return len(self._has)

    def has(self, number: int) -> bool:
        """Whether it has the message; of a piece, whether its message can be put together."""
        pieces = self._model.pieces_of(number)
        if number not in self._has or len(pieces) == 1 or pieces[0] in self._whole | self._attempts.dropped:
            return number in self._has
        return any(self._model.was_acked(piece) for piece in pieces if piece not in self._has)

    def gave_up(self, number: int) -> bool:
        """Whether this life of the subscription sent the message there."""
        return number in self._given_up

    def new_life(self) -> None:
        """The gateway has another memory."""
        self._given_up.clear()

    # ---- on its way

    def goes(self, tail: bytes) -> None:
        """The gateway sends this to a broker."""
        for number in numbers_in(tail)[0]:
            self._goes(number)

    def _goes(self, number: int) -> None:
        if self._model.unsettled:
            return
        pieces = self._model.pieces_of(number)
        for piece in pieces:
            if piece in self._model.holder:
                raise Violation(f"dead letters: {number} is given up, and {piece} at {self._model.holder[piece].name}")
        problem = self._attempts.why_not(number, begun=not self._given_up.isdisjoint(pieces))
        if problem:
            raise Violation(f"dead letters: message {number} is given up {problem}")
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
            self._whole.add(self._model.pieces_of(number)[0])
