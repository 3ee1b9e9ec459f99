"""One connection as processes see it: bytes in order, cut anywhere, late, and ended in every way that TCP can.

A connection has two ends. What an end writes in one turn leaves together at its end, pushed or not, and arrives in
order after a delay, in pieces cut at random places. An end that does not read leaves bytes standing; beyond the
high-water mark the writer is told. A connection may be cut (both ends learn of it, each in its own time, or only one
does; what is under way is lost) or go silent (nothing arrives any more in one direction or both, and neither end is
told).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Receiver, Transport
    from tests.sim.machine import Process
    from tests.sim.network import Network


@dataclass(frozen=True)
class Weather:
    """What the network is like."""

    delay_s: float
    """Mean of an exponential distribution; each piece has its own, and none overtakes another."""
    cut_chance: float
    """That what one turn wrote arrives in several pieces."""
    high_water_bytes: int
    low_water_bytes: int


class Tap:
    """Watches one end of connections: told before the process that owns the end."""

    def opened(self, end: End) -> None:
        """The connection stands at this end."""

    def wrote(self, end: End, data: bytes) -> None:
        """The process wrote this."""

    def arrives(self, end: End, data: bytes) -> None:
        """The process is about to be given this."""

    def ended(self, end: End) -> None:
        """The connection is over for this end: it was told so, or ended it itself."""


class End:
    """One end of a connection: implements `ports.Transport`."""

    def __init__(self, network: Network, process: Process, receiver: Receiver, peer: str) -> None:
        self.network = network
        self.process = process
        self.receiver = receiver
        self.peer = peer
        self.other: End | None = None
        self.over = False
        """This end was told, or knows by itself, that nothing more comes."""
        self.deaf = False
        """What is sent to it gets lost on the way."""
        self._pieces: list[bytes] = []
        self._flush_due = False
        self._closing = False
        self._reading = True
        self._read_due = False
        self._arrived: deque[bytes] = deque()
        self._unread_bytes = 0
        """Written to it by the other end and not yet given to its receiver."""
        self._free_at_s = 0.0
        """When the last piece under way to it arrives."""
        self._fin_arrived = False
        self._full = False
        self._kept: deque[Callable[[], None]] = deque()
        """What has not arrived because the two processes are parted."""
        self.aborted = False
        """Its system sends nothing again."""
        self.peer_gone = False
        """The other end is over, and this one could not be told."""

    # ---- ports.Transport

    @property
    def peer_certificate(self) -> bytes | None:
        """As the port says; everything is plain here."""
        return None

    @property
    def writable(self) -> bool:
        """As the port says."""
        return not self._full

    def write(self, data: bytes) -> None:
        """As the port says."""
        if self._closing or self.over:
            return
        self.network.tap.wrote(self, data)
        self._pieces.append(data)
        self._look_at_water()
        self._flush_soon()

    def push(self) -> None:
        """As the port says; what is queued leaves when it would in any case."""

    def limit(self, seconds: float) -> None:
        """As the port says; nobody stands still within a turn here."""

    def pause_reading(self) -> None:
        """As the port says."""
        self._reading = False

    def resume_reading(self) -> None:
        """As the port says."""
        if not self._reading:
            self._reading = True
            self._read_soon()

    def close(self) -> None:
        """As the port says."""
        if not self._closing and not self.over:
            self._closing = True
            self._flush_soon()

    def abort(self) -> None:
        """As the port says."""
        self._pieces.clear()
        self._closing = self.aborted = True
        if not self.over:
            self.network.tap.ended(self)  # its owner goes on as if it were, in this turn
            self.process.call_soon(lambda: self.end("closed by us"))
            self._tell_other("connection reset by peer")

    # ---- the way to the other end

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self.process.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        data = b"".join(self._pieces)
        self._pieces.clear()
        other = self.other
        if data and other is not None and not self.over:
            for piece in self.network.cut_up(data):
                other.send_to(piece)
            if self.peer_gone and not self.parted:
                self.network.later(self.process, self.network.now_s + self.network.delay(), _ending(self))
        if self._closing and not self.over:
            if other is not None and not other.deaf:
                self.network.later(other.process, other.due(), lambda: other.arrive(other.take_fin))
            self.end("closed by us")

    def send_to(self, piece: bytes) -> None:
        """A piece is on its way to this end."""
        if self.over:
            return
        self._unread_bytes += len(piece)
        if self.deaf:
            return  # it stands in buffers on the way for ever
        self.network.later(self.process, self.due(), lambda: self.arrive(lambda: self._take(piece)))

    def due(self) -> float:
        """When what is sent now arrives: never before what was sent earlier."""
        self._free_at_s = max(self._free_at_s, self.network.now_s + self.network.delay())
        return self._free_at_s

    # ---- parted for a while

    @property
    def parted(self) -> bool:
        """Whether nothing gets through between the two processes now."""
        return self.other is not None and self.network.parted(self.process, self.other.process)

    def arrive(self, call: Callable[[], None]) -> None:
        """Something has come so far; it waits behind what did not get through."""
        if self._kept or self.parted:
            self._kept.append(call)
        else:
            call()

    def rejoin(self) -> None:
        """The two are together again."""
        if self.other is not None and self.other.aborted:
            self._kept.clear()
        elif self._kept:
            self.network.later(self.process, self.due(), self._let_through)

    def _let_through(self) -> None:
        while self._kept and not self.parted:
            self._kept.popleft()()

    # ---- what arrives

    def _take(self, piece: bytes) -> None:
        if self.over or self.deaf:
            return
        self._arrived.append(piece)
        self._read()

    def _read_soon(self) -> None:
        if not self._read_due:
            self._read_due = True
            self.process.call_soon(self._read)

    def _read(self) -> None:
        self._read_due = False
        while self._arrived and self._reading and not self.over:
            piece = self._arrived.popleft()
            self._unread_bytes -= len(piece)
            self.network.tap.arrives(self, piece)
            self.receiver.received(piece)
            if self.other is not None:
                self.other.peer_read()
        if self._fin_arrived and not self._arrived:
            self.end("closed by the peer")

    def take_fin(self) -> None:
        """The other end closed: told when everything before it was read."""
        self._fin_arrived = True
        self._read()

    def end(self, reason: str) -> None:
        """It is over at this end."""
        if self.over:
            return
        self.over = True
        self._closing = True
        self._arrived.clear()
        self._pieces.clear()
        self.network.forget(self)
        self.network.tap.ended(self)
        self.receiver.closed(reason)

    def _tell_other(self, reason: str) -> None:
        other = self.other
        if other is None or other.over or other.deaf:
            return
        if self.parted:
            other.peer_gone = True
            return
        self.network.later(other.process, self.network.now_s + self.network.delay(), lambda: other.end(reason))

    # ---- water marks

    def peer_read(self) -> None:
        """The other end has read some."""
        if self._full and not self.over:
            self.process.call_soon(self._look_at_water)

    def _look_at_water(self) -> None:
        unread = sum(map(len, self._pieces)) + (self.other._unread_bytes if self.other is not None else 0)
        weather = self.network.weather
        if not self._full and unread > weather.high_water_bytes:
            self._full = True
        elif self._full and unread <= weather.low_water_bytes:
            self._full = False
        else:
            return
        self.process.call_soon(self._tell_water)

    def _tell_water(self) -> None:
        if not self.over:
            self.receiver.writability_changed(not self._full)

    # ---- what the world does to it

    def cut(self) -> None:
        """Both ends learn of it, in their own time; what is under way is lost."""
        for end in (self, self.other):
            if end is not None and not end.over:
                self.network.later(end.process, self.network.now_s + self.network.delay(), _ending(end))
                end.deaf = True

    def cut_alone(self) -> None:
        """Only this end learns of it, as from a firewall that answers for the other; what is under way is lost."""
        if not self.over:
            self.network.later(self.process, self.network.now_s + self.network.delay(), _ending(self))
        for end in (self, self.other):
            if end is not None:
                end.deaf = True

    def go_deaf(self) -> None:
        """Nothing arrives here any more, and nobody is told."""
        self.deaf = True

    def die(self) -> None:
        """Its process was killed: the system resets the connection."""
        self.over = self.aborted = True
        self.network.forget(self)
        self.network.tap.ended(self)
        self._tell_other("connection reset by peer")


def _ending(end: End) -> Callable[[], None]:
    return lambda: end.end("connection reset by peer")


class Nobody:
    """The receiver of a connection that is not accepted yet."""

    def opened(self, transport: Transport) -> None:
        """Not to be called: a connection is accepted first."""
        raise AssertionError(transport)

    def received(self, data: bytes) -> None:
        """Not to be called: bytes come behind the connection."""
        raise AssertionError(data)

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - mirrors the port
        """Nothing was written."""

    def closed(self, reason: str) -> None:
        """It ended before it was accepted."""
