"""A broker, played by the test, for what the gateway produces and consumes for itself."""

from __future__ import annotations

from collections.abc import Callable

from proxy.errors import UpstreamUnavailable
from proxy.net.ports import BrokerLink
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import build_tail
from tests.net.broker_fakes import ConnectionBench, T, error, frame, message, written


class PlayedBroker:
    """Implements `ports.Brokers` with one real connection; the test answers by hand."""

    def __init__(self) -> None:
        self.bench = ConnectionBench().ready()
        self.clock = self.bench.clock
        self.unreachable = False

    @property
    def deliveries(self) -> PlayedBroker:
        """Over the same connection."""
        return self

    diversions = elections = deliveries

    def locate(self, topic: str, found: Callable[[BrokerLink | Exception], None]) -> None:
        """As the port says."""
        result = UpstreamUnavailable(f"no broker for {topic}") if self.unreachable else self.bench.connection
        self.clock.call_soon(lambda: found(result))

    def reconnect(self) -> None:
        """A new connection; the one before stays as it is."""
        self.bench = ConnectionBench(clock=self.clock).ready()

    def sent(self) -> list[pb.BaseCommand]:
        """What the gateway has sent since the last look."""
        self.clock.settle()
        return written(self.bench.transport)

    def next(self, kind: int) -> pb.BaseCommand:
        """The one command that it has sent, which is of this kind."""
        (command,) = self.sent()
        assert command.type == kind, command
        return command

    def say(self, *frames: bytes) -> None:
        """The broker says something."""
        for one in frames:
            self.bench.transport.deliver(one)
        self.clock.settle()

    def live(self, seconds: float) -> None:
        """Time passes; the broker is alive, and answers nothing."""
        while seconds > 0:
            step = min(seconds, 10.0)
            self.clock.advance(step)
            self.say(frame(type=T.PONG, pong=pb.CommandPong()))
            seconds -= step

    def grant(self, command: pb.BaseCommand) -> int:
        """Answer PRODUCER: it is theirs; its id."""
        self.say(producer_success(command.producer.request_id))
        return command.producer.producer_id

    def refuse(self, request_id: int, text: str = "no") -> None:
        """Answer: no."""
        self.say(error(request_id, pb.ProducerBusy, text))

    def lose(self) -> None:
        """The connection breaks."""
        self.bench.transport.lose()
        self.clock.settle()


def producer_success(request_id: int, *, ready: bool = True) -> bytes:
    """PRODUCER_SUCCESS."""
    answer = pb.CommandProducerSuccess(request_id=request_id, producer_name="p-1", producer_ready=ready)
    return frame(type=T.PRODUCER_SUCCESS, producer_success=answer)


def receipt(producer_id: int, sequence_id: int) -> bytes:
    """SEND_RECEIPT."""
    answer = pb.CommandSendReceipt(producer_id=producer_id, sequence_id=sequence_id)
    return frame(type=T.SEND_RECEIPT, send_receipt=answer)


def send_error(producer_id: int, sequence_id: int) -> bytes:
    """SEND_ERROR."""
    answer = pb.CommandSendError(
        producer_id=producer_id, sequence_id=sequence_id, error=pb.PersistenceError, message="the disk is full"
    )
    return frame(type=T.SEND_ERROR, send_error=answer)


def close_producer(producer_id: int) -> bytes:
    """CLOSE_PRODUCER from the broker."""
    return frame(type=T.CLOSE_PRODUCER, close_producer=pb.CommandCloseProducer(producer_id=producer_id, request_id=0))


def close_consumer(consumer_id: int) -> bytes:
    """CLOSE_CONSUMER from the broker."""
    return frame(type=T.CLOSE_CONSUMER, close_consumer=pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=0))


def last_message(request_id: int, ledger: int, entry: int) -> bytes:
    """GET_LAST_MESSAGE_ID_RESPONSE; entry -1 for a topic without messages."""
    place = pb.MessageIdData(ledgerId=ledger, entryId=entry & (1 << 64) - 1)
    answer = pb.CommandGetLastMessageIdResponse(request_id=request_id, last_message_id=place)
    return frame(type=T.GET_LAST_MESSAGE_ID_RESPONSE, getLastMessageIdResponse=answer)


def delivery(consumer_id: int, entry: int, payload: bytes) -> bytes:
    """MESSAGE at ledger 7, as a producer without batches made it."""
    metadata = pb.MessageMetadata(producer_name=b"p", sequence_id=entry, publish_time=1)
    return message(consumer_id, entry, build_tail(metadata, payload))
