"""Accepts TLS clients, and counts each of them before its handshake.

Problem: an event loop's own TLS server reports a connection only after its handshake. A connection that sends nothing,
or half a hello, was counted nowhere: such connections took file descriptors and memory outside every bound, and all
simultaneous hellos were answered in one turn of the loop, a signature each.
Rule: a connection counts in `connections_max` and `connections_per_address_max` as soon as it is accepted; beyond the
limit it is closed at once, without a signature. At most `handshakes_max` handshakes run at a time. At that limit the
oldest gives way if it has used its time; otherwise new connections wait, not accepted, until one ends. Only a few are
accepted in a turn, so that others are served in between.

Why a separate accept: neither loop's server reports failed handshakes, and uvloop reads before a protocol can pause it,
so TLS cannot be started later on a connection that it has accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from proxy.aio.transport import AioTransport, address_text

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from proxy.aio.turns import LoopTurns
    from proxy.limits import Limits
    from proxy.net.ports import Receiver, Transport

ACCEPTED_PER_TURN: Final = 8
"""A signature takes a millisecond, with the key that takes longest among the usual ones."""
BACKLOG: Final = 1024
OWN_TIME_S: Final = 1.0
"""Time of a handshake before it gives way to waiting ones; honest ones take a few round trips."""
TRY_AGAIN_S: Final = 1.0
"""Pause after the operating system had no resources to accept."""

log = structlog.get_logger("keyline.server")


class Places(Protocol):
    """Counts connections."""

    def reserve(self, peer: str) -> bool:
        """Reserve a connection for a handshake; False at the limit."""

    def give_up(self, peer: str) -> None:
        """Its handshake is over, one way or the other."""

    def admit(self, peer: str) -> Receiver:
        """Give the receiver for an open connection."""


class Handshake:
    """A running handshake."""

    __slots__ = ("began_at", "peer", "socket")

    def __init__(self, made: socket.socket, peer: str, began_at: float) -> None:
        """`began_at` is the loop's time."""
        self.socket = made
        self.peer = peer
        self.began_at = began_at


class TlsDoor:
    """One address with TLS."""

    def __init__(
        self,
        places: Places,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        context: ssl.SSLContext,
        turns: LoopTurns | None = None,
    ) -> None:
        """`open` begins; `turns` as for `AioTransport`."""
        self._turns = turns
        self._places = places
        self._limits = limits
        self._loop = loop
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: dict[Handshake, None] = {}
        """In the order of their arrival."""
        self._waits: asyncio.TimerHandle | None = None
        self.sockets: Sequence[socket.socket] = ()
        self.failed_total = 0
        """Failed handshakes."""

    async def open(self, host: str, port: int, *, shared: bool = False) -> None:
        """Start accepting, beside other processes if `shared`. Raises `OSError` if the address is not available."""
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        with contextlib.ExitStack() as undo:
            opened = [
                undo.enter_context(_listening(family, address, shared=shared))
                for family, _, _, _, address in dict.fromkeys(found)
            ]
            undo.pop_all()
        self.sockets = opened
        self._listen()

    def close(self) -> None:
        """Stop accepting; running handshakes are aborted."""
        self._stop_listening()
        if self._waits is not None:
            self._waits.cancel()
        for listening in self.sockets:
            listening.close()
        self.sockets = ()
        for handshake in list(self._under_way):
            self._break_off(handshake)

    # ---- accepting

    def _listen(self) -> None:
        self._waits = None
        for listening in self.sockets:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _stop_listening(self) -> None:
        for listening in self.sockets:
            self._loop.remove_reader(listening.fileno())

    def _wait(self, seconds: float) -> None:
        """Let new connections wait in the operating system's queue."""
        if self._waits is None:
            self._stop_listening()
            self._waits = self._loop.call_later(seconds, self._listen)

    def _accept(self, listening: socket.socket) -> None:
        if not self._room():
            return
        for _ in range(ACCEPTED_PER_TURN):
            if self._full:  # the next turn shows whether a connection waits for which the oldest would give way
                return
            try:
                made, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                reason = errno.errorcode.get(error.errno or 0, str(error))
                log.warning("connections not accepted", reason=reason, again_in_s=TRY_AGAIN_S)
                self._wait(TRY_AGAIN_S)
                return
            self._begin(made, address_text(address))

    @property
    def _full(self) -> bool:
        return len(self._under_way) >= self._limits.handshakes_max

    def _room(self) -> bool:
        """Whether a waiting connection may start its handshake; the oldest may have to give way."""
        if not self._full:
            return True
        oldest = next(iter(self._under_way))
        left_s = oldest.began_at + OWN_TIME_S - self._loop.time()
        if left_s > 0:
            self._wait(left_s)
            return False
        self._break_off(oldest)
        return True

    # ---- shaking hands

    def _begin(self, made: socket.socket, peer: str) -> None:
        if not self._places.reserve(peer):
            made.close()
            return
        made.setblocking(False)
        handshake = Handshake(made, peer, self._loop.time())
        self._under_way[handshake] = None
        task = self._loop.create_task(self._shake_hands(handshake))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, handshake: Handshake) -> None:
        def stands(transport: Transport) -> Receiver:
            self._over(handshake)
            return self._places.admit(transport.peer)

        try:
            await self._loop.connect_accepted_socket(
                lambda: AioTransport(stands, self._loop, self._limits, self._turns),
                handshake.socket,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.handshake_timeout_s,
            )
        except OSError as error:  # what the peer sends, its end, and time; ssl.SSLError is one
            self.failed_total += 1
            log.debug("TLS handshake failed", peer=handshake.peer, reason=str(error))
        finally:
            self._over(handshake)

    def _break_off(self, handshake: Handshake) -> None:
        """The loop notifies its task, as if the peer had closed."""
        self._over(handshake)
        with contextlib.suppress(OSError):
            handshake.socket.shutdown(socket.SHUT_RDWR)

    def _over(self, handshake: Handshake) -> None:
        """Idempotent."""
        if handshake not in self._under_way:
            return
        del self._under_way[handshake]
        self._places.give_up(handshake.peer)
        if self._waits is not None and self.sockets:
            self._waits.cancel()
            self._listen()


def _listening(family: int, address: tuple[object, ...], *, shared: bool) -> socket.socket:
    made = socket.create_server(address, family=family, backlog=BACKLOG, reuse_port=shared)
    made.setblocking(False)
    return made
