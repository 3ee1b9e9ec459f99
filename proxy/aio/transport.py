"""One TCP connection on asyncio: writes gathered per loop turn, water marks, and receivers that may fail.

There is no coroutine, task or queue per message. Writes of one loop turn are gathered into one write, because a system
call costs more than the gateway's whole work on a small message.

What is pushed leaves at once: the peer reads it while the gateway does the rest of the turn, such as cutting other
workers' slices of a batch. Only the first push of a turn counts, for several workers may share a connection. It does
not where a limit is to be looked at (leases, so in owner mode), and by TLS, whose bytes are the loop's to encrypt.

An exception that escapes from a state machine is a bug. It is logged once, with its stack, and closes its connection;
other connections, and the process, continue.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

import structlog

from proxy.aio.turns import LoopTurns
from proxy.net.ports import LEFT_UNREAD

if TYPE_CHECKING:
    from proxy.limits import Limits
    from proxy.net.ports import Receiver, Transport

log = structlog.get_logger("keyline.net")

RESET: Final = struct.pack("ii", 1, 0)
"""Of SO_LINGER: at the close the system sends nothing more but a reset."""
READ_OUT_S: Final = 1.0
"""Time in which a closing connection still reads the data that its peer has sent."""

READ_BYTES: Final = 64 << 10
"""Of one read of what a peer that has left had sent."""
REST_READS_MAX: Final = 16
"""So many: more than the acknowledgements of all that a client may hold."""

SCATTERED_BYTES: Final = 8 << 10
"""Pieces that are larger on average are written side by side: to join them costs more than a longer system call."""

PUSHED_BYTES_MAX: Final = 64 << 10
"""More is left to the loop, which copies nothing: of a push, what the system does not take is copied."""

PAUSED_READING_S: Final = 0.01
"""Interval of the checks of such a connection while its receiver does not read."""


class AioTransport(asyncio.Protocol):
    """One TCP connection: implements `ports.Transport` for receivers and `asyncio.Protocol` for the loop.

    `writable` turns false in the very `write` that crosses the high-water mark; the receiver hears of it, and of
    the turn back, from the loop, strictly in turns.
    """

    def __init__(
        self,
        make_receiver: Callable[[Transport], Receiver],
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        turns: LoopTurns | None = None,
    ) -> None:
        """`make_receiver` is called once, when the peer is known, so that a listener can refuse it.

        `turns` are those of the loop, which all its connections share; by default turns that nothing paces.
        """
        self._make_receiver = make_receiver
        self._loop = loop
        self._turns = turns or LoopTurns(loop)
        self._high_water_bytes = limits.unread_high_water_bytes
        self._low_water_bytes = limits.unread_low_water_bytes
        self._unread_bytes_max = limits.unread_bytes_max
        self._receiver: Receiver | None = None
        self._received: Callable[[bytes], None] = _too_early
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        """Of the socket while the connection is open, if its bytes are sent as they are and not by TLS."""
        self._peer = "not connected"
        self._pieces: list[bytes] = []
        self._pieces_bytes = 0
        self._flush_due = False
        self._pushed = False
        """Whether something was in this turn."""
        self._flush_by = math.inf
        self._loop_full = False
        self._writable = True
        self._told_writable = True
        self._reading = True
        self._closing = False
        self._writes_end = False
        """No more writes; always true once it is closing."""
        self._heard = False
        """Whether bytes came since `_read_out` last looked."""
        self._close_reason = ""

    @property
    def opened(self) -> bool:
        """Whether the connection was ever open, so that the loop reports its end."""
        return self._transport is not None

    # ---- ports.Transport

    @property
    def peer(self) -> str:
        """As the port says."""
        return self._peer

    @property
    def peer_certificate(self) -> bytes | None:
        """As the port says: OpenSSL asks no client for one unless its context verifies it."""
        secured = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return None if secured is None else secured.getpeercert(binary_form=True)

    @property
    def writable(self) -> bool:
        """As the port says."""
        return self._writable

    def write(self, data: bytes) -> None:
        """As the port says."""
        if self._writes_end:
            return
        if not self._flush_due:
            self._flush_due = True
            self._turns.at_end(self._flush)
        self._pieces.append(data)
        self._pieces_bytes += len(data)
        if self._pieces_bytes > self._high_water_bytes:
            self._writable = False

    def push(self) -> None:
        """As the port says, if there is no limit to be looked at when the turn ends, and if the peer reads."""
        fits = 0 < self._pieces_bytes <= PUSHED_BYTES_MAX and not self._scattered
        if fits and self._writable and not self._pushed and self._flush_by == math.inf:
            self._pushed = True
            rest = self._send_at_once(b"".join(self._pieces))
            self._pieces = [rest] if rest else []
            self._pieces_bytes = len(rest)

    def limit(self, seconds: float) -> None:
        """As the port says."""
        self._flush_by = min(self._flush_by, time.monotonic() + seconds)
        if not self._flush_due:  # also if nothing is written after all: a limit is for its own turn
            self._flush_due = True
            self._turns.at_end(self._flush)

    def pause_reading(self) -> None:
        """As the port says."""
        if self._reading:
            self._reading = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """As the port says."""
        if not self._reading:
            self._reading = True
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def close(self) -> None:
        """As the port says."""
        if self._closing:
            return
        self._closing = self._writes_end = True
        self._close_reason = self._close_reason or "closed by us"
        if not self._flush_due:
            self._flush_due = True
            self._turns.at_end(self._flush)

    def abort(self) -> None:
        """As the port says; `connection_lost` comes from the loop, never from here."""
        if self._transport is not None and not self._transport.is_closing():
            raw = self._transport.get_extra_info("socket")
            if raw is not None:  # or the system tries to send what it has, for minutes
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._close_at_once()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop has a connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._high_water_bytes, low=self._low_water_bytes)
        self._peer = address_text(transport.get_extra_info("peername"))
        raw = transport.get_extra_info("socket")
        if raw is not None and transport.get_extra_info("ssl_object") is None:
            self._descriptor = raw.fileno()
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._receiver = receiver = self._make_receiver(self)
        self._received = receiver.received
        try:
            receiver.opened(self)
        except Exception:  # noqa: BLE001 - a bug in the receiver, see `_failed`
            self._failed()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._closing:
            return
        try:
            self._received(data)
        except Exception:  # noqa: BLE001 - a bug in the receiver, see `_failed`
            self._failed()

    def pause_writing(self) -> None:
        """The loop holds more than the high-water mark."""
        self._loop_full = True
        self._writable = False
        self._tell_writable()

    def resume_writing(self) -> None:
        """The loop's buffer emptied to the low-water mark."""
        self._loop_full = False
        self._writable = self._pieces_bytes <= self._high_water_bytes
        self._tell_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        if exc is not None and self._descriptor >= 0:
            self._read_rest()
        self._closing = self._writes_end = True
        self._descriptor = -1
        self._drop_pieces()
        reason = self._close_reason or (str(exc) if exc is not None else "closed by the peer")
        if self._receiver is not None:
            try:
                self._receiver.closed(reason)
            except Exception:  # noqa: BLE001 - a bug in the receiver, see `_failed`
                self._failed()
            # A connector's `make_receiver` refers to the receiver, and the receiver to this transport: break the cycle.
            self._receiver, self._received, self._make_receiver = None, _too_early, _no_receiver

    # ---- within

    def _read_rest(self) -> None:
        """Read what the peer had sent before it left: the loop gives that up where a write fails before it is read.

        A client that closes has acknowledged what it worked on, just before. The socket is open still, and now is the
        last time that it can be read, though the receiver has paused.
        """
        for _ in range(REST_READS_MAX):
            if self._closing:
                return
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except OSError:
                return
            if not data:
                return
            self.data_received(data)

    @property
    def _scattered(self) -> bool:
        """Whether what is queued is several large pieces."""
        count = len(self._pieces)
        return count > 1 and self._pieces_bytes > SCATTERED_BYTES * count

    def _send_at_once(self, data: bytes) -> bytes:
        """Send what the system takes now, while nothing waits to go before it; what is left."""
        transport = self._transport
        if self._descriptor < 0 or transport is None or transport.is_closing() or transport.get_write_buffer_size():
            return data
        try:
            return data[os.write(self._descriptor, data) :]
        except OSError:  # the peer does not read, or is gone: the loop tells which
            return data

    def _flush(self) -> None:
        self._flush_due = self._pushed = False
        transport = self._transport
        if transport is None:
            return
        flush_by, self._flush_by = self._flush_by, math.inf
        if self._pieces and flush_by < math.inf and time.monotonic() >= flush_by:
            self._give_up_unsent()
            return
        if not self._writable:
            self._tell_writable()  # may end in `abort`, which leaves nothing to write
        pieces = self._pieces
        if pieces:
            scattered = self._scattered
            self._pieces = []
            self._pieces_bytes = 0
            if scattered:
                transport.writelines(pieces)
            else:
                transport.write(b"".join(pieces))  # of one it is that one, and not a copy
            if not self._loop_full:
                self._writable = True
                self._tell_writable()
            elif transport.get_write_buffer_size() > self._unread_bytes_max:
                log.warning("unread connection closed", peer=self._peer, unread_bytes=transport.get_write_buffer_size())
                self._close_reason = LEFT_UNREAD
                self.abort()
        if self._closing and not self._pieces:
            transport.close()

    def _close_at_once(self) -> None:
        self._closing = self._writes_end = True
        self._close_reason = self._close_reason or "closed by us"
        self._drop_pieces()
        if self._transport is not None:
            self._transport.abort()

    def _drop_pieces(self) -> None:
        self._pieces.clear()
        self._pieces_bytes = 0

    def _give_up_unsent(self) -> None:
        """Send nothing more, and close the connection when the peer's sent data is read.

        It may contain acknowledgements: unread, their messages would be redelivered.
        """
        log.warning("stalled connection closed", peer=self._peer, unsent_bytes=self._pieces_bytes)
        self._close_reason = "the gateway stalled with data to send"
        self._writes_end = True
        self._drop_pieces()
        received = self._received

        def last(data: bytes) -> None:
            self._heard = True
            received(data)

        self._received = last
        self._read_out(time.monotonic() + READ_OUT_S)

    def _read_out(self, until: float) -> None:
        """Check again two turns later: the loop reads its sockets before the second of them."""
        self._heard = False

        def look() -> None:
            if self._closing:
                return
            if time.monotonic() >= until or (self._reading and not self._heard):
                self._close_at_once()
            elif self._reading:
                self._read_out(until)
            else:
                self._loop.call_later(PAUSED_READING_S, self._read_out, until)

        self._loop.call_soon(lambda: self._loop.call_soon(look))

    def _tell_writable(self) -> None:
        if self._writable != self._told_writable and self._receiver is not None and not self._closing:
            self._told_writable = self._writable
            try:
                self._receiver.writability_changed(self._writable)
            except Exception:  # noqa: BLE001 - a bug in the receiver, see `_failed`
                self._failed()

    def _failed(self) -> None:
        log.exception(  # noqa: LOG004 - called from exception handlers only
            "receiver failed", peer=self._peer, receiver=type(self._receiver).__name__
        )
        self._close_reason = "internal error"
        self.abort()


def _too_early(_data: bytes) -> None:
    """Stand in for the receiver until there is one; no byte comes before `connection_made`."""
    message = "bytes before the connection was made"
    raise AssertionError(message)


def _no_receiver(_transport: Transport) -> Receiver:
    """Replaces `make_receiver` when the connection is closed."""
    message = "a connection was made that had been lost"
    raise AssertionError(message)


def address_text(address: object) -> str:
    """A socket's address as ``host:port``, IPv6 in brackets."""
    if isinstance(address, tuple) and len(address) >= 2:  # noqa: PLR2004 - host and port come first, always
        host, port = address[0], address[1]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    return str(address) if address else "unknown"
