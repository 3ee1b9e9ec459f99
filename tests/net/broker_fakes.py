"""The broker's side of a fake connection, and a consumer that takes notes."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.errors import KeylineError
from proxy.net.broker.connection import BrokerConnection
from proxy.net.broker.settings import BrokerSettings, BrokerTarget
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.messages import MessageHead
from tests.net.fakes import Attempt, FakeClock, FakeTransport

SETTINGS = BrokerSettings(service_urls=("pulsar://one:6650",), client_version="Keyline-v0.1.0")

T = pb.BaseCommand


def frame(**fields: object) -> bytes:
    """Frame one command as the broker frames it, e.g. ``frame(type=T.PING, ping=pb.CommandPing())``."""
    return frames.encode_command(pb.BaseCommand(**fields))  # type: ignore[arg-type]


def connected(max_message_size: int = 5 * 1024 * 1024) -> bytes:
    """Build CONNECTED."""
    reply = pb.CommandConnected(
        server_version="Pulsar Server 4.2.4", protocol_version=21, max_message_size=max_message_size
    )
    return frame(type=T.CONNECTED, connected=reply)


def success(request_id: int) -> bytes:
    """Build SUCCESS."""
    return frame(type=T.SUCCESS, success=pb.CommandSuccess(request_id=request_id))


def error(request_id: int, code: int, message: str) -> bytes:
    """Build ERROR."""
    return frame(type=T.ERROR, error=pb.CommandError(request_id=request_id, error=code, message=message))  # type: ignore[arg-type]


def message(consumer_id: int, entry: int, tail: bytes = b"\x0e\x01rest", **fields: object) -> bytes:
    """Build MESSAGE at ledger 7; `tail` stands for checksum, metadata and payload."""
    command = pb.BaseCommand(type=T.MESSAGE)
    command.message.consumer_id = consumer_id
    command.message.message_id.ledgerId = 7
    command.message.message_id.entryId = entry
    if "redelivery_count" in fields:
        command.message.redelivery_count = fields["redelivery_count"]  # type: ignore[assignment]
    command.message.ack_set.extend(fields.get("ack_set", ()))  # type: ignore[arg-type]
    head = command.SerializeToString()
    return (len(head) + 4 + len(tail)).to_bytes(4) + len(head).to_bytes(4) + head + tail


def lookup_answer(request_id: int, url: str, **fields: object) -> bytes:
    """Build LOOKUP_RESPONSE; a Connect unless told otherwise."""
    answer = pb.CommandLookupTopicResponse(
        request_id=request_id, brokerServiceUrl=url, response=pb.CommandLookupTopicResponse.Connect
    )
    for name, value in fields.items():
        setattr(answer, name, value)
    return frame(type=T.LOOKUP_RESPONSE, lookupTopicResponse=answer)


def written(transport: FakeTransport) -> list[pb.BaseCommand]:
    """Return the commands the gateway sent since the last look."""
    pieces = frames.FrameSplitter(SETTINGS.max_frame_bytes).feed(transport.take())
    return [frames.parse_command(piece) for piece in pieces]


def shake_hands(attempt: Attempt) -> FakeTransport:
    """Accept a connection and answer its CONNECT."""
    transport = attempt.accept()
    assert [command.type for command in written(transport)] == [T.CONNECT]
    transport.deliver(connected())
    return transport


@dataclass
class NotingConsumer:
    """An `UpstreamConsumer` that writes down what it is told."""

    name: str = ""
    journal: list[tuple[object, ...]] = field(default_factory=list)

    def message(self, head: MessageHead) -> None:
        """As the port says."""
        ack_set = head.ack_set or ()
        self.journal.append(("message", head.ledger, head.entry, head.redelivery_count, ack_set, bytes(head.tail)))

    def messages_end(self) -> None:
        """As the port says."""
        self.journal.append(("end",))

    def closed_by_broker(self, reason: str) -> None:
        """As the port says."""
        self.journal.append(("closed", reason))

    def connection_lost(self, reason: str) -> None:
        """As the port says."""
        self.journal.append(("lost", reason))

    def reached_end_of_topic(self) -> None:
        """As the port says."""
        self.journal.append(("terminated",))


TARGET = BrokerTarget("pulsar://one:6650")


class ConnectionBench:
    """A connection with its network, its owner's diary and a way to ask."""

    def __init__(
        self, settings: BrokerSettings = SETTINGS, target: BrokerTarget = TARGET, clock: FakeClock | None = None
    ) -> None:
        self.clock = clock or FakeClock()
        self.diary: list[tuple[object, ...]] = []
        self.connection = BrokerConnection(target, settings, self.clock, self._ready, self._ended)
        self.transport = FakeTransport(self.clock, self.connection, "one:6650")

    def _ready(self, _connection: BrokerConnection) -> None:
        self.diary.append(("ready",))

    def _ended(self, _connection: BrokerConnection, why: KeylineError) -> None:
        self.diary.append(("ended", why))

    def ready(self) -> ConnectionBench:
        """Get past the handshake."""
        self.transport.open()
        self.transport.deliver(connected())
        self.transport.take()
        self.diary.clear()
        return self

    def ask(self, name: str = "answer") -> int:
        """Ask something; the answer lands in the diary under `name`."""
        asked: list[int] = []

        def build(request_id: int) -> bytes:
            asked.append(request_id)
            return frame(type=T.SEEK, seek=pb.CommandSeek(consumer_id=1, request_id=request_id))

        self.connection.request(build, lambda reply: self.diary.append((name, reply)))
        return asked[0] if asked else 0
