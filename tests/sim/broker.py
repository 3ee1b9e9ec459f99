"""A made-up broker that speaks the real protocol: one process of a cluster that serves one topic, and gateways' own.

It keeps to what brokers do where a gateway can tell: permits that fall below zero by a batch, redelivery in order
after a reconnect, ack sets of entries acknowledged in part, a limit of unacknowledged messages per consumer, draining
hashes among its own consumers, requests carried out in the order they came. Its faults are drawn: refusals, answers
that come late or never, restarts that forget acknowledgements, topics that move to the other broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from tests.sim.cluster import Consumer
from tests.sim.connection import End
from tests.sim.transactions import answer_ack, answer_add, answer_end

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.net.ports import Transport
    from tests.sim.cluster import Cluster
    from tests.sim.machine import Event, Process
    from tests.sim.own_topics import OwnTopic, Reader
    from tests.sim.storage import Entry, Storage
    from tests.sim.transactions import Coordinator

T = pb.BaseCommand
FRAME_BYTES_MAX = 8 << 20
KEEP_ALIVE_S = 30.0
PROTOCOL_VERSION = 21
_ALWAYS_ANSWERED = frozenset({T.LOOKUP, T.END_TXN, T.UNSUBSCRIBE})
_NEVER_REFUSED = frozenset({T.CLOSE_CONSUMER, T.CLOSE_PRODUCER, T.END_TXN})


class BrokerSession:
    """One connection of a client at a broker: implements `ports.Receiver`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.cluster = broker.cluster
        self._transport: Transport | None = None
        self._feed = frames.FrameSplitter(FRAME_BYTES_MAX).feed
        self._heard = True
        self._heard_at = broker.process.now()
        self._timer: Event | None = None
        self._requests: deque[pb.BaseCommand] = deque()
        self._tails: deque[bytes] = deque()
        """What those of them that are SENDs publish."""
        self._busy = False
        self._produced: dict[int, OwnTopic] = {}
        """By the producer's id."""
        self._readers: dict[int, Reader] = {}
        """Consumers of the gateway's own topics."""

    @property
    def client(self) -> Process | None:
        """Whose connection it is."""
        if self._transport is None:
            return None
        assert isinstance(self._transport, End)
        assert self._transport.other is not None
        return self._transport.other.process

    @property
    def should_be_gone(self) -> bool:
        """Whether it was silent for longer than a broker that does not stand still keeps a connection."""
        return self.broker.process.now() - self._heard_at > 2 * KEEP_ALIVE_S

    # ---- ports.Receiver

    def opened(self, transport: Transport) -> None:
        """As the port says."""
        self._transport = transport
        self._timer = self.broker.process.call_later(KEEP_ALIVE_S, self._keep_alive)

    def received(self, data: bytes) -> None:
        """As the port says."""
        self._heard, self._heard_at = True, self.broker.process.now()
        for frame in self._feed(data):
            if frames.frame_type(frame) == T.SEND:
                self._tails.append(frame[frames.payload_start(frame) :])
            self._take(frames.parse_command(frame))

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - mirrors the port
        """As the port says; a broker sends as permits allow."""

    def closed(self, reason: str) -> None:
        """As the port says."""
        _ = reason
        if self._timer is not None:
            self._timer.cancel()
        self._remove(lambda consumer: consumer.session is self)
        self._requests.clear()
        for topic in self._produced.values():
            topic.drop(self)
        for reader in self._readers.values():
            reader.topic.leave(reader)

    # ---- commands

    def send(self, frame: bytes) -> None:
        """To the client."""
        if self._transport is not None:
            self._transport.write(frame)

    def _take(self, command: pb.BaseCommand) -> None:
        if command.type == T.CONNECT:
            self.send(commands.connected("sim", PROTOCOL_VERSION, 5 << 20, None))
        elif command.type == T.PING:
            self.send(commands.pong())
        elif command.type == T.PONG:
            return
        elif command.type == T.REDELIVER_UNACKNOWLEDGED_MESSAGES:
            self._redeliver(command.redeliverUnacknowledgedMessages)
        elif command.type == T.FLOW:
            reader = self._readers.get(command.flow.consumer_id)
            consumer = self._consumer(command.flow.consumer_id) if reader is None else reader
            if consumer is not None:
                consumer.permits += command.flow.messagePermits
                self.broker.dispatch_soon()
        else:
            self._requests.append(command)
            if not self._busy:
                self._later()

    def _later(self) -> None:
        """Carry the next request out after a while."""
        self._busy = True
        delay_s = self.cluster.dice.expovariate(1.0) * self.cluster.manners.answer_delay_s
        self.broker.process.call_later(delay_s, self._carry_out)

    def _carry_out(self) -> None:
        self._busy = False
        if not self._requests:
            return
        command = self._requests.popleft()
        if self._requests:
            self._later()
        dice, manners = self.cluster.dice, self.cluster.manners
        body = _body(command)
        tail = self._tails.popleft() if command.type == T.SEND else b""
        refused = dice.random() < manners.refuse_chance and command.type not in _NEVER_REFUSED
        if refused:
            answer = _refusal(command, pb.ServiceNotReady, "not now")
        elif command.type == T.SEND:
            answer = self._publish(body, tail)
        else:
            answer = self._HANDLERS[command.type](self, body)
        told = answer and (dice.random() >= manners.forget_answer_chance or command.type in _ALWAYS_ANSWERED)
        if told:
            self.send(answer)
        if command.type == T.GET_LAST_MESSAGE_ID:
            self._asked_where(body.consumer_id, told=bool(told) and not refused)
        self.broker.dispatch_soon()

    def _lookup(self, body: Any) -> bytes:
        answer = pb.CommandLookupTopicResponse(request_id=body.request_id, authoritative=True)
        answer.brokerServiceUrl = self.cluster.owner
        mine = self.cluster.owner == self.broker.address
        kinds = pb.CommandLookupTopicResponse
        answer.response = kinds.Connect if mine or self.cluster.dice.random() < 0.5 else kinds.Redirect
        return frames.encode_command(pb.BaseCommand(type=T.LOOKUP_RESPONSE, lookupTopicResponse=answer))

    def _subscribe(self, body: Any) -> bytes:
        if body.read_compacted and body.subType == pb.CommandSubscribe.Shared:
            return commands.error(body.request_id, pb.NotAllowedError, "readCompacted contradicts this type")
        if self.cluster.owner != self.broker.address:
            return commands.error(body.request_id, pb.ServiceNotReady, "the topic is not served here")
        if body.topic in self.cluster.own_topics:
            return self._read(self.cluster.own_topics[body.topic], body)
        if self._consumer(body.consumer_id) is None:
            joining = Consumer(self.cluster, self, body.consumer_id)
            joining.shares = body.keySharedMeta.keySharedMode != pb.STICKY
            if not all(joining.shares and other.shares for other in self.cluster.consumers):
                alike = not joining.shares and not any(other.shares for other in self.cluster.consumers)
                code = pb.ConsumerAssignError if alike else pb.ConsumerBusy
                return commands.error(body.request_id, code, "another consumer is there")
            for other in self.cluster.consumers:
                astray: Iterable[Entry] = other.pending.values() if other.session.client is not self.client else ()
                if other.session.should_be_gone:  # it has what was sent to it, and half of the keys
                    astray = self.cluster.storage.open_entries()
                for entry in astray:
                    self.cluster.storage.astray.update(entry.numbers)
            self.cluster.let_in(joining)
        return commands.success(body.request_id)

    def _read(self, topic: OwnTopic, body: Any) -> bytes:
        """One consumer for each subscription of the gateway's own topics; whether another's lives is not looked at."""
        occupant = topic.readers.get(body.subscription)
        if occupant is not None and occupant is not self._readers.get(body.consumer_id):
            return commands.error(body.request_id, pb.ConsumerBusy, "another consumer is there")
        self._readers[body.consumer_id] = topic.subscribe(self, body)
        return commands.success(body.request_id)

    def close_consumer(self, reader: Reader) -> None:
        """The broker wants it no more."""
        self._readers.pop(reader.consumer_id, None)
        reader.topic.leave(reader)
        self.send(commands.close_consumer(reader.consumer_id, 0))

    def _ack(self, body: Any) -> bytes:
        reader = self._readers.get(body.consumer_id)
        if reader is not None:
            return reader.topic.acknowledge(reader, body)
        consumer = self._consumer(body.consumer_id)
        if consumer is None:
            return b""  # of one that is gone it counts for nothing, and is never answered
        if body.HasField("txnid_least_bits"):
            return answer_ack(self._coordinator(body), consumer, body)
        for place in body.message_id:
            consumer.cluster.storage.acknowledge(place)
            consumer.cluster.acked()
            consumer.acknowledged((place.ledgerId, place.entryId))
        return commands.ack_response(body.consumer_id, body)

    def _close_consumer(self, body: Any) -> bytes:
        reader = self._readers.pop(body.consumer_id, None)
        if reader is not None:
            reader.topic.leave(reader)
        self._remove(lambda consumer: consumer.session is self and consumer.consumer_id == body.consumer_id)
        return commands.success(body.request_id)

    def _producer(self, body: Any) -> bytes:
        if self.cluster.owner != self.broker.address:
            return commands.error(body.request_id, pb.ServiceNotReady, "the topic is not served here")
        topic = self.broker.own_topic(body.topic)
        refused = topic.refuses(b"")
        if refused is not None:
            return commands.error(body.request_id, refused, "the topic takes nothing")
        self._produced[body.producer_id] = topic
        topic.produce(self, pb.BaseCommand(type=T.PRODUCER, producer=body))
        return b""

    def _close_producer(self, body: Any) -> bytes:
        topic = self._produced.pop(body.producer_id, None)
        if topic is None:
            return commands.success(body.request_id)
        topic.produce(self, pb.BaseCommand(type=T.CLOSE_PRODUCER, close_producer=body))
        return b""

    def _publish(self, body: Any, tail: bytes) -> bytes:
        """What comes for a producer that was closed is ignored: its client has not heard of that."""
        topic = self._produced.get(body.producer_id)
        if topic is None or not topic.may_send(self, body.producer_id):
            return b""
        refused = topic.refuses(tail)
        if refused is None:
            return receipt(topic, body, tail)
        return send_error(body, refused, "the topic does not take it")

    def _last_message_id(self, body: Any) -> bytes:
        reader = self._readers.get(body.consumer_id)
        if reader is not None:
            return reader.topic.last(body.request_id)
        return self._last_of(self.cluster.storage, body.request_id)

    @staticmethod
    def _last_of(storage: Storage, request_id: int) -> bytes:
        answer = pb.CommandGetLastMessageIdResponse(request_id=request_id)
        last = storage.entries[-1] if storage.entries else None
        answer.last_message_id.ledgerId = last.ledger if last is not None else 0
        answer.last_message_id.entryId = last.entry if last is not None else 0
        ledger, entry = storage.mark_delete()
        answer.consumer_mark_delete_position.ledgerId = ledger
        answer.consumer_mark_delete_position.entryId = entry % (1 << 64)
        kind = T.GET_LAST_MESSAGE_ID_RESPONSE
        return frames.encode_command(pb.BaseCommand(type=kind, getLastMessageIdResponse=answer))

    def _seek(self, body: Any) -> bytes:
        self.cluster.seek(body.message_id.ledgerId, body.message_id.entryId)
        self.cluster.close_consumers()
        return commands.success(body.request_id)

    def _unsubscribe(self, body: Any) -> bytes:
        consumer = self._consumer(body.consumer_id)
        if consumer is None:
            return commands.error(body.request_id, pb.MetadataError, "Consumer not found")
        cluster = consumer.cluster
        if len(cluster.consumers) > 1 and not body.force:
            return commands.error(body.request_id, pb.MetadataError, "Unconnected or shared consumer")
        self._leave(consumer)  # without a word
        cluster.delete()
        self.broker.close_consumers(cluster)
        return commands.success(body.request_id)

    def _end_transaction(self, body: Any) -> bytes:
        return answer_end(self._coordinator(body), body)

    def _add_to_transaction(self, body: Any) -> bytes:
        return answer_add(self._coordinator(body), body)

    _HANDLERS: ClassVar[dict[int, Callable[[Any, Any], bytes]]] = {
        T.LOOKUP: _lookup,
        T.SUBSCRIBE: _subscribe,
        T.ACK: _ack,
        T.CLOSE_CONSUMER: _close_consumer,
        T.GET_LAST_MESSAGE_ID: _last_message_id,
        T.SEEK: _seek,
        T.UNSUBSCRIBE: _unsubscribe,
        T.PRODUCER: _producer,
        T.CLOSE_PRODUCER: _close_producer,
        T.END_TXN: _end_transaction,
        T.ADD_SUBSCRIPTION_TO_TXN: _add_to_transaction,
    }

    # ---- within

    def _coordinator(self, body: Any) -> Coordinator:
        """Whose transaction a command names."""
        _ = body
        assert self.cluster.coordinator is not None
        return self.cluster.coordinator

    def _redeliver(self, body: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """Only what the consumer has: what is relayed may be for one that is no more."""
        consumer = self._consumer(body.consumer_id)
        if consumer is None:
            return
        for place in body.message_ids:
            entry = consumer.pending.pop((place.ledgerId, place.entryId), None)
            if entry is not None:
                entry.held = False
                entry.redeliveries += 1
        self.broker.dispatch_soon()

    def _asked_where(self, consumer_id: int, *, told: bool) -> None:
        if consumer_id in self._readers:
            return
        consumer = self._consumer(consumer_id)
        if consumer is not None and not consumer.is_known:
            consumer.is_known = True  # only one who was told that it has the consumer asks
            self.cluster.subscribed += 1
        self.cluster.asked_where(told=told)

    def _consumer(self, consumer_id: int) -> Consumer | None:
        mine = (c for c in self.cluster.consumers if c.session is self and c.consumer_id == consumer_id)
        return next(mine, None)

    def _remove(self, gone: Callable[[Consumer], bool]) -> None:
        for consumer in [consumer for consumer in self.cluster.consumers if gone(consumer)]:
            consumer.returned()
            self.cluster.consumers.remove(consumer)
        self.broker.dispatch_soon()

    def _leave(self, consumer: Consumer) -> None:
        self._remove(lambda each: each is consumer)

    def _keep_alive(self) -> None:
        assert self._transport is not None
        if not self._heard:
            self._transport.abort()
            return
        self._heard = False
        self.send(commands.ping())
        self._timer = self.broker.process.call_later(KEEP_ALIVE_S, self._keep_alive)


class Broker:
    """One broker of the cluster, as a process."""

    def __init__(self, process: Process, address: str, cluster: Cluster) -> None:
        self.process = process
        self.address = address
        self.cluster = cluster
        self._due = False

    def own_topic(self, name: str) -> OwnTopic:
        """One of the gateways' own."""
        return self.cluster.own_topics[name]

    def close_consumers(self, cluster: Cluster) -> None:
        """Of a topic, by the broker's own will."""
        cluster.close_consumers()

    def accept(self, peer: str) -> BrokerSession:
        """A client has connected."""
        _ = peer
        return BrokerSession(self)

    def dispatch_soon(self) -> None:
        """Something may go now."""
        if not self._due:
            self._due = True
            self.process.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._due = False
        if self.cluster.consumers:
            self.cluster.dispatch()
        for topic in self.cluster.own_topics.values():
            if topic.stores:
                topic.dispatch()


def receipt(topic: OwnTopic, body: Any, tail: bytes) -> bytes:
    """The answer to a SEND, once its message is stored."""
    answer = pb.CommandSendReceipt(producer_id=body.producer_id, sequence_id=body.sequence_id)
    answer.message_id.ledgerId, answer.message_id.entryId = topic.publish(tail)
    return frames.encode_command(pb.BaseCommand(type=T.SEND_RECEIPT, send_receipt=answer))


def send_error(body: Any, code: int, message: str) -> bytes:
    """And if it is not."""
    wrong = pb.CommandSendError(producer_id=body.producer_id, sequence_id=body.sequence_id, message=message)
    wrong.error = code  # type: ignore[assignment]
    return frames.encode_command(pb.BaseCommand(type=T.SEND_ERROR, send_error=wrong))


def _body(command: pb.BaseCommand) -> Any:
    return getattr(command, T.DESCRIPTOR.fields_by_number[command.type].name)


def _refusal(command: pb.BaseCommand, code: int, message: str) -> bytes:
    body = _body(command)
    if command.type == T.ACK:
        return commands.ack_response(body.consumer_id, body, code, message)  # type: ignore[arg-type]
    if command.type == T.SEND:
        return send_error(body, code, message)
    if command.type == T.LOOKUP:
        answer = pb.CommandLookupTopicResponse(request_id=body.request_id, error=code, message=message)  # type: ignore[arg-type]
        answer.response = pb.CommandLookupTopicResponse.Failed
        return frames.encode_command(pb.BaseCommand(type=T.LOOKUP_RESPONSE, lookupTopicResponse=answer))
    return commands.error(body.request_id, code, message)  # type: ignore[arg-type]
