"""The interfaces between the state machines of `net` and the input and output of their bytes.

Sessions, relays, broker connections and upstream subscriptions are plain objects driven by calls: bytes arrived, the
peer disconnected, a timer is due. They hold one of the ports below and never a socket, an event loop or a clock, so
that the simulator runs the same objects on a simulated network. `proxy.aio` implements the ports on asyncio.

Rule kept by every implementation: a port never calls back into the state machine from inside one of its own
methods; callbacks come from the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from proxy.errors import UpstreamError
    from proxy.wire import pulsar_pb2 as pb
    from proxy.wire.messages import MessageHead


T = TypeVar("T")

Step = Callable[[float], bool]
"""Work that stops at a moment: it does one piece at least, and says whether some is left (see `slices`)."""

LEFT_UNREAD: Final = "the peer left too much unread"
"""The reason for `Receiver.closed` if a peer sent requests and read no answers."""


class Transport(Protocol):
    """One open TCP connection.

    Writes are gathered and leave as one system call per loop turn; what is pushed may leave before that.
    """

    @property
    def peer(self) -> str:
        """Remote address as ``host:port``."""

    @property
    def peer_certificate(self) -> bytes | None:
        """What a client has shown to a listener that verifies it, as DER; None without."""

    @property
    def writable(self) -> bool:
        """False while the peer leaves more bytes unread than the configured high-water mark."""

    def write(self, data: bytes) -> None:
        """Queue bytes; after `close` or loss they are dropped."""

    def push(self) -> None:
        """What is queued may leave: no more is expected in this turn. Of several in a turn the first has an effect."""

    def limit(self, seconds: float) -> None:
        """Data queued in this loop turn must be sent within this time, in seconds.

        If the process stalls longer, the connection is closed instead: another replica may have sent the same
        meanwhile. The peer's earlier data is still received.
        """

    def pause_reading(self) -> None:
        """Stop delivering bytes; idempotent."""

    def resume_reading(self) -> None:
        """Undo `pause_reading`; idempotent."""

    def close(self) -> None:
        """Send what is queued, then close. `Receiver.closed` follows."""

    def abort(self) -> None:
        """Close at once and drop what is queued, here and in the system. `Receiver.closed` follows."""


class Receiver(Protocol):
    """The state machine at the gateway's end of a connection."""

    def opened(self, transport: Transport) -> None:
        """The connection is open; called once, before any other method except `closed`."""

    def received(self, data: bytes) -> None:
        """Bytes came, cut anywhere."""

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """The peer started or stopped leaving too much unread."""

    def closed(self, reason: str) -> None:
        """The connection is gone, or could not be made; called exactly once."""


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Forget the call; harmless after it was made."""


class Clock(Protocol):
    """Time and deferred calls."""

    def now(self) -> float:
        """Monotonic seconds, from an arbitrary origin."""

    def time(self) -> float:
        """Seconds since the epoch, for people and for the journal; never compared."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call once, `delay_s` seconds from now."""

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        """Call once, at the end of this loop turn."""


class Background(Protocol):
    """Runs work that would block the event loop for too long."""

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> Timer:
        """Call `work` on a thread; then `done`, from the loop, with its result or error.

        `work` must not use state that the loop changes. Once cancelled, `done` is not called.
        """


class Connector(Protocol):
    """Opens connections."""

    def connect(self, address: str, receiver: Receiver) -> None:
        """Connect to ``pulsar://host:port`` (or ``pulsar+ssl://``).

        `receiver.opened` or `receiver.closed` follows.
        """


class WorkerLink(Protocol):
    """A worker's consumer: the interface of its client session for the subscription."""

    @property
    def consumer_id(self) -> int:
        """The id the client gave its consumer; unique on its connection only."""

    @property
    def peer(self) -> str:
        """The client's address as ``host:port``."""

    @property
    def client_version(self) -> str:
        """The client's version in CONNECT, e.g. ``Pulsar-CPP-v3.7.0``."""

    @property
    def accepts_broker_entry_metadata(self) -> bool:
        """Whether the client said it understands broker entry metadata."""

    @property
    def writable(self) -> bool:
        """False while the client leaves its socket unread."""

    def subscribed(self) -> None:
        """Answer its SUBSCRIBE with Success, once."""

    def refuse(self, error: Exception) -> None:
        """Answer its SUBSCRIBE with this error instead; the consumer has ended then, as after `forget`.

        If the error is `OwnedElsewhere` the replica may answer that owns the subscription.
        """

    def send(self, frame: bytes) -> None:
        """Queue a whole frame, or an ordered piece of one, to the client: all but the answer to its SUBSCRIBE."""

    def push(self) -> None:
        """As `Transport.push`."""

    def limit(self, seconds: float) -> None:
        """As `Transport.limit`, for what is sent in this turn."""

    def first(self, step: Step) -> None:
        """Do this, in slices, before the client's next command; only from within a command of the client's."""

    def forget(self) -> None:
        """The consumer has ended: the session routes nothing to its port any more. Sends nothing."""

    def check_liveness(self, alive: Callable[[], None]) -> None:
        """Ask the client for a sign of life, which `alive` is called with, perhaps at once.

        Without one its connection is given up within seconds, and the port hears that (`lost`).
        """


class ElsewhereClient(Protocol):
    """A client's session, as far as those know it who lead its consumers to other replicas."""

    @property
    def writable(self) -> bool:
        """False while the client leaves its socket unread."""

    def send(self, frame: bytes) -> None:
        """Queue whole frames to the client."""

    def check_liveness(self, alive: Callable[[], None]) -> None:
        """As `WorkerLink` says."""

    def do_first(self, step: Step) -> None:
        """Do this before any command of the client's that was not looked at yet, from now on, in slices."""

    def elsewhere_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Owners began or ceased to leave too much unread."""


class WorkerPort(Protocol):
    """One worker's end of a subscription: where its session takes the client's commands.

    Every method may be called at any time after `SubscriptionDirectory.subscribe` returned, also before the
    subscription answered; each answers the client through the `WorkerLink` itself.
    """

    @property
    def broker_away(self) -> bool:
        """Whether the subscription's broker cannot be reached at present by the gateway itself."""

    @property
    def unacked(self) -> int:
        """Messages that the client has and has not acknowledged."""

    @property
    def early_permits(self) -> int:
        """Permits that the client has granted to a worker which has not joined."""

    def flow(self, permits: int) -> None:
        """CommandFlow."""

    def ack(self, command: pb.CommandAck) -> None:
        """CommandAck, with or without a request id."""

    def acked_whole(self, ids: list[int]) -> None:
        """A CommandAck of whole entries, one by one and without a request id: ledger, entry, ledger, and so on."""

    def redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """CommandRedeliverUnacknowledgedMessages; no ids means all."""

    def close(self, request_id: int) -> None:
        """CommandCloseConsumer from the client."""

    def unsubscribe(self, command: pb.CommandUnsubscribe) -> None:
        """CommandUnsubscribe."""

    def seek(self, command: pb.CommandSeek) -> None:
        """CommandSeek."""

    def get_last_message_id(self, command: pb.CommandGetLastMessageId) -> None:
        """CommandGetLastMessageId."""

    def consumer_stats(self, command: pb.CommandConsumerStats) -> None:
        """CommandConsumerStats."""

    def lost(self, reason: str) -> None:
        """The client's connection is gone. Nothing may be sent through the link any more."""

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """The client's socket filled up or emptied."""


class SubscriptionDirectory(Protocol):
    """All Key_Shared subscriptions of this gateway."""

    def subscribe(self, link: WorkerLink, command: pb.CommandSubscribe) -> WorkerPort:
        """A client's SUBSCRIBE of type Key_Shared; the link is told whether it joins."""

    def transaction_ended(self, transaction: tuple[int, int], *, committed: bool) -> None:
        """The coordinator has ended a transaction, at every topic; by its most and least significant bits."""


class UpstreamConsumer(Protocol):
    """One of the gateway's consumers, from the view of its broker connection."""

    def message(self, head: MessageHead) -> None:
        """One entry, taken apart so far as its command."""

    def messages_end(self) -> None:
        """All entries of one piece of input were passed; called after a run of `message` calls."""

    def closed_by_broker(self, reason: str) -> None:
        """The broker sent CloseConsumer (unload, seek, delete, ...); the connection still stands."""

    def connection_lost(self, reason: str) -> None:
        """The connection to the broker is gone."""

    def reached_end_of_topic(self) -> None:
        """The topic is terminated and everything was read."""


class UpstreamProducer(Protocol):
    """One of the gateway's producers, from the view of its broker connection."""

    def stored(self, sequence_id: int) -> None:
        """The broker has this message."""

    def not_stored(self, sequence_id: int, error: UpstreamError) -> None:
        """The broker refused this message."""

    def closed_by_broker(self, reason: str) -> None:
        """The broker sent CloseProducer (unload, fencing, ...); the connection still stands."""

    def connection_lost(self, reason: str) -> None:
        """The connection to the broker is gone."""


class BrokerLink(Protocol):
    """One connection of the gateway's own to a broker, shared by many upstream consumers."""

    @property
    def max_message_bytes(self) -> int:
        """The broker's limit of a message's metadata and payload; it closes the connection at one far beyond it."""

    def new_consumer(self, consumer: UpstreamConsumer) -> int:
        """Reserve a consumer id and route its messages to `consumer` from now on."""

    def drop_consumer(self, consumer_id: int) -> None:
        """Route nothing to it any more; late messages are dropped."""

    def new_producer(self, producer: UpstreamProducer) -> int:
        """Reserve a producer id and tell `producer` what comes of it from now on."""

    def drop_producer(self, producer_id: int) -> None:
        """Tell it nothing any more."""

    def request(self, build: Callable[[int], bytes], answered: Callable[[pb.BaseCommand | Exception], None]) -> None:
        """Send `build(request_id)` and call `answered` once: with the reply, an ERROR as `UpstreamError`, or loss.

        `UpstreamError` carries the broker's ServerError code and message; a lost connection and a time-out are
        `UpstreamUnavailable`. A PRODUCER that the broker lets wait is answered when its turn comes, however late.
        """

    def send(self, frame: bytes) -> None:
        """Send a frame that has no answer."""

    def doubt(self) -> None:
        """Ask whether the broker is still there: a connection that it has given up is lost within seconds then."""

    @property
    def reading(self) -> bool:
        """Whether the broker is read: else its answers come when every holder has resumed."""

    def pause_reading(self, holder: object) -> None:
        """Stop reading from the broker until every holder resumed (hard memory limit)."""

    def resume_reading(self, holder: object) -> None:
        """Take back `pause_reading` for this holder."""


class BrokerDirectory(Protocol):
    """Finds the broker of a topic."""

    def locate(self, topic: str, found: Callable[[BrokerLink | Exception], None]) -> None:
        """Look the topic up, following redirects, and hand over a connected link, or why there is none."""


class Brokers(BrokerDirectory, Protocol):
    """Four sets of connections to the same brokers, so that what stops one stops no other.

    `locate` itself leads to the connections for what the gateway always needs answered: lookups, and what replicas say
    and read. They are always read.
    """

    @property
    def deliveries(self) -> BrokerDirectory:
        """For consumers of subscriptions, and for these alone: `pause_reading` is called on their connections."""

    @property
    def diversions(self) -> BrokerDirectory:
        """For dead letters and parked keys, which make room. A topic's publish rate may stop these connections."""

    @property
    def elections(self) -> BrokerDirectory:
        """For producers that leaders write with. A broker ends the connection of one that was fenced and writes."""
