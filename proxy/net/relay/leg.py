"""One connection to a broker on behalf of one client: the handshake, the keep-alive, and the way frames come in.

A leg has one owner and tells it everything once, in order: connected, then data and commands, then lost. It never
decides what a loss means; the relay does, and the follower of redirects, which opens legs of the same kind.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from proxy.errors import ConfigurationError
from proxy.net.alarm import Alarm
from proxy.net.heartbeat import Heartbeat
from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import REPLIES, parse_as
from proxy.wire.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.limits import Limits
    from proxy.net.ports import Clock, Transport
    from proxy.net.relay.identity import Identity

_T = pb.BaseCommand

_PARSED = REPLIES - {_T.ACK_RESPONSE} | {_T.CLOSE_PRODUCER, _T.CLOSE_CONSUMER, _T.PING, _T.PONG, _T.AUTH_CHALLENGE}
"""What a leg looks at. All else is data: MESSAGE, SEND_RECEIPT, and commands newer than we are."""

_PARSED_WITH_ACKS = _PARSED | {_T.ACK_RESPONSE}
_PASSED = frozenset(range(128)) - _PARSED
"""Types of one byte that are data."""
_PASSED_WITHOUT_ACKS = _PASSED - {_T.ACK_RESPONSE}

NO_CREDENTIALS: Final = "the gateway's credentials for brokers cannot be had"
"""What a client is told; why is for the log."""

log = structlog.get_logger("keyline.relay")


class LegOwner(Protocol):
    """Who opened the leg."""

    def leg_connected(self, connected: pb.CommandConnected) -> None:
        """The broker took our CONNECT."""

    def leg_challenged(self, frame: bytes) -> None:
        """The broker wants credentials that only the client has, at the handshake or later."""

    def leg_data(self, data: bytes, frame_count: int) -> None:
        """Whole frames, so many, to pass on unparsed."""

    def leg_command(self, command: pb.BaseCommand, frame: bytes) -> None:
        """A command that settles a request or closes a producer or consumer."""

    def leg_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """The broker began or ceased to leave too much unread."""

    def leg_lost(self, reason: str, refusal: pb.CommandError | None) -> None:
        """The leg is gone; `refusal` is the broker's answer to our CONNECT, if it gave one."""


class LegState(enum.Enum):
    """Where a leg stands; it only ever moves down this list."""

    CONNECTING = "connecting"
    HANDSHAKE = "handshake"
    READY = "ready"
    ENDED = "ended"


class UpstreamLeg:
    """Implements `ports.Receiver` towards a broker."""

    def __init__(
        self,
        owner: LegOwner,
        identity: Identity,
        clock: Clock,
        limits: Limits,
        wish: str = "",
    ) -> None:
        """`identity` is asked for CONNECT when the connection stands; give the leg to a `Connector` next.

        `wish` is the broker that a proxy at the other end is to be told of.
        """
        self._owner = owner
        self._identity = identity
        self._wish = wish
        self._limits = limits
        self._splitter = frames.FrameSplitter(limits.max_frame_bytes)
        self._parsed: frozenset[int] = _PARSED
        self._passed: frozenset[int] = _PASSED
        self._state = LegState.CONNECTING
        self._transport: Transport | None = None
        self._handshake_timer = Alarm(clock)
        self._reading = True
        self.client_asked: Callable[[], None] | None = None
        """Where another replica's PING may ask for the client: what to do then."""
        self._heartbeat = Heartbeat(
            clock,
            limits.keep_alive_s,
            ping=self.ping,
            dead=self._silent,
            paused=lambda: not self._reading,
        )

    @property
    def ready(self) -> bool:
        """Whether the broker took our CONNECT and the connection stands."""
        return self._state is LegState.READY

    @property
    def paused(self) -> bool:
        """Whether nothing is taken from the broker now."""
        return not self._reading

    def take_heard(self) -> bool:
        """Whether bytes came since this was asked last."""
        return self._heartbeat.take_heard()

    def ping(self) -> None:
        """Ask for a sign of life."""
        self.write(commands.ping())

    def owned_by(self, owner: LegOwner) -> None:
        """Tell another from now on."""
        self._owner = owner

    def write(self, data: bytes) -> None:
        """Send whole frames; dropped unless the connection stands."""
        if self._transport is not None and self._state is not LegState.ENDED:
            self._transport.write(data)

    def expect_ack_receipts(self, expected: bool) -> None:  # noqa: FBT001 - a switch
        """Look at ACK_RESPONSE too, or let it pass as data."""
        self._parsed = _PARSED_WITH_ACKS if expected else _PARSED
        self._passed = _PASSED_WITHOUT_ACKS if expected else _PASSED

    def pause_reading(self) -> None:
        """Take nothing from the broker; idempotent."""
        self._reading = False
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Undo `pause_reading`; idempotent."""
        self._reading = True
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """End the leg without telling the owner."""
        self._end()
        if self._transport is not None:
            self._transport.close()

    # ---- ports.Receiver

    def opened(self, transport: Transport) -> None:
        """Say CONNECT, or nothing if the client has gone meanwhile."""
        self._transport = transport
        if self._state is LegState.ENDED:
            transport.close()
            return
        self._state = LegState.HANDSHAKE
        if not self._reading:
            transport.pause_reading()
        try:
            transport.write(self._identity.connect_frame(self._wish))
        except ConfigurationError as error:
            self._lose_credentials(error)
            return
        self._handshake_timer.set(self._limits.handshake_timeout_s, self._handshake_late)
        self._heartbeat.start()

    def received(self, data: bytes) -> None:
        """Sort the broker's frames: a run of data is passed on as one."""
        self._heartbeat.heard()
        passed = self._pass_run(data) if self._state is LegState.READY else 0
        if passed == len(data):
            return
        try:
            self._sort(self._splitter.feed(data[passed:] if passed else data))
        except FrameError as error:
            self._lose(f"the broker sent {error}")

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Pass on while the leg is of use."""
        if self._state is LegState.READY:
            self._owner.leg_writable(writable)

    def closed(self, reason: str) -> None:
        """Tell the owner unless it knows."""
        self._lose(reason)

    # ---- within

    def _pass_run(self, data: bytes) -> int:
        """Pass on, as they came, the first frames of a read if they are data; their bytes, or all if the leg ends."""
        passed, count = self._splitter.leading_run(data, self._passed)
        if count:
            self._owner.leg_data(data if passed == len(data) else data[:passed], count)
        return passed if self._state is LegState.READY else len(data)

    def _sort(self, incoming: list[bytes]) -> None:
        run: list[bytes] = []
        for frame in incoming:
            kind = frames.frame_type(frame)
            if kind not in self._parsed and self._state is LegState.READY:
                run.append(frame)
                continue
            if run:
                self._owner.leg_data(b"".join(run), len(run))
                run = []
            if self._state is LegState.ENDED:  # the owner may end the leg whenever it hears of something
                return
            self._command(kind, frame)
        if run and self._state is not LegState.ENDED:
            self._owner.leg_data(b"".join(run), len(run))

    def _command(self, kind: int, frame: bytes) -> None:
        if kind == _T.PING:
            if self.client_asked is not None and frame == commands.ask_client():
                self.client_asked()
            else:
                self.write(commands.pong())
        elif kind == _T.AUTH_CHALLENGE:
            self._challenged(frame)
        elif self._state is LegState.READY and kind != _T.PONG:
            self._owner.leg_command(parse_as(kind, frame), frame)
        elif kind == _T.CONNECTED:
            self._state = LegState.READY
            self._handshake_timer.cancel()
            self._owner.leg_connected(parse_as(kind, frame).connected)
        elif kind == _T.ERROR:
            refusal = parse_as(kind, frame).error
            self._lose(f"the broker refused the connection: {refusal.message}", refusal)
        elif kind != _T.PONG:
            self._lose(f"the broker answered CONNECT with command type {kind}")

    def _challenged(self, frame: bytes) -> None:
        try:
            answer = self._identity.answer()
        except ConfigurationError as error:
            self._lose_credentials(error)
            return
        if answer is None:
            self._owner.leg_challenged(frame)
        else:
            self.write(answer)

    def _lose_credentials(self, error: ConfigurationError) -> None:
        log.error("credentials not loaded", reason=str(error))
        self._lose(NO_CREDENTIALS)

    def _lose(self, reason: str, refusal: pb.CommandError | None = None) -> None:
        if self._state is LegState.ENDED:
            return
        self._end()
        if self._transport is not None:
            self._transport.close()
        self._owner.leg_lost(reason, refusal)

    def _end(self) -> None:
        self._state = LegState.ENDED
        self._heartbeat.stop()
        self._handshake_timer.cancel()

    def _handshake_late(self) -> None:
        self._lose(f"the broker did not answer CONNECT in {self._limits.handshake_timeout_s:g} s")

    def _silent(self) -> None:
        reason = f"the broker was silent for {2 * self._limits.keep_alive_s:g} s"
        if self._transport is not None:
            self._transport.abort()  # nothing queued would ever reach it
        self._lose(reason)
