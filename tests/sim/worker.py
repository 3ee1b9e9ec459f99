"""Made-up workers: clients whose application works at what comes, well behaved or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import peek
from tests.sim.client import Client
from tests.sim.gateway import ADDRESS
from tests.sim.seats import numbers_in

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from tests.sim.machine import Process
    from tests.sim.network import Network

T = pb.BaseCommand
TOPIC = "persistent://public/default/orders"
SUBSCRIPTION = "workers"
EXTENSIONS = 3
"""How often more time is asked for."""
PIECES_EXPIRE_S = 60.0
"""After so long clients give a chunked message up, and acknowledge what they have of it."""


@dataclass(frozen=True)
class Temper:
    """How a worker behaves; chances are for each delivery."""

    think_s: float = 0.005
    """Mean time between a message and its ack."""
    queue: int = 50
    """Permits granted ahead; granted anew by halves."""
    stuck_chance: float = 0.0
    """That a delivery is never acknowledged."""
    nack_chance: float = 0.0
    """That it is asked for again instead."""
    all_chance: float = 0.0
    """That with it all is asked for that the worker has, by a request that names nothing."""
    poisoned_one_in: int = 0
    """Of so many messages it asks for one again each time, by their number; 0 is of none."""
    twice_chance: float = 0.0
    """That it is acknowledged twice, the second time late."""
    foreign_chance: float = 0.0
    """That another worker's message is acknowledged too."""
    by_index_chance: float = 0.0
    """That a batch is acknowledged message by message."""
    receipt_chance: float = 0.0
    """That the ack asks for a receipt."""
    extends_s: float = 0.0
    """How often it asks for more time, some times, for a delivery that it never acknowledges; 0 for not at all."""


GOOD = Temper()


@dataclass
class Delivery:
    """A message or a batch in the worker's hands."""

    ledger: int
    entry: int
    numbers: list[int]
    left: int
    """Bits of the messages not acknowledged."""
    opaque: bool = False
    """Whether it is a batch that the gateway could not open."""


class Worker(Client):
    """One client process, and what its application does with what comes."""

    def __init__(
        self,
        process: Process,
        network: Network,
        dice: random.Random,
        temper: Temper,
        subscribe: pb.CommandSubscribe,
        seen: list[tuple[int, int, list[int]]],
        meant: set[int],
        addresses: Sequence[str] = (ADDRESS,),
    ) -> None:
        """As for a client.

        `seen` collects message ids of all workers; `meant` the messages that a worker meant to acknowledge, whatever
        their ids are taken for.
        """
        self.temper = temper
        self._seen = seen
        self._meant = meant
        self._pieces: dict[str, list[Delivery]] = {}
        """Chunked messages begun, by their uuid."""
        self._owed = 0
        """Permits to grant back."""
        super().__init__(process, network, dice, subscribe, addresses)

    def _has_joined(self) -> None:
        self._flow(self.temper.queue)

    def _lose_consumer(self) -> None:
        super()._lose_consumer()
        self._owed = 0
        self._pieces.clear()

    def _message(self, frame: bytes) -> None:
        message = frames.parse_command(frame).message
        tail = frame[frames.payload_start(frame) :]
        numbers, opaque = numbers_in(tail)
        place = message.message_id.ledgerId, message.message_id.entryId
        delivery = Delivery(*place, numbers, (1 << len(numbers)) - 1, opaque)
        self._seen.append((delivery.ledger, delivery.entry, delivery.numbers))
        self._owed += len(numbers)
        if self._owed >= max(1, self.temper.queue // 2):
            self._flow(self._owed)
            self._owed = 0
        metadata = peek(tail).metadata
        if metadata.num_chunks_from_msg > 1:
            self._chunk(metadata, delivery)
        else:
            self._plan([delivery])

    def _chunk(self, metadata: pb.MessageMetadata, delivery: Delivery) -> None:
        """A piece of a message: acted on with the others, when the last has come.

        One that does not follow the piece before is given up at once, as clients do after a while.
        """
        if not metadata.chunk_id:
            begun: list[Delivery] = []
            self._pieces[metadata.uuid] = begun
            self._later(PIECES_EXPIRE_S, partial(self._give_up, metadata.uuid, begun))
        pieces = self._pieces.get(metadata.uuid, [])
        if metadata.chunk_id != len(pieces):
            self._ack(delivery, delivery.left)
            return
        pieces.append(delivery)
        if metadata.chunk_id + 1 == metadata.num_chunks_from_msg:
            self._plan(self._pieces.pop(metadata.uuid))

    def _give_up(self, uuid: str, begun: list[Delivery]) -> None:
        """The rest never came: a broker that was killed may have forgotten the ack of a beginning alone."""
        if self._pieces.get(uuid) is begun:
            for delivery in self._pieces.pop(uuid):
                self._ack_all(delivery)

    def _plan(self, deliveries: list[Delivery]) -> None:
        """What becomes of a message, in one delivery or several, is drawn when it is whole."""
        dice, temper = self._dice, self.temper
        draw = dice.random()
        if draw < temper.stuck_chance:
            if temper.extends_s:
                self._later(temper.extends_s, partial(self._extend, EXTENSIONS))
            return
        think_s = dice.expovariate(1.0) * temper.think_s
        each = temper.poisoned_one_in
        poisoned = bool(each) and any(number % each == 0 for delivery in deliveries for number in delivery.numbers)
        if not poisoned and draw >= temper.stuck_chance + temper.nack_chance:
            self._plan_acks(deliveries, think_s)
            return
        for delivery in deliveries:
            self._later(think_s, partial(self._nack, delivery))

    def _plan_acks(self, deliveries: list[Delivery], think_s: float) -> None:
        """Of one message."""
        for delivery in deliveries:
            self._plan_ack(delivery, think_s)

    def _plan_ack(self, delivery: Delivery, think_s: float) -> None:
        dice, temper = self._dice, self.temper
        if len(delivery.numbers) > 1 and dice.random() < temper.by_index_chance:
            for place in range(len(delivery.numbers)):
                self._later(think_s * (1 + place), partial(self._ack, delivery, 1 << place))
        else:
            self._later(think_s, partial(self._ack_all, delivery))
        if dice.random() < temper.twice_chance:
            self._later(think_s + dice.expovariate(1.0), partial(self._ack_all, delivery))
        if dice.random() < temper.foreign_chance:
            self._later(think_s, self._ack_foreign)

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        """Unless the consumer is another one by then: official clients forget what they had, mostly."""
        life = self._life

        def still() -> None:
            if life == self._life or self._dice.random() < 0.2:
                act()

        self.process.call_later(delay_s, still)

    def _ack_all(self, delivery: Delivery) -> None:
        self._ack(delivery, delivery.left)

    def _ack(self, delivery: Delivery, bits: int) -> None:
        delivery.left &= ~bits
        self._meant.update(n for place, n in enumerate(delivery.numbers) if not delivery.left >> place & 1)
        self._send_ack(delivery.ledger, delivery.entry, delivery.left)

    def _ack_foreign(self) -> None:
        """An id that some worker had; what it stands for may be on its way to this one just now."""
        ledger, entry, numbers = self._dice.choice(self._seen[-50:])
        self._meant.update(numbers)
        self._send_ack(ledger, entry, 0)

    def _send_ack(self, ledger: int, entry: int, left: int) -> None:
        if self._transport is None:
            return
        command = pb.BaseCommand(type=T.ACK)
        body = command.ack
        body.consumer_id, body.ack_type = self._consumer_id, pb.CommandAck.Individual
        place = body.message_id.add(ledgerId=ledger, entryId=entry)
        if left:
            place.ack_set.append(left)
        if self._dice.random() < self.temper.receipt_chance:
            body.request_id = self._new_request()
            if not self._joined:  # of a consumer that is no more: a broker's to answer, which may owe it
                self.unanswered.discard(body.request_id)
        self._send(frames.encode_command(command))

    def _extend(self, times: int) -> None:
        if not self._joined:
            return
        ask = pb.CommandGetLastMessageId(consumer_id=self._consumer_id, request_id=self._new_request())
        self._send(frames.encode_command(pb.BaseCommand(type=T.GET_LAST_MESSAGE_ID, getLastMessageId=ask)))
        if times > 1:
            self._later(self.temper.extends_s, partial(self._extend, times - 1))

    def _nack(self, delivery: Delivery) -> None:
        if self.temper.all_chance and self._dice.random() < self.temper.all_chance:
            self._life += 1  # official clients forget all that they have
            self._pieces.clear()
            self._send(commands.redeliver(self._consumer_id, []))
            return
        self._send(commands.redeliver(self._consumer_id, [(delivery.ledger, delivery.entry)]))
