"""One client's connection: commands of workers are handled here, everything else goes to the relay.

A client does not know that it uses a gateway. On one connection it may run producers, readers, other subscriptions and
workers of Key_Shared subscriptions, with its own numbering. The session keeps the client's state (no CONNECT yet,
connecting, connected, ended), splits frames, answers PING, and routes each command: to the worker with its consumer id,
or to the relay, unparsed where possible.

A client that breaks the protocol gets one ERROR with the reason, and its connection is closed; the cause is counted. No
input can raise past `received`: an exception there is a bug.

Specification: Pulsar binary protocol; `ServerCnx` for what a broker does with what it did not expect.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from proxy.limits import GREETING_FRAME_BYTES_MAX
from proxy.net.alarm import Alarm
from proxy.net.frames_in_slices import FramesInSlices
from proxy.net.handshake import client_version_of, downstream_connected
from proxy.net.heartbeat import Heartbeat
from proxy.net.ports import LEFT_UNREAD
from proxy.net.relay.statistics import SessionCounters
from proxy.net.session.client_principal import Expiry
from proxy.net.session.end_cause import NOT_AT_FAULT, EndCause
from proxy.net.session.greeting import accepted
from proxy.net.session.liveness import Liveness
from proxy.net.session.parts import ClientParts, make_parts
from proxy.net.session.router import Violation
from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import DATA, command_name, error_frame, parse_as
from proxy.wire.errors import FrameError

if TYPE_CHECKING:
    from proxy.net.ports import Transport
    from proxy.net.relay.requests import Pending
    from proxy.net.session.services import SessionServices
    from proxy.service_url import ServiceUrl

_T = pb.BaseCommand
_SEND: Final[int] = _T.SEND
_NOTHING: Final[frozenset[int]] = frozenset()

log = structlog.get_logger("keyline.session")


class SessionState(enum.Enum):
    """Where a session stands; it only ever moves down this list."""

    AWAITING_CONNECT = "awaiting_connect"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    ENDED = "ended"


class ClientSession:
    """Implements `ports.Receiver` towards the client and `RelayClient` towards its relay."""

    def __init__(
        self, services: SessionServices, ended: Callable[[ClientSession], None], first_broker: int = 0
    ) -> None:
        """`ended` is called once, when the connection is gone. `first_broker` spreads clients over the brokers."""
        self._services = services
        self._clock = services.clock
        self._limits = limits = services.limits
        self._ended = ended
        self._first_broker = first_broker % len(services.settings.brokers)
        self._state = SessionState.AWAITING_CONNECT
        self._lost: str | None = None
        """Why the connection is gone, if it is."""
        self._cause: EndCause | None = None
        self.counters = SessionCounters()
        self._splitter = frames.FrameSplitter(min(GREETING_FRAME_BYTES_MAX, limits.max_frame_bytes))
        self._incoming = FramesInSlices(services.slices, self._sort_guarded, self._read_or_pause, self._give_up)
        self._transport: Transport | None = None
        self._client_version = self._principal = ""
        self._expiry: Expiry | None = None
        self._parts: ClientParts | None = None
        """From CONNECT on."""
        self._broker_takes = self._owners_take = True
        self._timer = Alarm(self._clock)
        self._heartbeat = Heartbeat(
            self._clock,
            limits.keep_alive_s,
            ping=lambda: self.send(commands.ping()),
            dead=lambda: self._silent(2 * limits.keep_alive_s),
            paused=lambda: not self._reads,
        )
        self._liveness = Liveness(self._clock, self.send, self._heartbeat, self._silent, led=services.of_replicas)
        self.check_liveness, self.do_first = self._liveness.ask, self._incoming.do_first
        """As `ElsewhereClient` says."""

    @property
    def cause(self) -> EndCause | None:
        """Why the session ended; None while it lasts."""
        return self._cause

    def close(self) -> None:
        """End the session because the gateway stops; clients come back by themselves, to another replica perhaps."""
        self._end(EndCause.SHUT_DOWN, "the gateway is shutting down")

    # ---- ports.Receiver

    def opened(self, transport: Transport) -> None:
        """A client has connected and has so long to say CONNECT."""
        self._transport = transport
        self._timer.set(self._limits.handshake_timeout_s, self._handshake_late)
        self._heartbeat.start()

    def received(self, data: bytes) -> None:
        """Sort the client's frames: runs of what is only passed on leave as one write."""
        if self._state is SessionState.ENDED:
            return
        self._heartbeat.heard()
        self.counters.bytes_received_total += len(data)
        passed = self._pass_run(data)
        if passed == len(data):
            return
        try:
            incoming = self._splitter.feed(data[passed:] if passed else data)
        except FrameError as error:
            self._end(EndCause.BAD_FRAME, str(error), pb.UnknownError)
        else:
            self.counters.frames_received_total += len(incoming)
            self._incoming.take(incoming)

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """A client that does not read gets nothing more, from the broker or from its subscriptions."""
        if self._parts is not None:
            self._parts.writability_changed(writable)

    def closed(self, reason: str) -> None:
        """The connection is gone; what the client acknowledged before counts, though it waits its turn."""
        self._lost = reason
        if self._state is SessionState.ENDED:
            self._let_go()
            return
        if self._incoming.held and self._parts is not None:  # it gets nothing more, nor what it asked for
            self._parts.writability_changed(False)
            self._incoming.keep(_T.ACK)
        self._read_or_pause()

    # ---- RelayClient

    @property
    def unacked(self) -> int:
        """Messages that its workers have."""
        return 0 if self._parts is None else self._parts.workers.unacked

    @property
    def writable(self) -> bool:
        """False while the client leaves its socket unread."""
        return self._transport is not None and self._transport.writable

    def send(self, frame: bytes) -> None:
        """Queue whole frames to the client."""
        if self._transport is not None:
            self._transport.write(frame)

    def relay_connected(self, connected: pb.CommandConnected) -> None:
        """The broker took the client in."""
        self._state = SessionState.CONNECTED
        self._splitter.allow(self._limits.max_frame_bytes)
        told = downstream_connected(connected, self._limits.max_frame_bytes)
        self.send(frames.encode_command(_T(type=_T.CONNECTED, connected=told)))

    def relay_refused(self, reason: str, refusal: pb.CommandError | None) -> None:
        """Pass the broker's refusal on in its own words; a client tries again on ServiceNotReady."""
        if refusal is not None:
            self._end(EndCause.BROKER_REFUSED, refusal.message, refusal.error)
        else:
            self._end(EndCause.BROKER_UNREACHABLE, reason, pb.ServiceNotReady)

    def relay_target_refused(self, target: ServiceUrl) -> None:
        """Send the client to look up again: a broker that has just left is as unknown as one that never was."""
        self._services.names.refused(target.authority, self._peer, "no lookup names it")
        self._end(EndCause.TARGET_REFUSED, "the cluster does not name this broker; look up again", pb.ServiceNotReady)

    def relay_lost(self, reason: str) -> bool:
        """Stay for the workers' sake; without any, a client is told the broker is gone by a closed connection."""
        parts = self._parts
        if parts is not None and (parts.workers or parts.elsewhere):
            log.info("broker disconnected", peer=self._peer, reason=reason, workers=len(parts.workers))
            return True
        self._end(EndCause.BROKER_LOST, reason)
        return False

    def relay_dropped(self, *, returns: bool) -> None:
        """Let the parts know."""
        if self._parts is not None:
            self._parts.broker_dropped(returns=returns)

    def relay_producer_answered(self, pending: Pending, command: pb.BaseCommand) -> bool:
        """Ask the part that waits for it."""
        return self._parts is None or self._parts.producers.answered(pending, command)

    def relay_own_answered(self, pending: Pending, command: pb.BaseCommand) -> None:
        """Only permissions are asked for so."""
        if self._parts is not None and self._parts.permission is not None:
            self._parts.permission.replied(pending, command)

    def relay_transaction_ended(self, request: pb.CommandEndTxn) -> None:
        """Tell the subscriptions, here and at the owners that the client's consumers are led to."""
        if self._parts is not None:
            self._parts.transaction_ended(request)

    def relay_producer_closed(self, producer_id: int) -> bool:
        """Ask the part that waits for it."""
        return self._parts is None or self._parts.producers.closed_by_broker(producer_id)

    def relay_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Read from the client only what the broker takes."""
        self._broker_takes = writable
        self._read_or_pause()

    # ---- ElsewhereClient

    def elsewhere_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Read from the client only what the owners of its consumers take."""
        self._owners_take = writable
        self._read_or_pause()

    # ---- commands

    def _pass_run(self, data: bytes) -> int:
        """Pass on, as they came, the first frames of a read if nothing is looked at in them; their bytes."""
        if len(data) < frames.MIN_FRAME_BYTES or data[frames.COMMAND_START + 1] != _SEND:
            return 0  # acknowledgements, mostly, which workers are to have
        parts = self._parts
        if parts is None or self._state is not SessionState.CONNECTED or self._incoming.held:
            return 0
        unparsed = parts.router.unparsed()
        passed, count = self._splitter.leading_run(data, unparsed)
        if count:
            self.counters.frames_received_total += count
            parts.relay.forward(data if passed == len(data) else data[:passed], count)
        return passed

    def _sort_guarded(self, incoming: list[bytes], end: float) -> int:
        """Sort frames until the moment `end` or a long command, and say how many; all, once the session has ended."""
        try:
            return self._sort(incoming, end)
        except FrameError as error:
            self._end(EndCause.BAD_FRAME, str(error), pb.UnknownError)
        except Violation as violation:
            self._end(violation.cause, str(violation), violation.wire_code)
        return len(incoming)

    def _sort(self, incoming: list[bytes], end: float) -> int:
        now = self._clock.now
        run: list[bytes] = []
        parts = self._parts
        router = parts.router if parts is not None and self._state is SessionState.CONNECTED else None
        unparsed = _NOTHING if router is None else router.unparsed()
        for number, frame in enumerate(incoming, 1):
            kind = frames.frame_type(frame)
            if kind in unparsed and frames.type_stands_once(frame, 0, frames.payload_start(frame)):
                run.append(frame)
                continue
            if run and parts is not None:
                parts.relay.forward(b"".join(run), len(run))
                run = []
            if router is not None and kind in DATA:  # changes nothing of the session or of what goes unparsed
                router.take_data(kind, frame)
            else:
                self._command(kind, frame)
                if self._state is SessionState.ENDED:
                    return len(incoming)
                unparsed = _NOTHING if router is None else router.unparsed()
            if now() >= end or self._incoming.held:
                return number
        if run and parts is not None:
            parts.relay.forward(b"".join(run), len(run))
        return len(incoming)

    def _command(self, kind: int, frame: bytes) -> None:
        if kind == _T.CONNECT:
            self._connect(frame)
        elif self._parts is None:
            raise Violation(EndCause.NOT_CONNECTED, f"{command_name(kind)} before CONNECT")
        elif kind == _T.PING:
            self.send(commands.pong())
        elif kind == _T.PONG:
            self._liveness.answered(frame)
        elif kind == _T.AUTH_RESPONSE:
            self._parts.auth_response(parse_as(kind, frame).authResponse, frame)
        elif self._state is SessionState.CONNECTING:
            raise Violation(EndCause.NOT_CONNECTED, f"{command_name(kind)} before CONNECTED")
        else:
            self._parts.router.take(kind, frame)

    def _connect(self, frame: bytes) -> None:
        if self._state is not SessionState.AWAITING_CONNECT:
            raise Violation(EndCause.CONNECTED_TWICE, "CONNECT was sent twice")
        assert self._transport is not None
        greeting = accepted(parse_as(_T.CONNECT, frame).connect, self._transport, self._services, self._first_broker)
        self._timer.cancel()
        self._state = SessionState.CONNECTING
        self._client_version = client_version_of(greeting.connect)
        principal = greeting.introduction.principal
        if principal is not None:
            self._principal = principal.role
            self._expiry = Expiry(self._clock, principal, self._expired)
        self._parts = parts = make_parts(
            self, self._services, self._transport, greeting, self.counters, self._incoming, self._stuck
        )
        parts.relay.open()

    # ---- within

    @property
    def _reads(self) -> bool:
        """Whether more may come from the client: the broker takes it, and what came before was looked at."""
        return self._broker_takes and self._owners_take and not self._incoming.held

    def _give_up(self) -> None:
        """A bug: it closes this connection."""
        if self._transport is not None:
            self._transport.abort()

    def _stuck(self) -> None:
        """The client leaves an answer unread that other clients wait for."""
        self._end(EndCause.READS_NOTHING, "the client leaves unread what the broker says of its exclusive producers")

    def _read_or_pause(self) -> None:
        if self._state is SessionState.ENDED:
            return
        if self._lost is not None:
            if not self._incoming.held:
                self._end(EndCause.READS_NOTHING if self._lost == LEFT_UNREAD else EndCause.CLIENT_LEFT, self._lost)
        elif self._transport is not None and self._reads:
            self._transport.resume_reading()
        elif self._transport is not None:
            self._transport.pause_reading()

    @property
    def _peer(self) -> str:
        return self._transport.peer if self._transport is not None else "unknown"

    def _end(self, cause: EndCause, reason: str, wire_code: int | None = None) -> None:
        """End the session once: the client is told why if it is at fault, workers and broker always."""
        if self._state is SessionState.ENDED:
            return
        self._state = SessionState.ENDED
        self._cause = cause
        tell = log.debug if cause in NOT_AT_FAULT else log.info
        tell(
            "session_ended",
            peer=self._peer,
            client=self._client_version,
            principal=self._principal,
            cause=cause.value,
            reason=reason,
        )
        self._heartbeat.stop()
        self._liveness.stop()
        self._timer.cancel()
        if self._expiry is not None:
            self._expiry.stop()
            self._expiry = None  # which has a method of this
        self._incoming.end()
        if self._transport is not None:
            if wire_code is not None:
                self._transport.write(error_frame(wire_code, reason))
            self._close(self._transport, cause)
        if self._parts is not None:
            self._parts.end(reason, by_broker=cause is EndCause.BROKER_LOST)
        if self._lost is not None:
            self._let_go()

    def _let_go(self) -> None:
        self._timer.cancel()
        self._ended(self)
        # What remains refers to us at most, not we to it: so all of it goes now, and not when a collector comes by.
        self._parts = None

    def _close(self, transport: Transport, cause: EndCause) -> None:
        if cause is EndCause.SILENT:
            # What it did not get goes to others, and must not reach it when the network lets it through again.
            transport.abort()
        else:
            transport.close()
            self._timer.set(self._limits.handshake_timeout_s, transport.abort)

    def _handshake_late(self) -> None:
        reason = f"no CONNECT in {self._limits.handshake_timeout_s:g} s"
        self._end(EndCause.HANDSHAKE_TIMEOUT, reason, pb.NotAllowedError)

    def _expired(self) -> None:
        self._end(EndCause.CERTIFICATE_EXPIRED, f"the certificate of {self._principal!r} has expired")

    def _silent(self, seconds: float) -> None:
        self._end(EndCause.SILENT, f"the client was silent for {seconds:g} s")
