"""Relays a client's frames to its broker and back: everything that the gateway does not intercept, mostly unparsed.

There is one upstream leg at a time, opened in the client's name (see `identity`). While it is open the relay watches
only answers that settle requests, producers and consumers that open and close, and lookups, whose answers are rewritten
so that the client stays at the gateway.

When the leg is lost, most client connections are closed, as by Pulsar's own proxy. A connection with workers stays (G4:
a broker's restart is invisible to them): everything relayed on it is notified of the loss, and the next request reopens
the leg, in the same name. Until it is open, requests queue within a bound; messages, acknowledgements and permits of
closed producers and consumers are dropped, as a broker would.

A leg may have to be opened twice: an unknown broker that the client named is first looked up at a configured one
(`route`). The client's requests wait meanwhile, as after a loss.

Known gaps, because the protocol has no command for it: after such a loss a topic list watcher gets nothing until the
client polls, and acknowledgement receipts requested before the first worker joined are not refused.

Backpressure is a plain pause in both directions: when the broker leaves too much unread, the gateway stops reading from
the client, including commands for workers, because a TCP stream has one order. A broker does the same to a client whose
producers it throttles. It cannot last forever: a broker that is silent for two keep-alive intervals is lost.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

from proxy.errors import LimitExceeded, UpstreamUnavailable
from proxy.net.alarm import Alarm
from proxy.net.relay.closing import RelayClosing
from proxy.net.relay.leg import UpstreamLeg
from proxy.net.relay.lookups import RelayedLookups, without_assigned_broker
from proxy.net.relay.redirects import RedirectedLookups
from proxy.net.relay.request_queue import RequestQueue
from proxy.net.relay.requests import OWN_REQUESTS, RelayedRequests
from proxy.net.relay.route import topic_of
from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import CLOSURES, UNASKED, parse_as, refusal_frame

if TYPE_CHECKING:
    from proxy.limits import Limits
    from proxy.net.broker.names import BrokerNames
    from proxy.net.ports import Clock, Connector
    from proxy.net.relay.client import RelayClient
    from proxy.net.relay.closing import ProducersToClose
    from proxy.net.relay.identity import Identity
    from proxy.net.relay.requests import Pending
    from proxy.net.relay.route import RelayRoute
    from proxy.net.relay.statistics import SessionCounters

_T = pb.BaseCommand

_OUTLAWED: Final = frozenset({pb.AuthenticationError, pb.AuthorizationError})
"""Why a broker no longer knows a client, which must not stay then for its workers' sake."""

_UNKNOWN_TARGET: Final = "the broker of this connection must be looked up again"


class RelayState(enum.Enum):
    """Where a relay stands. OPENING and ENDED come once, the others take turns.

    ASKING is with a leg to a configured broker, which is asked whether there is one that the client means.
    """

    OPENING = "opening"
    ASKING = "asking"
    OPEN = "open"
    DOWN = "down"
    REOPENING = "reopening"
    ENDED = "ended"


class Relay:
    """Implements `LegOwner` towards the broker, and serves one `RelayClient`."""

    def __init__(
        self,
        client: RelayClient,
        connector: Connector,
        clock: Clock,
        limits: Limits,
        route: RelayRoute,
        identity: Identity,
        names: BrokerNames,
        counters: SessionCounters,
        *,
        behind_proxy: bool = False,
    ) -> None:
        """`route` leads to brokers, each of which is told `identity`. Call `open` next.

        `names` learns the brokers that lookups are answered with; `behind_proxy` says that the configured are proxies.
        """
        self._client = client
        self._connector = connector
        self._clock = clock
        self._limits = limits
        self._route = route
        self._identity = identity
        self._counters = counters
        self._requests = RelayedRequests(limits.relayed_requests_max)
        self._lookups = RelayedLookups(
            self._requests,
            RedirectedLookups(connector, clock, limits, identity),
            limits,
            counters,
            names,
            self._deliver,
            self._looked_up,
            behind_proxy=behind_proxy,
        )
        self._state = RelayState.OPENING
        self._leg: UpstreamLeg | None = None
        self._queue = RequestQueue(limits.queued_while_connecting_bytes)
        self._asking_timer = Alarm(clock)

    @property
    def passes_data(self) -> bool:
        """Whether messages may go to `forward` unparsed."""
        return self._state is RelayState.OPEN and not self._requests.has_stale_producers

    @property
    def holds_back(self) -> bool:
        """Whether nothing that is without an answer has gone to the broker yet."""
        return self._state in (RelayState.ASKING, RelayState.REOPENING)

    def consumer_ready(self, consumer_id: int) -> bool | None:
        """Whether a relayed consumer was answered; None when there is none of that id."""
        return self._requests.consumer_ready(consumer_id)

    def own_id(self) -> int:
        """A number for one of the gateway's own requests, for all its parts."""
        return self._requests.own_id()

    def open(self) -> None:
        """Begin; `relay_connected` or `relay_refused` follows."""
        self._route.begin()
        self._dial()

    def _dial(self) -> None:
        self._route.step()
        self._leg = leg = UpstreamLeg(self, self._identity, self._clock, self._limits, self._route.wish)
        if not self._client.writable:
            leg.pause_reading()
        self._connector.connect(str(self._route.broker), leg)

    def close(self, to_close: ProducersToClose) -> None:
        """The client has gone; its `to_close` are closed at the broker one by one."""
        self._state = RelayState.ENDED
        self._lookups.close()
        self._asking_timer.cancel()
        leg, self._leg = self._leg, None
        if leg is not None and leg.ready and to_close.all:
            leg.write(b"".join(self._requests.closing_frames(but=to_close.producer_ids)))
            RelayClosing(leg, to_close, self._clock, self.own_id).begin()
            return
        if leg is not None:
            leg.close()
        to_close.left_to_broker(self._clock)

    def client_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Read from the broker only what the client takes."""
        if self._leg is None:
            return
        if writable:
            self._leg.resume_reading()
        else:
            self._leg.pause_reading()

    # ---- from the client

    def forward(self, data: bytes, frame_count: int = 1) -> None:
        """Pass whole frames on as one write. Only while `passes_data`."""
        self._counters.relayed_to_broker_frames_total += frame_count
        self._counters.relayed_to_broker_bytes_total += len(data)
        self._write(data)

    def send(self, frame: bytes) -> None:
        """Pass on one SEND that has to be looked at, or drop it. Raises `FrameError` if it is another command, too."""
        producer_id = parse_as(_T.SEND, frame).send.producer_id
        if self._state is not RelayState.OPEN or self._requests.is_stale(producer_id):
            self._counters.dropped_frames_total += 1
        else:
            self.forward(frame)

    def consumer_data(self, frame: bytes) -> None:
        """Pass on ACK without request id, FLOW or REDELIVER, or drop it: no consumer outlives its leg."""
        if self._state is RelayState.OPEN:
            self.forward(frame)
        else:
            self._counters.dropped_frames_total += 1

    def request(self, kind: int, body: Any, frame: bytes) -> bool:
        """Pass on a command that has a request id, and see to it that it is answered; false if it was at once.

        One of the gateway's own is not answered then.
        """
        if kind in CLOSURES and self._state is not RelayState.OPEN and not self._requests.opens(kind, body):
            if kind == _T.CLOSE_PRODUCER:
                self._requests.forget_stale(body.producer_id)
            if body.request_id <= OWN_REQUESTS:
                self._client.send(commands.success(body.request_id))
            return False
        topic = topic_of(kind, body)
        try:
            self._check_queue(frame, topic)
            self._requests.asked(kind, body, len(frame))
        except (LimitExceeded, UpstreamUnavailable) as error:
            if body.request_id > OWN_REQUESTS:
                return False
            self._client.send(refusal_frame(kind, body, str(error), error.wire_code))
            return False
        if self._state is not RelayState.OPEN:
            self._wait(frame, topic)
            return True
        if kind == _T.ACK and self._leg is not None:
            self._leg.expect_ack_receipts(True)
        self.forward(frame)
        return True

    def lookup(self, command: pb.BaseCommand, frame: bytes) -> None:
        """Pass on a client's lookup, for addresses that can be dialled from here."""
        if self._route.lookup(command.lookupTopic):
            frame = frames.encode_command(command)
        self.request(_T.LOOKUP, command.lookupTopic, frame)

    def auth_response(self, command: pb.CommandAuthResponse, frame: bytes) -> None:
        """Pass on fresh credentials of the client's own."""
        if self.renewed(command.response):
            self._write(frame)
        else:
            self._counters.dropped_frames_total += 1

    def renewed(self, response: pb.AuthData) -> bool:
        """Keep fresh credentials for the next connection; whether they are the client's own."""
        return self._identity.renewed(response)

    # ---- LegOwner

    def leg_connected(self, connected: pb.CommandConnected) -> None:
        """Tell the client the first time; else send what waited."""
        first = self._state is RelayState.OPENING
        self._state = RelayState.OPEN if self._route.arrives else RelayState.ASKING
        if first:
            self._client.relay_connected(connected)
            return
        if self._state is RelayState.ASKING:
            self._ask_for_target()
            return
        queued = self._queue.take()
        if queued:
            self.forward(b"".join(queued), len(queued))

    def leg_challenged(self, frame: bytes) -> None:
        """Only the client can answer."""
        self._client.send(frame)

    def leg_data(self, data: bytes, frame_count: int) -> None:
        """Pass on to the client."""
        self._deliver(data, frame_count)

    def leg_command(self, command: pb.BaseCommand, frame: bytes) -> None:
        """Take note, rewrite what would lead the client past us, and pass on."""
        if command.type in (_T.CLOSE_PRODUCER, _T.CLOSE_CONSUMER):
            self._requests.closed_by_broker(command)
            producer = command.type == _T.CLOSE_PRODUCER
            if producer and not self._client.relay_producer_closed(command.close_producer.producer_id):
                return
            self._deliver(frames.encode_command(without_assigned_broker(command)))
        elif command.type == _T.LOOKUP_RESPONSE:
            self._lookups.answered(command, self._route.broker)
        elif command.type == _T.ERROR and command.error.request_id == UNASKED and command.error.error in _OUTLAWED:
            self._client.relay_refused(command.error.message, command.error)  # its credentials: expired, as a rule
        else:
            pending = self._requests.answered(command)
            if command.type == _T.ACK_RESPONSE and not self._requests.acks_pending and self._leg is not None:
                self._leg.expect_ack_receipts(False)
            ends = command.type == _T.END_TXN_RESPONSE
            if ends and pending is not None and pending.has_ended(command.endTxnResponse):
                self._client.relay_transaction_ended(pending.body)
            if pending is None and command.type == _T.PRODUCER_SUCCESS:
                return  # of one that was closed: its client knows, or waits on if the gateway has closed it
            if pending is None or self._is_for_client(pending, command):
                self._deliver(frame)

    def leg_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Let the client's side pause or go on."""
        self._client.relay_writable(writable)

    def leg_lost(self, reason: str, refusal: pb.CommandError | None) -> None:
        """Let the client go, or tell it what it has lost."""
        state, self._leg = self._state, None
        if state is RelayState.ENDED:
            return
        stood = state in (RelayState.OPEN, RelayState.ASKING)
        if not stood and refusal is None and self._route.more:
            self._dial()
            return
        outlawed = refusal is not None and refusal.error in _OUTLAWED
        if state is RelayState.OPENING or outlawed:
            self._client.relay_refused(reason, refusal)
            return
        if state is RelayState.OPEN:
            self._route.lost()
        self._state = RelayState.DOWN
        self._queue.take()
        self._asking_timer.cancel()
        if stood:
            self._client.relay_writable(True)
            if not self._client.relay_lost(reason):
                return
        self._client.send(b"".join(self._requests.lose(reason)))
        self._client.relay_dropped(returns=stood or self._route.target is None)

    # ---- where the client means to be

    def _ask_for_target(self) -> None:
        """Go there if it is known by now; else ask the broker of the configuration for the one of the first topic."""
        if self._route.known:
            self._move()
        elif self._queue.topic is not None and not self._asking_timer.is_set:
            self._counters.targets_asked_total += 1
            lookup = pb.CommandLookupTopic(topic=self._queue.topic, request_id=self.own_id(), authoritative=False)
            self._route.lookup(lookup)
            self._requests.asked(_T.LOOKUP, lookup)
            self._write(frames.encode_command(_T(type=_T.LOOKUP, lookupTopic=lookup)))
            self._asking_timer.set(self._limits.handshake_timeout_s, self._looked_up)

    def _looked_up(self) -> None:
        """There is an answer, or none in time; whether it names what the client means, `names` knows."""
        if self._state is not RelayState.ASKING:
            return
        self._asking_timer.cancel()
        if self._route.known:
            self._move()
        elif self._route.target is not None:
            self._client.relay_target_refused(self._route.target)

    def _move(self) -> None:
        leg, self._leg = self._leg, None
        if leg is not None:
            leg.close()
        self._state = RelayState.REOPENING
        self.open()

    # ---- within

    def _is_for_client(self, pending: Pending, command: pb.BaseCommand) -> bool:
        """Whether the client is to hear this answer."""
        own = pending.body.request_id > OWN_REQUESTS
        if pending.kind == _T.CLOSE_PRODUCER or (pending.kind == _T.PRODUCER and not own):
            return self._client.relay_producer_answered(pending, command)
        if not own:
            return True
        if pending.kind == _T.LOOKUP:
            self._looked_up()
        else:
            self._client.relay_own_answered(pending, command)
        return False

    def _write(self, data: bytes) -> None:
        if self._leg is not None:
            self._leg.write(data)

    def _deliver(self, data: bytes, frame_count: int = 1) -> None:
        self._counters.relayed_to_client_frames_total += frame_count
        self._counters.relayed_to_client_bytes_total += len(data)
        self._client.send(data)

    def _check_queue(self, frame: bytes, topic: str | None) -> None:
        """Raise `LimitExceeded` or `UpstreamUnavailable` for a request that cannot wait."""
        if self._state is RelayState.OPEN:
            return
        self._queue.check(frame)
        if topic is None and self._queue.topic is None and not self._route.known:
            raise UpstreamUnavailable(_UNKNOWN_TARGET)

    def _wait(self, frame: bytes, topic: str | None) -> None:
        self._queue.add(frame, topic)
        if self._state is RelayState.DOWN:
            self._state = RelayState.REOPENING
            self._counters.broker_reconnects_total += 1
            self.open()
        elif self._state is RelayState.ASKING:
            self._ask_for_target()
