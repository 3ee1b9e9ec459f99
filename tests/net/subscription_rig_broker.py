"""The broker's side of Key_Shared subscriptions under test: entries, a connection, and the directory that finds it.

It answers by itself, in a later turn, except for the types in `held`; entries reach the gateway as frames that are
built here and parsed by the code under test.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.errors import UpstreamError, UpstreamUnavailable
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.messages import parse_message
from proxy.wire.metadata import build_tail
from tests.net.fakes import FakeClock

if TYPE_CHECKING:
    from proxy.net.ports import BrokerLink, UpstreamConsumer, UpstreamProducer

T = pb.BaseCommand
TOPIC = "persistent://public/default/orders"
LEDGER = 7


def single(key: str | None, payload: bytes = b"x", **fields: object) -> bytes:
    """The tail of one unbatched message."""
    metadata = pb.MessageMetadata(producer_name=b"shop", sequence_id=7, publish_time=1, **fields)  # type: ignore[arg-type]
    if key is not None:
        metadata.partition_key = key.encode()
    return build_tail(metadata, payload)


def batch(messages: Iterable[tuple[str | None, bytes]], **fields: object) -> bytes:
    """The tail of a batch of (key, payload), its outer key the first one's."""
    pairs = list(messages)
    pieces = []
    for key, body in pairs:
        meta = pb.SingleMessageMetadata(payload_size=len(body))
        if key is not None:
            meta.partition_key = key.encode()
        encoded = meta.SerializeToString()
        pieces += [len(encoded).to_bytes(4, "big"), encoded, body]
    payload = b"".join(pieces)
    metadata = pb.MessageMetadata(producer_name=b"shop", sequence_id=7, publish_time=1, **fields)  # type: ignore[arg-type]
    metadata.num_messages_in_batch = len(pairs)
    metadata.uncompressed_size = len(payload)
    if (first := pairs[0][0]) is not None:
        metadata.partition_key = first.encode()
    return build_tail(metadata, payload)


def frame_of_entry(
    consumer_id: int,
    entry: int,
    tail: bytes,
    ledger: int = LEDGER,
    redeliveries: int = 0,
    ack_set: Iterable[int] = (),
) -> bytes:
    """A MESSAGE as a broker sends it."""
    command = pb.BaseCommand(type=T.MESSAGE)
    command.message.consumer_id = consumer_id
    command.message.message_id.ledgerId = ledger
    command.message.message_id.entryId = entry
    command.message.message_id.partition = -1
    if redeliveries:
        command.message.redelivery_count = redeliveries
    command.message.ack_set.extend(ack_set)
    return frames.encode_message(command.SerializeToString(), tail)


@dataclass
class Asked:
    """A request that was not answered yet."""

    command: pb.BaseCommand
    answered: Callable[[pb.BaseCommand | Exception], None]


class FakeBrokerLink:
    """Implements `ports.BrokerLink`; keeps every command in `log`."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.log: list[pb.BaseCommand] = []
        self.waiting: list[Asked] = []
        self.held: set[int] = set()
        """Types of requests that the test answers itself."""
        self.refusals: dict[int, tuple[int, str]] = {}
        """Types of requests that are refused, with the broker's code and words."""
        self.mark_delete: tuple[int, int] | None = None
        self.consumers: dict[int, UpstreamConsumer] = {}
        self.producers: dict[int, UpstreamProducer] = {}
        self.max_message_bytes = 5 << 20
        self.published: list[bytes] = []
        """Tails of the messages that were published, since the test took them."""
        self.last_message: Callable[[], tuple[int, int]] = lambda: (LEDGER, 99)
        """Of each topic."""
        self.pausing: set[int] = set()
        self.lost = False
        self.doubts = 0
        """How often it was asked whether it is still there."""
        self._ids = itertools.count(1)
        self._requests = itertools.count(100)

    # ports.BrokerLink

    def new_consumer(self, consumer: UpstreamConsumer) -> int:
        """As the port says."""
        consumer_id = next(self._ids)
        if not self.lost:
            self.consumers[consumer_id] = consumer
        return consumer_id

    def new_producer(self, producer: UpstreamProducer) -> int:
        """As the port says."""
        producer_id = next(self._ids)
        self.producers[producer_id] = producer
        return producer_id

    def drop_producer(self, producer_id: int) -> None:
        """As the port says."""
        self.producers.pop(producer_id, None)

    def drop_consumer(self, consumer_id: int) -> None:
        """As the port says."""
        self.consumers.pop(consumer_id, None)

    def request(self, build: Callable[[int], bytes], answered: Callable[[pb.BaseCommand | Exception], None]) -> None:
        """As the port says; the answer comes in a later turn unless its type is held."""
        if self.lost:
            self._clock.call_soon(lambda: answered(UpstreamUnavailable("the connection is gone")))
            return
        command = frames.parse_command(build(next(self._requests)))
        self.log.append(command)
        asked = Asked(command, answered)
        self.waiting.append(asked)
        if command.type not in self.held:
            self._clock.call_soon(lambda: self._answer_by_itself(asked))

    def send(self, frame: bytes) -> None:
        """As the port says."""
        if not self.lost:
            command = frames.parse_command(frame)
            self.log.append(command)
            if command.type == T.SEND:
                self.published.append(frame[8 + int.from_bytes(frame[4:8], "big") :])

    @property
    def reading(self) -> bool:
        """As the port says."""
        return not self.pausing

    def doubt(self) -> None:
        """As the port says."""
        self.doubts += 1

    def pause_reading(self, holder: object) -> None:
        """As the port says."""
        self.pausing.add(id(holder))

    def resume_reading(self, holder: object) -> None:
        """As the port says."""
        self.pausing.discard(id(holder))

    # what the test does as the broker

    def sent(self, kind: int) -> list[pb.BaseCommand]:
        """Every command of a type that came so far."""
        return [command for command in self.log if command.type == kind]

    def taken(self, kind: int) -> list[pb.BaseCommand]:
        """Commands of a type that came since this was last asked for the type."""
        found = self.sent(kind)
        self.log = [command for command in self.log if command.type != kind]
        return found

    def modes(self) -> list[int]:
        """How the gateway's consumers wanted the slots, since the last look: for themselves, or shared."""
        return [command.subscribe.keySharedMeta.keySharedMode for command in self.taken(T.SUBSCRIBE)]

    def acked(self) -> list[tuple[int, int]]:
        """Whole entries acknowledged since the last look, as (ledger, entry), in the order they came."""
        places = [place for command in self.taken(T.ACK) for place in command.ack.message_id]
        return [(place.ledgerId, place.entryId) for place in places if not place.ack_set]

    def permits(self) -> int:
        """Messages granted since the last look."""
        return sum(command.flow.messagePermits for command in self.taken(T.FLOW))

    def answer(self, kind: int, reply: Exception | None = None) -> pb.BaseCommand:
        """Answer the oldest request of a type: as it should be, or with an error; returns the request."""
        asked = next(asked for asked in self.waiting if asked.command.type == kind)
        self.waiting.remove(asked)
        asked.answered(reply if reply is not None else self.right_answer(asked.command))
        self._clock.settle()
        return asked.command

    def refuse(self, kind: int, code: int, message: str) -> pb.BaseCommand:
        """Answer the oldest request of a type with the broker's no."""
        return self.answer(kind, UpstreamError(message, code))

    def time_out(self, kind: int) -> pb.BaseCommand:
        """The oldest request of a type waited too long; the connection stands."""
        return self.answer(kind, UpstreamUnavailable("the broker did not answer within 30 s"))

    def deliver(
        self,
        *entries: tuple[int, bytes],
        redeliveries: int = 0,
        ack_set: Iterable[int] = (),
        ledger: int = LEDGER,
        to: int | None = None,
        stopped_s: float = 0.0,
    ) -> None:
        """MESSAGE frames for a consumer, the newest by default, each (entry, tail), in one piece of input.

        `stopped_s`: for so long the process is stopped when it has read them, and has not got any further.
        """
        consumer_id = list(self.consumers)[-1] if to is None else to
        consumer = self.consumers[consumer_id]
        for entry, tail in entries:
            frame = frame_of_entry(consumer_id, entry, tail, ledger, redeliveries, ack_set)
            consumer.message(parse_message(frame))
        self._clock.oversleep(stopped_s)
        consumer.messages_end()
        self._clock.settle()

    def close_consumer(self, consumer_id: int | None = None) -> None:
        """The broker ends a consumer, the newest by default; the connection stands."""
        chosen = list(self.consumers)[-1] if consumer_id is None else consumer_id
        self.consumers.pop(chosen).closed_by_broker("the broker closed the consumer")
        self._clock.settle()

    def lose(self, reason: str = "connection reset by peer") -> None:
        """The connection is gone: first every request is told, then every consumer."""
        self.lost = True
        waiting, self.waiting = self.waiting, []
        consumers, self.consumers = self.consumers, {}
        producers, self.producers = self.producers, {}
        for asked in waiting:
            asked.answered(UpstreamUnavailable(reason))
        for consumer in consumers.values():
            consumer.connection_lost(reason)
        for producer in producers.values():
            producer.connection_lost(reason)
        self._clock.settle()

    def _answer_by_itself(self, asked: Asked) -> None:
        if asked not in self.waiting:
            return
        self.waiting.remove(asked)
        refusal = self.refusals.get(asked.command.type)
        if refusal is not None:
            asked.answered(UpstreamError(refusal[1], refusal[0]))
        else:
            asked.answered(self.right_answer(asked.command))

    def right_answer(self, command: pb.BaseCommand) -> pb.BaseCommand:
        """What a broker without troubles says."""
        reply = pb.BaseCommand()
        if command.type == T.ACK:
            reply.type = T.ACK_RESPONSE
            reply.ackResponse.consumer_id = command.ack.consumer_id
            reply.ackResponse.request_id = command.ack.request_id
        elif command.type == T.PRODUCER:
            reply.type = T.PRODUCER_SUCCESS
            request_id, name = command.producer.request_id, command.producer.producer_name
            reply.producer_success.request_id = request_id
            reply.producer_success.producer_name = name or f"gateway-{request_id}"
        elif command.type == T.GET_LAST_MESSAGE_ID:
            reply.type = T.GET_LAST_MESSAGE_ID_RESPONSE
            answer = reply.getLastMessageIdResponse
            answer.request_id = command.getLastMessageId.request_id
            answer.last_message_id.ledgerId, answer.last_message_id.entryId = self.last_message()
            if self.mark_delete is not None:
                place = answer.consumer_mark_delete_position
                place.ledgerId, place.entryId = self.mark_delete[0], self.mark_delete[1] % (1 << 64)
        elif command.type == T.ADD_SUBSCRIPTION_TO_TXN:
            reply.type = T.ADD_SUBSCRIPTION_TO_TXN_RESPONSE
            reply.addSubscriptionToTxnResponse.request_id = command.addSubscriptionToTxn.request_id
        else:
            bodies = {
                T.SUBSCRIBE: "subscribe",
                T.UNSUBSCRIBE: "unsubscribe",
                T.SEEK: "seek",
                T.CLOSE_CONSUMER: "close_consumer",
                T.CLOSE_PRODUCER: "close_producer",
            }
            reply.type = T.SUCCESS
            reply.success.request_id = getattr(command, bodies[command.type]).request_id
        return reply


class DivertedBrokers:
    """Implements `ports.BrokerDirectory`, as `FakeBrokers.diversions`."""

    def __init__(self, brokers: FakeBrokers) -> None:
        self._brokers = brokers

    def locate(self, topic: str, found: Callable[[BrokerLink | Exception], None]) -> None:
        """As the port says."""
        self._brokers.others_diverted.append(topic)
        self._brokers.locate(topic, found)


class FakeBrokers:
    """Implements `ports.Brokers`: leads to `link`, or to `error`, in a later turn unless `held`."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.link = FakeBrokerLink(clock)
        self.error: Exception | None = None
        self.held = False
        self.others: list[str] = []
        """Other topics that it was asked for."""
        self.others_diverted: list[str] = []
        """Those of them that go over the connections of dead letters and parked keys."""
        self.others_error: Exception | None = None
        self.asked: list[Callable[[BrokerLink | Exception], None]] = []
        self.located_at: list[float] = []
        """When it was asked."""

    @property
    def deliveries(self) -> FakeBrokers:
        """Over the same connection."""
        return self

    elections = deliveries

    @property
    def diversions(self) -> DivertedBrokers:
        """Over the same connection."""
        return DivertedBrokers(self)

    def locate(self, topic: str, found: Callable[[BrokerLink | Exception], None]) -> None:
        """As the port says."""
        if topic != TOPIC:
            self.others.append(topic)
            self._clock.call_soon(lambda: found(self.others_error or self.link))
            return
        self.located_at.append(self._clock.now())
        self.asked.append(found)
        if not self.held:
            self._clock.call_soon(self.found)

    @property
    def locates(self) -> int:
        """How often it was asked."""
        return len(self.located_at)

    def found(self) -> None:
        """Answer whoever waits."""
        asked, self.asked = self.asked, []
        for found in asked:
            found(self.error or self.link)

    def new_link(self) -> FakeBrokerLink:
        """A fresh connection, for whoever asks from now on."""
        self.link = FakeBrokerLink(self._clock)
        return self.link
