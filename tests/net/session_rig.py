"""A client session between two fake ends: the test is the client, the broker, the subscriptions and the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.limits import Limits
from proxy.net.broker.names import BrokerNames
from proxy.net.election.elections import ElectionSettings, ProducerElections
from proxy.net.events import Events
from proxy.net.handshake import EVERY_BROKER, TargetPolicy
from proxy.net.relay.identity import ProxyRole
from proxy.net.session.services import SessionServices
from proxy.net.session.session import ClientSession
from proxy.net.session.settings import SessionSettings
from proxy.net.slices import Slices
from proxy.service_url import parse_service_url
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from tests.net.fakes import FakeClock, FakeConnector, FakeDirectory, FakeTransport, FakeWorkerPort

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.net.broker.settings import CredentialsProvider
    from proxy.net.session.elsewhere import MakeElsewhere

T = pb.BaseCommand
BROKER = "pulsar://broker-0:6650"
KEY_SHARED = pb.CommandSubscribe.Key_Shared


def encode(kind: int, body: object = None) -> bytes:
    """Frame a command of type `kind` around its body."""
    command = T(type=kind)  # type: ignore[arg-type]
    field = T.DESCRIPTOR.fields_by_number[kind].name
    if body is None:
        getattr(command, field).SetInParent()
    else:
        getattr(command, field).CopyFrom(body)
    return frames.encode_command(command)


def parse(data: bytes) -> list[pb.BaseCommand]:
    """Read all commands in a stretch of whole frames."""
    splitter = frames.FrameSplitter(16 * 1024 * 1024)
    commands = [frames.parse_command(frame) for frame in splitter.feed(data)]
    assert splitter._held_bytes == 0, "half a frame was written"
    return commands


def connect(**fields: object) -> bytes:
    """Build CONNECT of a well-known client."""
    values: dict[str, object] = {"client_version": "Pulsar-CPP-v3.7.0", "protocol_version": 21, **fields}
    return encode(T.CONNECT, pb.CommandConnect(**values))  # type: ignore[arg-type]


def connected(**fields: object) -> bytes:
    """Build CONNECTED of a 4.2 broker."""
    values: dict[str, object] = {"protocol_version": 21, "max_message_size": 5_242_880, **fields}
    return encode(T.CONNECTED, pb.CommandConnected(server_version="Pulsar Server 4.2.4", **values))  # type: ignore[arg-type]


def subscribe(consumer_id: int, request_id: int, kind: int = KEY_SHARED, topic: str = "orders") -> bytes:
    """Build SUBSCRIBE; Key_Shared unless told otherwise."""
    body = pb.CommandSubscribe(
        topic=topic,
        subscription="s",
        subType=kind,  # type: ignore[arg-type]
        consumer_id=consumer_id,
        request_id=request_id,
    )
    return encode(T.SUBSCRIBE, body)


def producer(producer_id: int, request_id: int) -> bytes:
    """Build PRODUCER."""
    body = pb.CommandProducer(topic="orders", producer_id=producer_id, request_id=request_id)
    return encode(T.PRODUCER, body)


def producer_success(request_id: int, *, ready: bool = True) -> bytes:
    """Build PRODUCER_SUCCESS."""
    body = pb.CommandProducerSuccess(request_id=request_id, producer_name="p", producer_ready=ready)
    return encode(T.PRODUCER_SUCCESS, body)


def success(request_id: int) -> bytes:
    """Build SUCCESS."""
    return encode(T.SUCCESS, pb.CommandSuccess(request_id=request_id))


def lookup(request_id: int) -> bytes:
    """Build LOOKUP."""
    return encode(T.LOOKUP, pb.CommandLookupTopic(topic="orders", request_id=request_id))


def lookup_response(request_id: int, kind: int, url: str = "", tls_url: str = "") -> bytes:
    """Build LOOKUP_RESPONSE, authoritative when it redirects."""
    answer = pb.CommandLookupTopicResponse(request_id=request_id, response=kind)  # type: ignore[arg-type]
    if url:
        answer.brokerServiceUrl = url
    if tls_url:
        answer.brokerServiceUrlTls = tls_url
    answer.authoritative = kind == pb.CommandLookupTopicResponse.Redirect
    return encode(T.LOOKUP_RESPONSE, answer)


def with_payload(kind: int, body: object, payload: bytes) -> bytes:
    """Frame SEND or MESSAGE."""
    simple = encode(kind, body)
    return (len(simple) - 4 + len(payload)).to_bytes(4, "big") + simple[4:] + payload


def send(producer_id: int, sequence_id: int, payload: bytes = b"\x0e\x01payload") -> bytes:
    """Build SEND."""
    return with_payload(T.SEND, pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id), payload)


def message(consumer_id: int, entry: int, payload: bytes = b"\x0e\x01payload") -> bytes:
    """Build MESSAGE."""
    body = pb.CommandMessage(consumer_id=consumer_id, message_id=pb.MessageIdData(ledgerId=7, entryId=entry))
    return with_payload(T.MESSAGE, body, payload)


def ack(consumer_id: int, request_id: int | None = None) -> bytes:
    """Build ACK of one message."""
    body = pb.CommandAck(consumer_id=consumer_id, ack_type=pb.CommandAck.Individual)
    body.message_id.add(ledgerId=7, entryId=1)
    if request_id is not None:
        body.request_id = request_id
    return encode(T.ACK, body)


def flow(consumer_id: int, permits: int) -> bytes:
    """Build FLOW."""
    return encode(T.FLOW, pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits))


def new_elections(clock: FakeClock | None = None, events: Events | None = None, **settings: Any) -> ProducerElections:
    """Elections of a gateway that has been up for long."""
    clock = clock or FakeClock()
    elections = ProducerElections(clock, events or Events(clock.now), ElectionSettings(**settings))
    clock.advance(ElectionSettings(**settings).producer_return_grace_s)
    return elections


class SessionRig:
    """One session and all its fakes."""

    def __init__(
        self,
        limits: Limits | None = None,
        brokers: Sequence[str] = (BROKER,),
        targets: TargetPolicy = EVERY_BROKER,
        *,
        upstream_is_proxy: bool = False,
        first_broker: int = 0,
        clock: FakeClock | None = None,
        elections: ProducerElections | None = None,
        authorize: bool = False,
        listener_name: str | None = None,
        named: Sequence[str] = (),
        names: BrokerNames | None = None,
        certificate: bytes | None = None,
        proxy_role: CredentialsProvider | None = None,
        make_elsewhere: MakeElsewhere | None = None,
        of_replica: bool = False,
    ) -> None:
        """Stand where a client has connected and said nothing yet; `elections` are shared with others, with `clock`."""
        self.clock = clock or FakeClock()
        self.connector = FakeConnector(self.clock)
        self.proxied = FakeConnector(self.clock)
        """Opens what the gateway opens in its proxy role."""
        self.directory = FakeDirectory()
        self.limits = limits or Limits()
        self.slices = Slices(self.clock)
        self.ended: list[ClientSession] = []
        settings = SessionSettings(
            tuple(parse_service_url(url) for url in brokers),
            targets,
            upstream_is_proxy,
            listener_name,
            authorize_workers=authorize,
            proxy_role=None
            if proxy_role is None
            else ProxyRole(proxy_role, self.proxied, "Keyline-v9", frozenset({"keyline"})),
        )
        self.names = names or BrokerNames(settings.brokers, self.clock)
        for url in named:
            self.names.add(url)
        self.events = Events(self.clock.now)
        self.elections = elections or new_elections(self.clock, self.events)
        services = SessionServices(
            self.connector,
            self.clock,
            self.directory,
            self.elections,
            self.names,
            settings,
            self.limits,
            self.slices,
            make_elsewhere,
            of_replicas=of_replica,
        )
        self.session = ClientSession(services, self.ended.append, first_broker)
        self.client = FakeTransport(self.clock, self.session, "192.0.2.7:40000")
        self.client.peer_certificate = certificate
        self.client.open()
        self._leg: FakeTransport | None = None

    @property
    def broker(self) -> FakeTransport:
        """The relay's leg; before `connect`, the newest connection that was accepted."""
        transport = self._leg or self.connector.last.transport
        assert transport is not None
        return transport

    @property
    def cause(self) -> str | None:
        """Why the session ended."""
        return self.session.cause.value if self.session.cause else None

    @property
    def workers_count(self) -> int:
        """How many workers the session has, joined or joining."""
        return 0 if self.session._parts is None else len(self.session._parts.workers)

    def connect(self, **fields: object) -> SessionRig:
        """Bring the session to CONNECTED, with nothing left unread on either side."""
        self.client.deliver(connect(**fields))
        self._leg = self.connector.last.accept()
        self._leg.deliver(connected())
        assert [command.type for command in self.to_client()] == [T.CONNECTED]
        assert [command.type for command in self.to_broker()] == [T.CONNECT]
        return self

    def worker(self, consumer_id: int = 1, request_id: int = 100) -> FakeWorkerPort:
        """Let a Key_Shared consumer join and be answered."""
        self.client.deliver(subscribe(consumer_id, request_id))
        port = self.directory.workers[-1]
        port.link.subscribed()
        assert [command.type for command in self.to_client()] == [T.SUCCESS]
        return port

    def relayed_producer(self, producer_id: int = 5, request_id: int = 50) -> None:
        """Open a producer at the broker."""
        self.client.deliver(producer(producer_id, request_id))
        self.broker.deliver(producer_success(request_id))
        self.take_all()

    def relayed_consumer(self, consumer_id: int = 6, request_id: int = 60) -> None:
        """Open a Shared consumer at the broker."""
        self.client.deliver(subscribe(consumer_id, request_id, pb.CommandSubscribe.Shared))
        self.broker.deliver(success(request_id))
        self.take_all()

    def take_all(self) -> None:
        """Forget what was written so far."""
        self.client.take()
        self.broker.take()

    def to_client(self) -> list[pb.BaseCommand]:
        """Read what was written to the client since the last look."""
        return parse(self.client.take())

    def to_broker(self) -> list[pb.BaseCommand]:
        """Read what was written to the broker since the last look."""
        return parse(self.broker.take())

    def reopen(self) -> FakeTransport:
        """Accept a new leg for the relay and take its CONNECT."""
        self._leg = transport = self.connector.last.accept()
        assert [command.type for command in parse(transport.take())] == [T.CONNECT]
        transport.deliver(connected())
        return transport
