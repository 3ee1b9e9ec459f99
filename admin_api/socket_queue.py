"""One WebSocket from the gateway's side: the gateway queues frames, a task sends them, and neither waits for the other.

The gateway bounds the queue: when the client leaves too much unread, it sends nothing more until that is read. The
client's unacknowledged messages bound everything that it can get.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

Frame = str | bytes
UNREAD_HIGH_BYTES = 1 << 20
CLOSE_S_MAX = 5.0
"""Time for a client to read the queued frames and the close."""
UNREAD_LOW_BYTES = 1 << 18


class SocketQueue:
    """Implements `ports.WorkerSocket`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Neither accepted nor refused."""
        self._loop = loop
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._writable = True
        self._awake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closing: tuple[int, str] | None = None
        self.over = asyncio.Event()
        """Set when the time to read the frames before the close is over."""
        self._gone = False
        self.outcome: asyncio.Future[tuple[int, str] | None] = loop.create_future()
        """None once accepted, or the status and the reason why not."""
        self.writability_changed: Callable[[bool], None] = _to_nobody

    def accept(self) -> None:
        """As the port says."""
        if not self.outcome.done():
            self.outcome.set_result(None)

    def refuse(self, status: int, detail: str) -> None:
        """As the port says."""
        if not self.outcome.done():
            self.outcome.set_result((status, detail))

    def send(self, frame: Frame) -> None:
        """As the port says."""
        if self._closing is None:
            self._frames.append(frame)
            self._bytes += _size(frame)
            self._awake.set()
            if self._writable and self._bytes > UNREAD_HIGH_BYTES:
                self._writable = False
                self._loop.call_soon(self._tell)

    def close(self, code: int, reason: str) -> None:
        """As the port says."""
        if self._closing is None:
            self._closing = (code, reason)
            self._awake.set()
            self._loop.call_later(CLOSE_S_MAX, self.over.set)

    def gone(self) -> None:
        """The client is gone: nothing can be sent any more."""
        self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, "the client has gone")
        self._gone = True
        self._room.set()
        self._awake.set()

    async def write_to(self, websocket: WebSocket) -> None:
        """Send the queued frames, until the socket is closed or the client is gone."""
        while not self._gone:
            await self._awake.wait()
            self._awake.clear()
            while self._frames and not self._gone:
                frame = self._frames.popleft()
                self._bytes -= _size(frame)
                await (websocket.send_text(frame) if isinstance(frame, str) else websocket.send_bytes(frame))
                if not self._writable and self._bytes < UNREAD_LOW_BYTES:
                    self._writable = True
                    self._tell()
            if self._closing is not None and not self._gone:
                await websocket.close(*self._closing)
                return

    async def read_by_client(self) -> None:
        """Return when the client has read enough: until then its commands are not read."""
        await self._room.wait()

    def _tell(self) -> None:
        if self._writable:
            self._room.set()
        else:
            self._room.clear()
        self.writability_changed(self._writable)


def _size(frame: Frame) -> int:
    """Approximate memory: a text with one character beyond Latin-1 may take four bytes for each character."""
    return len(frame) if isinstance(frame, bytes) or frame.isascii() else 4 * len(frame)


def _to_nobody(_: bool) -> None:  # noqa: FBT001 - as the port says
    """There is no worker yet."""
