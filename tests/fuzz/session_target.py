"""Fuzzing a client's session, from the client's, the broker's and the clock's side, with real subscriptions behind it.

Input: a row of steps (see `STEPS`). Promises: nothing a client or its broker sends raises past `received`; what the
session holds stays within its limits; and when the client leaves, the session has ended, once, with no timer left and
no message held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from proxy.core.steps import finished
from proxy.limits import Limits
from proxy.net.broker.names import BrokerNames
from proxy.net.relay.requests import OWN_REQUESTS
from proxy.net.session.services import SessionServices
from proxy.net.session.session import ClientSession
from proxy.net.session.settings import SessionSettings
from proxy.net.subscription.directory import Subscriptions
from proxy.net.subscription.openings import Openings
from proxy.net.subscription.settings import SubscriptionSettings
from proxy.service_url import parse_service_url
from proxy.views.subscriptions import subscriptions_statistics_steps
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import payload_start
from proxy.wire.messages import parse_message
from tests.fuzz.target import Choices, Target, golden_frames, promise, sized
from tests.net.fakes import FakeBackground, FakeClock, FakeConnector, FakeTransport
from tests.net.session_rig import BROKER, connect, connected, encode, lookup_response, new_elections, send, subscribe
from tests.net.subscription_rig_broker import TOPIC, FakeBrokerLink, batch, single
from tests.wire.builders import frame_of

FRAME_BYTES_MAX: Final = 4096
QUEUED_BYTES_MAX: Final = 1024
REQUESTS_MAX: Final = 16
STEPS_MAX: Final = 60
MEANT: Final = "broker-3:6650"
"""A broker that a client names and that nobody has heard of."""
KIND = pb.BaseCommand
LIMITS = Limits(
    max_frame_bytes=FRAME_BYTES_MAX,
    queued_while_connecting_bytes=QUEUED_BYTES_MAX,
    relayed_requests_max=REQUESTS_MAX,
    redirect_connections_max=2,
)
ENTRIES = (
    single("a"),
    single(None),
    batch([("a", b"1"), ("b", b"2"), ("c", b"3")]),
    batch([("a", b"1"), ("a", b"2")]),
    b"",
    b"\x0e\x02\xff",
    b"\x0e\x01" + bytes(30),
)


class AnyTopicBrokers:
    """Implements `ports.Brokers`: every topic is at one broker, which answers by itself."""

    def __init__(self, clock: FakeClock) -> None:
        """No connection is lost yet."""
        self._clock = clock
        self.link = FakeBrokerLink(clock)

    @property
    def deliveries(self) -> AnyTopicBrokers:
        """Over the same connection."""
        return self

    diversions = elections = deliveries

    def locate(self, topic: str, found: Callable[[FakeBrokerLink | Exception], None]) -> None:
        """As the port says."""
        _ = topic
        self._clock.call_soon(lambda: found(self.link))

    def lose(self) -> None:
        """The connection breaks; the next one stands at once."""
        lost, self.link = self.link, FakeBrokerLink(self._clock)
        lost.lose()


class Scene:
    """One session and everything around it."""

    def __init__(self, choices: Choices) -> None:
        """A client has connected."""
        self.choices = choices
        self.clock = FakeClock()
        self.connector = FakeConnector(self.clock)
        self.brokers = AnyTopicBrokers(self.clock)
        settings = SubscriptionSettings(
            consistent_hashing_points=3, subscription_memory_bytes=1 << 20, gateway_memory_bytes=2_000
        )
        self.subscriptions = Subscriptions(
            self.brokers, self.clock, settings, Openings(self.clock, FakeBackground(self.clock))
        )
        self.ended: list[ClientSession] = []
        session_settings = SessionSettings((parse_service_url(BROKER),), authorize_workers=False)
        services = SessionServices(
            self.connector,
            self.clock,
            self.subscriptions,
            new_elections(self.clock),
            BrokerNames(session_settings.brokers, self.clock),
            session_settings,
            LIMITS,
            self.subscriptions.slices,
        )
        self.session = ClientSession(services, self.ended.append)
        self.client = FakeTransport(self.clock, self.session)
        self.client.open()
        self._entry = 0

    # ---- steps

    def client_bytes(self) -> None:
        """Any bytes from the client."""
        self.client.deliver(self.choices.sized())

    def client_command(self) -> None:
        """A frame from the client with right sizes around any command."""
        self.client.deliver(frame_of(self.choices.sized(), b"\x0e\x01" if self.choices.flag() else b""))

    def client_words(self) -> None:
        """Some right frame of a client, so that the session gets anywhere."""
        self.client.deliver(WORDS[self.choices.number(len(WORDS))])

    def broker_bytes(self) -> None:
        """Any bytes from the broker of the relay."""
        if self.connector.attempts and self.connector.last.transport is not None:
            self.connector.last.transport.deliver(self.choices.sized())

    def broker_command(self) -> None:
        """A frame from that broker with right sizes around any command."""
        if self.connector.attempts and self.connector.last.transport is not None:
            self.connector.last.transport.deliver(frame_of(self.choices.sized()))

    def connection(self) -> None:
        """The relay's connection is made, refused, or lost; or the broker says CONNECTED."""
        if not self.connector.attempts:
            return
        last = self.connector.last
        what = self.choices.number(4)
        if last.decided:
            if last.transport is not None:
                last.transport.lose() if what == 0 else last.transport.deliver(connected())
        elif what == 0:
            last.refuse()
        else:
            last.accept().deliver(connected())

    def entry(self) -> None:
        """A message from the gateway's own consumer: well formed or not."""
        link, which = self.brokers.link, self.choices.number(len(ENTRIES) + 1)
        if link.consumers and not link.pausing:
            self._entry += 1
            link.deliver((self._entry, ENTRIES[which] if which < len(ENTRIES) else self.choices.sized()))

    def broker_trouble(self) -> None:
        """The gateway's own connection is lost, or its consumer closed."""
        if self.choices.flag() and self.brokers.link.consumers:
            self.brokers.link.close_consumer()
        else:
            self.brokers.lose()

    def time(self) -> None:
        """Time passes: up to a minute and a half."""
        self.clock.advance(self.choices.number(90))

    def reading(self) -> None:
        """The client, or the relay's broker, ceases to read, or reads again."""
        if self.choices.flag():
            self.client.set_writable(self.choices.flag())
        elif self.connector.attempts and self.connector.last.transport is not None:
            self.connector.last.transport.set_writable(self.choices.flag())

    # ---- promises

    def check(self) -> None:
        """What is held is within its limits, at every step."""
        promise(self.session._splitter._held_bytes <= FRAME_BYTES_MAX, "at most one frame is held")
        parts = self.session._parts
        if parts is not None:
            promise(parts.relay._queue.bytes_held <= QUEUED_BYTES_MAX, "requests are queued within their bound")
            promise(len(parts.relay._requests._pending) <= REQUESTS_MAX, "requests are pending within their bound")
        self.client.take()

    def leave(self) -> None:
        """The client goes: nothing of it may stay."""
        finished(subscriptions_statistics_steps(self.subscriptions, None, None, None, 10))
        self.client.lose()
        for attempt in self.connector.attempts:
            if not attempt.decided:
                attempt.refuse()
            elif attempt.transport is not None:
                attempt.transport.lose()
        self.clock.advance(120)
        promise(self.ended == [self.session], "a session ends once")
        promise(self.session.cause is not None, "an end has a cause")
        held = self.subscriptions.summary()
        promise(not held.subscriptions, "no subscription outlives its last worker")
        promise(held.held_bytes == 0, "no message is held for nobody")
        promise(self.clock.waiting == 0, "no timer outlives the session")


STEPS: tuple[Callable[[Scene], None], ...] = (
    Scene.client_bytes,
    Scene.client_command,
    Scene.client_words,
    Scene.broker_bytes,
    Scene.broker_command,
    Scene.connection,
    Scene.entry,
    Scene.broker_trouble,
    Scene.time,
    Scene.reading,
)
"""What may happen, in the order of the numbers that stand for it."""


def _ack(*places: tuple[int, int], **fields: object) -> bytes:
    body = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, **fields)  # type: ignore[arg-type]
    for ledger, number in places:
        body.message_id.add(ledgerId=ledger, entryId=number)
    return encode(KIND.ACK, body)


def _words() -> Iterable[bytes]:
    yield connect()
    yield from (subscribe(consumer_id, 100 + consumer_id, topic=TOPIC) for consumer_id in (1, 2))
    yield subscribe(3, 103, pb.CommandSubscribe.Shared)
    yield from (
        encode(KIND.FLOW, pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits))
        for consumer_id, permits in ((1, 1), (1, 1000), (2, 5), (1, 2**31 - 1), (9, 7))
    )
    yield _ack((7, 1), (7, 2), (7, 3), request_id=5)
    yield _ack((7, 1))
    yield _ack((7, 2**62 + 1), (2**64 - 1, 2**64 - 1), request_id=6)
    yield encode(KIND.REDELIVER_UNACKNOWLEDGED_MESSAGES, pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1))
    place = pb.MessageIdData(ledgerId=7, entryId=1)
    yield encode(KIND.SEEK, pb.CommandSeek(consumer_id=1, request_id=8, message_id=place))
    yield encode(KIND.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=9))
    yield from (
        encode(KIND.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=20 + consumer_id))
        for consumer_id in (1, 2)
    )
    yield encode(KIND.GET_LAST_MESSAGE_ID, pb.CommandGetLastMessageId(consumer_id=1, request_id=11))
    yield encode(KIND.CONSUMER_STATS, pb.CommandConsumerStats(consumer_id=1, request_id=12))
    yield encode(KIND.PING)
    yield send(5, 1)
    yield connect(proxy_to_broker_url=MEANT)
    modes = (pb.Exclusive, pb.ExclusiveWithFencing, pb.WaitForExclusive)
    for producer_id, mode in enumerate(modes, start=5):
        body = pb.CommandProducer(topic=TOPIC, producer_id=producer_id, request_id=30, producer_access_mode=mode)
        yield encode(KIND.PRODUCER, body)


WORDS: tuple[bytes, ...] = tuple(_words())


def run(data: bytes) -> None:
    """Play the steps, then let the client leave."""
    choices = Choices(data)
    scene = Scene(choices)
    for _ in range(STEPS_MAX):
        if not choices:
            break
        STEPS[choices.number(len(STEPS))](scene)
        scene.check()
    scene.leave()


def _asked_for() -> Iterable[bytes]:
    """A client whose broker is asked for, because of a consumer or a producer, and is named or not."""
    for requested in (3, *range(len(WORDS) - 3, len(WORDS))):
        asking = bytes((2, len(WORDS) - 4, 5, 1, 2, requested))
        for kind in pb.CommandLookupTopicResponse.LookupType.values():
            for url in (f"pulsar://{MEANT}", "pulsar://broker-9:6650"):
                yield (
                    asking
                    + b"\4"
                    + sized(lookup_response(OWN_REQUESTS + 1, kind, url)[8:])
                    + bytes((5, 1, 2, requested))
                )
        yield asking + bytes((8, 11))


def seeds() -> Iterable[bytes]:
    """The official clients' frames said to a session that stands, and a worker's life with every step in it."""
    handshake, joined = bytes((2, 0, 5, 1)), bytes((2, 1, 2, 2, 2, 5, 2, 6))
    for frame in golden_frames():
        if len(frame) < FRAME_BYTES_MAX:
            yield handshake + b"\0" + sized(frame)
            yield handshake + b"\1" + sized(frame[8 : payload_start(frame)]) + b"\0"
        if frame[8:10] == b"\x08\x09":
            yield handshake + joined + b"\6\7" + sized(parse_message(frame).tail)
    yield handshake + joined + b"".join(bytes((6, which % 7)) for which in range(20))
    yield handshake + joined + b"".join(bytes((6, which % 4, 2, 3 + which)) for which in range(len(WORDS) - 3))
    yield from _asked_for()
    yield handshake + joined + bytes((6, 2, 7, 0, 8, 5, 6, 0, 7, 1, 8, 9, 9, 1, 0, 6, 3, 9, 1, 1, 8, 80))


TARGET = Target("session", run, seeds)
