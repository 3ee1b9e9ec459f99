"""One direction of one connection: reads, holds each piece for as long as it takes, writes.

Two coroutines with a short queue between them, so that a delay does not stop the reading and a stall does, once the
queue is full: like a network, a pipe holds only so much, and what does not fit presses back on the sender.
"""

from __future__ import annotations

import asyncio
import random
import socket
from typing import TYPE_CHECKING, Final

from integration.faults.conditions import HEALTHY, Conditions
from integration.faults.frame_border import FrameBorder

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE_BYTES: Final = 16 * 1024
QUEUED_PIECES_MAX: Final = 64
"""With the piece size: a pipe holds one MiB at most."""
PIECES_PER_S: Final = 20
"""Into how many portions the bytes of a second are cut where the bandwidth is bounded."""


class Truncated(Exception):
    """The pipe was cut inside a frame, as it was told to."""


class Lane:
    """The conditions of one direction, shared by all its pipes and changed while they run."""

    def __init__(self) -> None:
        """Without faults."""
        self.conditions = HEALTHY
        self.forwarded_bytes = 0
        self._moving = asyncio.Event()
        self._moving.set()

    def change(self, conditions: Conditions) -> None:
        """From now on; what waits already keeps the delay it was given."""
        self.conditions = conditions
        if conditions.stalled:
            self._moving.clear()
        else:
            self._moving.set()

    async def moving(self) -> None:
        """Return when it is not stalled."""
        await self._moving.wait()


class Pipe:
    """From one socket to the other."""

    def __init__(self, source: socket.socket, sink: socket.socket, lane: Lane, chance: random.Random) -> None:
        """Nothing moves before `read` and `write` run."""
        self.source = source
        self.sink = sink
        self._lane = lane
        self._chance = chance
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUED_PIECES_MAX)
        self._due = 0.0
        self._border = FrameBorder()
        self._truncate_after: int | None = None
        self._closed = False
        self._forgotten = False
        self.forwarded_bytes = 0

    async def read(self) -> None:
        """Take from the source until it ends.

        Raises:
            OSError: the connection broke.
        """
        while True:
            data = await self._receive()
            conditions = self._lane.conditions
            delay_ms = conditions.delay_ms + self._chance.uniform(0, conditions.jitter_ms)
            self._due = max(self._due, self._loop.time() + delay_ms / 1_000)
            await self._queue.put((self._due, data))
            if not data:
                return

    async def write(self) -> None:
        """Give to the sink until the source has ended, then end it too.

        Raises:
            OSError: the connection broke.
            Truncated: it was to be cut, and was.
        """
        while True:
            due, data = await self._queue.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            if not data:
                await self._lane.moving()
                self.half_close()
                return
            while data:
                await self._lane.moving()
                rate = self._lane.conditions.bytes_per_s
                portion = len(data) if rate is None else max(1, int(rate / PIECES_PER_S))
                await self._forward(data[:portion])
                if rate is not None:
                    await asyncio.sleep(min(portion, len(data)) / rate)
                data = data[portion:]

    def half_close(self) -> None:
        """Send FIN to the sink, as if the source had; what the source sends from now on is discarded."""
        if not self._closed:
            self._closed = True
            _quietly(lambda: self.sink.shutdown(socket.SHUT_WR))

    def forget(self) -> None:
        """Move nothing any more, and tell the sink of no end of the source."""
        self._forgotten = True
        self._lane = Lane()
        self._lane.change(Conditions(stalled=True))

    def truncate(self, after_bytes: int) -> None:
        """Let so many bytes pass, and more until a frame has begun and not ended; then break."""
        self._truncate_after = after_bytes

    async def _receive(self) -> bytes:
        try:
            return await self._loop.sock_recv(self.source, PIECE_BYTES)
        except OSError:
            if not self._forgotten:
                raise
            return b""

    async def _forward(self, data: bytes) -> None:
        if self._closed:
            return
        limit = self._truncate_after
        if limit is None:
            self._border.advance(data)
        else:
            count = self._border.first_inside(data, limit)
            if count is not None:
                await self._send(data[:count])
                raise Truncated
            self._truncate_after = max(0, limit - len(data))
        await self._send(data)

    async def _send(self, data: bytes) -> None:
        try:
            await self._loop.sock_sendall(self.sink, data)
        except OSError:
            if not self._closed:  # else it was half-closed meanwhile
                raise
        self._lane.forwarded_bytes += len(data)
        self.forwarded_bytes += len(data)


def _quietly(call: Callable[[], object]) -> None:
    """Do what may fail because the peer was faster."""
    try:
        call()
    except OSError:
        return
