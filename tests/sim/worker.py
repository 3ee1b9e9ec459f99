"""Made-up workers: clients with one Key_Shared consumer, well behaved or not, that come back when they lose it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import peek
from tests.sim.checkers import numbers_in
from tests.sim.gateway import ADDRESS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from proxy.net.ports import Transport
    from tests.sim.machine import Event, Process
    from tests.sim.network import Network

T = pb.BaseCommand
FRAME_BYTES_MAX = 8 << 20
TOPIC = "persistent://public/default/orders"
SUBSCRIPTION = "workers"
COME_BACK_S = 0.3
OPERATION_S = 30.0
"""After so long without an answer to its SUBSCRIBE a client closes the consumer and tries again."""
KEEP_ALIVE_S = 30.0
EXTENSIONS = 3
"""How often more time is asked for."""
FIRST_REFUSED_ID = (1 << 63) + 1
"""The first request id that a gateway takes for its own: a client that has counted so far is cut off."""
PIECES_EXPIRE_S = 60.0
"""After so long clients give a chunked message up, and acknowledge what they have of it."""


def key_shared(topic: str, subscription: str, name: str) -> pb.CommandSubscribe:
    """How a worker of this name subscribes, unless it wants something of its own."""
    return pb.CommandSubscribe(
        topic=topic,
        subscription=subscription,
        subType=pb.CommandSubscribe.Key_Shared,
        consumer_id=1,
        request_id=1,
        consumer_name=name,
        initialPosition=pb.CommandSubscribe.Earliest,
    )


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


class Worker:
    """One client process with one consumer. Implements `ports.Receiver`."""

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
        """`subscribe` has the consumer's name and options; it connects to any of the addresses.

        `seen` collects message ids of all workers; `meant` the messages that a worker meant to acknowledge, whatever
        their ids are taken for.
        """
        self.process = process
        self.name = subscribe.consumer_name
        self.temper = temper
        self.closed_for_good = False
        self.unanswered: set[int] = set()
        self._network = network
        self._dice = dice
        self._seen = seen
        self._meant = meant
        self._addresses = addresses
        self._pieces: dict[str, list[Delivery]] = {}
        """Chunked messages begun, by their uuid."""
        self._subscribe = pb.CommandSubscribe()
        self._subscribe.CopyFrom(subscribe)
        self._consumer_id = subscribe.consumer_id
        self._feed = frames.FrameSplitter(FRAME_BYTES_MAX).feed
        self._transport: Transport | None = None
        self._joined = False
        self._owed = 0
        """Permits to grant back."""
        self._request_id = subscribe.request_id - 1
        self._life = 0
        """Counts consumers, so that what was planned for an earlier one is told apart."""
        self._reading = True
        self._timer: Event | None = None
        self._heard = True
        self._unsubscribing: int | None = None
        """Request that deletes the subscription."""
        self.deleted = False
        """Whether it was told that this was done."""
        self._leaves = False
        """Whether it is done then, too."""
        process.call_soon(self._connect)

    # ---- what the world does to it

    def close(self) -> None:
        """The application closes its consumer and is done."""
        self.closed_for_good = True
        if self._joined:
            self._joined = False
            self._life += 1
            self._send(commands.close_consumer(self._consumer_id, self._new_request()))
        elif self._transport is not None:
            self._transport.abort()  # before it has joined there is nothing to close politely

    def stop_reading(self) -> None:
        """Leave the socket unread, or read again."""
        if self._transport is not None:
            self._reading = not self._reading
            if self._reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def read_again(self) -> None:
        """Whatever happened, it reads its socket."""
        if not self._reading:
            self.stop_reading()

    def seek(self, ledger: int, entry: int) -> None:
        """Move the subscription."""
        if self._joined:
            command = pb.CommandSeek(consumer_id=self._consumer_id, request_id=self._new_request())
            command.message_id.ledgerId, command.message_id.entryId = ledger, entry
            self._send(frames.encode_command(pb.BaseCommand(type=T.SEEK, seek=command)))

    def unsubscribe(self, *, force: bool, leave: bool) -> None:
        """Delete the subscription, also under others with `force`; then leave, or come again."""
        if self._joined:
            self._leaves, self.deleted = leave, False
            self._unsubscribing = self._new_request()
            body = pb.CommandUnsubscribe(consumer_id=self._consumer_id, request_id=self._unsubscribing, force=force)
            self._send(frames.encode_command(pb.BaseCommand(type=T.UNSUBSCRIBE, unsubscribe=body)))

    @property
    def moved(self) -> bool:
        """Whether it comes to a choice of gateways, and not to the broker itself."""
        return len(self._addresses) > 1

    @property
    def joined(self) -> bool:
        """Whether its consumer stands, as far as it knows."""
        return self._joined

    # ---- ports.Receiver

    def opened(self, transport: Transport) -> None:
        """As the port says."""
        self._transport = transport
        self._feed = frames.FrameSplitter(FRAME_BYTES_MAX).feed
        self._reading = True
        connect = pb.CommandConnect(client_version="sim", protocol_version=21)
        transport.write(frames.encode_command(pb.BaseCommand(type=T.CONNECT, connect=connect)))
        self._heard = True
        self._timer = self.process.call_later(KEEP_ALIVE_S, self._keep_alive)

    def received(self, data: bytes) -> None:
        """As the port says."""
        self._heard = True
        for frame in self._feed(data):
            kind = frames.frame_type(frame)
            if kind == T.MESSAGE:
                self._message(frame)
            else:
                self._command(frames.parse_command(frame))

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - mirrors the port
        """As the port says; what it sends is small."""

    def closed(self, reason: str) -> None:
        """As the port says."""
        _ = reason
        self._transport = None
        self._lose_consumer()
        self.unanswered.clear()
        self._unsubscribing = None
        if self._timer is not None:
            self._timer.cancel()
        if not self.closed_for_good:
            self.process.call_later(self._dice.expovariate(1.0) * COME_BACK_S, self._connect)

    # ---- its client

    def _connect(self) -> None:
        if self._transport is None and not self.closed_for_good:
            several = len(self._addresses) > 1
            address = self._dice.choice(self._addresses) if several else self._addresses[0]
            self._network.connect(self.process, address, self)

    def _command(self, command: pb.BaseCommand) -> None:
        if command.type == T.CONNECTED:
            self._join()
        elif command.type == T.PING:
            self._send(commands.pong())
        elif command.type == T.CLOSE_CONSUMER:
            self._lose_consumer()
            self.process.call_later(self._dice.expovariate(1.0) * COME_BACK_S, self._join)
        elif command.type == T.SUCCESS:
            self.unanswered.discard(command.success.request_id)
            if command.success.request_id == self._subscribe.request_id and not self._joined:
                self._joined = True
                self._flow(self.temper.queue)
            elif command.success.request_id == self._unsubscribing:
                self._deleted()
        elif command.type == T.ACK_RESPONSE:
            self.unanswered.discard(command.ackResponse.request_id)
        elif command.type == T.GET_LAST_MESSAGE_ID_RESPONSE:
            self.unanswered.discard(command.getLastMessageIdResponse.request_id)
        elif command.type == T.ERROR:
            self._refused(command.error)

    def _deleted(self) -> None:
        self._unsubscribing = None
        self.deleted, self.closed_for_good = True, self._leaves
        self._lose_consumer()
        self.process.call_later(self._dice.expovariate(1.0) * COME_BACK_S, self._join)

    def _refused(self, error: pb.CommandError) -> None:
        self.unanswered.discard(error.request_id)
        if error.request_id == self._unsubscribing:
            self._unsubscribing = None
        if error.request_id == self._subscribe.request_id and not self._joined:
            self.process.call_later(self._dice.expovariate(1.0) * COME_BACK_S, self._join)

    def _join(self) -> None:
        if self._transport is not None and not self._joined and not self.closed_for_good:
            self._subscribe.request_id = self._new_request()
            self._send(frames.encode_command(pb.BaseCommand(type=T.SUBSCRIBE, subscribe=self._subscribe)))
            self.process.call_later(OPERATION_S, partial(self._not_answered, self._transport, self._request_id))

    def _not_answered(self, transport: Transport, request_id: int) -> None:
        """Unless it was."""
        if self._transport is transport and request_id in self.unanswered:
            self.unanswered.discard(request_id)
            self._send(commands.close_consumer(self._consumer_id, self._new_request()))
            self._join()

    def _lose_consumer(self) -> None:
        self._joined = False
        self._owed = 0
        self._life += 1
        self._pieces.clear()

    def _keep_alive(self) -> None:
        if self._transport is None:
            return
        if not self._heard and self._reading:
            self._transport.abort()
            return
        self._heard = False
        self._send(commands.ping())
        self._timer = self.process.call_later(KEEP_ALIVE_S, self._keep_alive)

    def _new_request(self) -> int:
        # No client goes on from a refused id for ever: it is made anew, and counts from 0.
        again = self._request_id == FIRST_REFUSED_ID
        self._request_id = 0 if again else (self._request_id + 1) % (1 << 64)
        self.unanswered.add(self._request_id)
        return self._request_id

    def _send(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)

    def _flow(self, permits: int) -> None:
        self._send(commands.flow(self._consumer_id, permits))

    # ---- its application

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
        self._send(commands.redeliver(self._consumer_id, [(delivery.ledger, delivery.entry)]))
