"""One connection of the gateway's own to a broker: handshake, requests, keep-alive, and the way in for messages.

The problem: tens of thousands of MESSAGE frames a second come through `received`, for many consumers, mixed with
the odd reply. So the loop over frames does for a MESSAGE nothing but read its head and call its consumer; all else
is a table of handlers behind it.

Rule: a lost connection is reported once, for any cause: first to the pool (so that no caller gets the dead link again),
then to every waiting request, in their order, then to every consumer and every producer, in the order of their ids.

Why not one connection per consumer, which would need no ids: brokers count and limit connections, and a gateway
holds thousands of consumers.

Specification: Pulsar binary protocol, "Connection establishment", "Keep Alive", "Consumer", "Service discovery".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from proxy.errors import KeylineError, UpstreamUnavailable
from proxy.net.broker.handshake import auth_response_frame, connect_frame
from proxy.net.broker.requests import REPLY_FIELDS, Answered, Requests, refusal_in, request_id_of
from proxy.net.broker.routes import ConsumerRoutes, ProducerRoutes
from proxy.net.broker.statistics import State
from proxy.net.keep_alive import KeepAlive, Verdict
from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import command_name
from proxy.wire.errors import FrameError
from proxy.wire.messages import parse_message

if TYPE_CHECKING:
    from proxy.net.broker.settings import BrokerSettings, BrokerTarget, Credentials
    from proxy.net.ports import Clock, Timer, Transport, UpstreamConsumer, UpstreamProducer

TICK_S: Final = 1.0
"""How often time-outs and keep-alive are looked at; so precise are they."""
MESSAGE_BYTES_DEFAULT: Final = 5 << 20
"""The limit of a broker that tells none."""

_Type = pb.BaseCommand

log = structlog.get_logger("keyline.broker")


class BrokerConnection:
    """Implements `ports.Receiver` towards the network and `ports.BrokerLink` towards subscriptions.

    Single-threaded and free of IO: the owner gives it to a `Connector`. `ready` is called once when the broker
    said CONNECTED; `ended` once when the connection is lost or could not be made, never both in one call.
    """

    def __init__(
        self,
        target: BrokerTarget,
        settings: BrokerSettings,
        clock: Clock,
        ready: Callable[[BrokerConnection], None],
        ended: Callable[[BrokerConnection, KeylineError], None],
    ) -> None:
        """Start the clock of the connect time-out; the caller connects next."""
        self.target = target
        self._settings = settings
        self._clock = clock
        self._ready = ready
        self._ended = ended
        self._state = State.CONNECTING
        self.max_message_bytes = MESSAGE_BYTES_DEFAULT
        self._transport: Transport | None = None
        splitter = frames.FrameSplitter(settings.max_frame_bytes, apart=True)
        self._feed, self._tails = splitter.feed, splitter.tails
        self._requests = Requests(settings.request_timeout_s)
        self._consumers = ConsumerRoutes()
        self._producers = ProducerRoutes()
        self._pausing: dict[int, object] = {}
        self._began_at = clock.now()
        self._keep_alive = KeepAlive(settings.keep_alive_s, self._began_at, look_every_s=TICK_S)
        self._unknown_types: set[int] = set()
        self._log = log.bind(broker=str(target))
        self._timer: Timer = clock.call_later(TICK_S, self._tick)

    # ------------------------------------------------------------------ ports.BrokerLink

    @property
    def state(self) -> State:
        """Where the connection stands."""
        return self._state

    def new_consumer(self, consumer: UpstreamConsumer) -> int:
        """Reserve a consumer id; on a lost connection the consumer is told so, in a later turn of the loop."""
        if self._state is State.LOST:
            self._clock.call_soon(lambda: consumer.connection_lost(f"the connection to {self.target} is gone"))
            return self._consumers.reserve()
        return self._consumers.add(consumer)

    def drop_consumer(self, consumer_id: int) -> None:
        """Route nothing to it any more; idempotent. What it paused, it must resume itself."""
        self._consumers.drop(consumer_id)

    def new_producer(self, producer: UpstreamProducer) -> int:
        """Reserve a producer id; on a lost connection the producer is told so, in a later turn of the loop."""
        if self._state is State.LOST:
            self._clock.call_soon(lambda: producer.connection_lost(f"the connection to {self.target} is gone"))
            return self._producers.reserve()
        return self._producers.add(producer)

    def drop_producer(self, producer_id: int) -> None:
        """Tell it nothing any more; idempotent."""
        self._producers.drop(producer_id)

    def request(self, build: Callable[[int], bytes], answered: Answered) -> None:
        """Send `build(request_id)`; `answered` follows once, never from inside this call."""
        error: KeylineError | None
        if self._transport is None:
            error = UpstreamUnavailable(f"the connection to {self.target} is gone")
        else:
            error = self._requests.send(self._transport, self.max_message_bytes, build, self._clock.now(), answered)
        if error is not None:
            self._clock.call_soon(partial(answered, error))

    def send(self, frame: bytes) -> None:
        """Send a frame that has no answer; on a lost connection it is dropped."""
        if self._transport is not None:
            self._transport.write(frame)

    def doubt(self) -> None:
        """As the port says."""
        if self._state is State.READY and self._keep_alive.doubt(self._clock.now()):
            self.send(commands.ping())

    @property
    def reading(self) -> bool:
        """Whether the broker is read."""
        return not self._pausing

    def pause_reading(self, holder: object) -> None:
        """Stop reading until every holder resumed; frames that are in already are still delivered."""
        self._pausing[id(holder)] = holder
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self, holder: object) -> None:
        """Take back `pause_reading` for this holder; harmless if it never paused."""
        self._pausing.pop(id(holder), None)
        if self._transport is not None and not self._pausing:
            self._transport.resume_reading()

    def close(self, reason: str) -> None:
        """Send what is queued and close; everyone is told through the loss that follows."""
        self._log.debug("broker connection closed", reason=reason)
        if self._transport is not None:
            self._transport.close()
        else:
            self._lose(UpstreamUnavailable(reason))

    # ------------------------------------------------------------------ ports.Receiver

    def opened(self, transport: Transport) -> None:
        """Begin the handshake."""
        if self._state is State.LOST:
            transport.abort()  # it stands after all, but too late: the time-out was reported already
            return
        self._transport = transport
        self._state = State.HANDSHAKE
        self._introduce(partial(connect_frame, self.target))

    def received(self, data: bytes) -> None:
        """Take bytes; the hot path."""
        if self._state is State.LOST:
            return
        self._keep_alive.heard = True
        try:
            pieces = self._feed(data)
        except FrameError as error:
            self._corrupt(error)
            return
        self._dispatch(pieces)

    def _dispatch(self, pieces: list[bytes]) -> None:
        deliver, tails = self._consumers.deliver.get, self._tails
        touched = self._consumers.touched
        frame_type, message_type = frames.frame_type, _Type.MESSAGE
        start, end, usual = frames.COMMAND_START, frames.MIN_FRAME_BYTES, frames.USUAL_MESSAGE_START
        last_id = -1
        for frame in pieces:
            try:
                is_message = frame[start:end] == usual or frame_type(frame) == message_type
                head = parse_message(frame) if is_message else None
            except FrameError as error:
                self._corrupt(error)
                return
            if head is None:
                self._command(frame)
                if self._state is State.LOST:
                    return
                continue
            if tails and frames.is_cut(frame):
                head = head._replace(tail=tails.popleft())
            consumer_id = head.consumer_id
            message = deliver(consumer_id)
            if message is None:
                continue
            if consumer_id != last_id:
                touched[consumer_id] = None
                last_id = consumer_id
            message(head)
        if touched:
            self._consumers.end_messages()

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Take no notice: what goes to a broker is acks and permits, which must go anyway and are small."""

    def closed(self, reason: str) -> None:
        """Tell everyone."""
        what = f"cannot connect to {self.target}" if self._state is State.CONNECTING else f"lost {self.target}"
        self._lose(UpstreamUnavailable(f"{what}: {reason}"))

    # ------------------------------------------------------------------ commands

    def _command(self, frame: bytes) -> None:
        """Act on anything but a message."""
        kind = frames.frame_type(frame)
        handler = _HANDLERS.get(kind)
        if handler is None and kind not in REPLY_FIELDS:
            self._unknown(kind)  # not parsed: it may be newer than our protocol
            return
        try:
            command = frames.parse_command(frame)
        except FrameError as error:
            self._corrupt(error)
            return
        if handler is None:
            self._reply(command)
        else:
            handler(self, command)

    def _reply(self, command: pb.BaseCommand) -> None:
        request_id = request_id_of(command)
        if self._requests.resolve(request_id, command):
            return
        refusal = refusal_in(command)
        if self._state is State.HANDSHAKE and refusal is not None:
            self._abort(refusal)
            return
        self._log.warning(
            "broker reply unmatched",
            request_id=request_id,
            type=command_name(command.type),
            error=str(refusal) if refusal is not None else None,
        )

    def _connected(self, command: pb.BaseCommand) -> None:
        if self._state is not State.HANDSHAKE:
            self._abort(UpstreamUnavailable(f"{self.target} sent a second CONNECTED"))
            return
        connected = command.connected
        self._state = State.READY
        self.max_message_bytes = connected.max_message_size or MESSAGE_BYTES_DEFAULT
        if connected.max_message_size > self._settings.max_frame_bytes:
            self._log.warning(
                "broker message limit exceeds max_frame_bytes",
                max_message_size=connected.max_message_size,
                max_frame_bytes=self._settings.max_frame_bytes,
            )
        self._log.info("broker connected", server_version=connected.server_version, protocol=connected.protocol_version)
        self._ready(self)

    def _challenge(self, _command: pb.BaseCommand) -> None:
        self._introduce(auth_response_frame)

    def _introduce(self, frame: Callable[[str, Credentials | None], bytes]) -> None:
        """Send the frame that has fresh credentials; without these the connection is of no use."""
        try:
            credentials = self._settings.credentials()
        except KeylineError as error:
            self._abort(error)
        else:
            self.send(frame(self._settings.client_version, credentials))

    def _ping(self, _command: pb.BaseCommand) -> None:
        self.send(commands.pong())

    def _ignore(self, _command: pb.BaseCommand) -> None:
        """PONG did its work by arriving; which consumer is active matters to Failover subscriptions only."""

    def _close_consumer(self, command: pb.BaseCommand) -> None:
        self._consumers.closed_by_broker(command.close_consumer.consumer_id, "the broker closed the consumer")

    def _close_producer(self, command: pb.BaseCommand) -> None:
        self._producers.closed_by_broker(command.close_producer.producer_id, "the broker closed the producer")

    def _stored(self, command: pb.BaseCommand) -> None:
        self._producers.stored(command.send_receipt)

    def _not_stored(self, command: pb.BaseCommand) -> None:
        self._producers.not_stored(command.send_error)

    def _migrated(self, command: pb.BaseCommand) -> None:
        moved = command.topicMigrated
        if moved.resource_type == pb.CommandTopicMigrated.Consumer:
            self._consumers.closed_by_broker(moved.resource_id, f"the topic migrated to {moved.brokerServiceUrl}")
        else:
            self._producers.closed_by_broker(moved.resource_id, f"the topic migrated to {moved.brokerServiceUrl}")

    def _end_of_topic(self, command: pb.BaseCommand) -> None:
        self._consumers.reached_end_of_topic(command.reachedEndOfTopic.consumer_id)

    def _unknown(self, kind: int) -> None:
        if kind not in self._unknown_types:
            self._unknown_types.add(kind)
            self._log.warning("unknown broker command ignored", type=command_name(kind))

    @staticmethod
    def _handlers() -> dict[int, Callable[[BrokerConnection, pb.BaseCommand], None]]:
        """What a broker may send unasked; anything else is logged once."""
        return {
            _Type.CONNECTED: BrokerConnection._connected,
            _Type.AUTH_CHALLENGE: BrokerConnection._challenge,
            _Type.PING: BrokerConnection._ping,
            _Type.PONG: BrokerConnection._ignore,
            _Type.CLOSE_CONSUMER: BrokerConnection._close_consumer,
            _Type.CLOSE_PRODUCER: BrokerConnection._close_producer,
            _Type.SEND_RECEIPT: BrokerConnection._stored,
            _Type.SEND_ERROR: BrokerConnection._not_stored,
            _Type.REACHED_END_OF_TOPIC: BrokerConnection._end_of_topic,
            _Type.ACTIVE_CONSUMER_CHANGE: BrokerConnection._ignore,
            _Type.TOPIC_MIGRATED: BrokerConnection._migrated,
        }

    # ------------------------------------------------------------------ time

    def _tick(self) -> None:
        if self._state is State.LOST:
            return
        now = self._clock.now()
        self._timer = self._clock.call_later(TICK_S, self._tick)
        if self._state is not State.READY:
            if now - self._began_at >= self._settings.connect_timeout_s:
                limit = f"{self._settings.connect_timeout_s:g} s"
                self._abort(UpstreamUnavailable(f"{self.target} did not complete the handshake within {limit}"))
            return
        self._requests.expire(now, str(self.target))
        verdict = self._keep_alive.check(now, paused=bool(self._pausing))
        if verdict is Verdict.PING:
            self.send(commands.ping())
        elif verdict is Verdict.DEAD:
            quiet_s = self._keep_alive.quiet_s(now)
            self._abort(UpstreamUnavailable(f"{self.target} was silent for {quiet_s:.0f} s"))

    # ------------------------------------------------------------------ the end

    def _corrupt(self, error: Exception) -> None:
        self._log.error("corrupt broker frame received", error=str(error))
        self._abort(UpstreamUnavailable(f"{self.target} sent a corrupt frame: {error}"))

    def _abort(self, error: KeylineError) -> None:
        transport = self._transport
        self._lose(error)
        if transport is not None:
            transport.abort()

    def _lose(self, error: KeylineError) -> None:
        if self._state is State.LOST:
            return
        established = self._state is State.READY
        self._state = State.LOST
        self._transport = None
        self._timer.cancel()
        consumers, producers = self._consumers.take_all(), self._producers.take_all()
        self._pausing.clear()
        reason = str(error)
        if established:
            self._log.info("broker connection lost", reason=reason, consumers=len(consumers))
        else:  # every retry fails alike: who retries says so once
            self._log.debug("broker connection failed", reason=reason)
        answer = error if isinstance(error, UpstreamUnavailable) else UpstreamUnavailable(reason)
        calls: list[Callable[[], None]] = [partial(self._ended, self, error)]
        calls += [partial(answered, answer) for answered in self._requests.take_all()]
        calls += [partial(consumer.connection_lost, reason) for consumer in consumers]
        calls += [partial(producer.connection_lost, reason) for producer in producers]
        _call_each(calls)


_HANDLERS: Final = BrokerConnection._handlers()  # noqa: SLF001 - a class that is compiled has no methods in its body yet


def _call_each(calls: list[Callable[[], None]]) -> None:
    """Make every call even if one raises, so that one's bug strands no other; the first exception is raised then."""
    failure: Exception | None = None
    for call in calls:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - raised again below
            failure = failure or error
    if failure is not None:
        raise failure
