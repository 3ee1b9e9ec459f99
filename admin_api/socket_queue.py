"""One WebSocket from the gateway's side: the gateway queues frames, which are written together when its turn is over.

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

    from admin_api.ports import Frame
    from admin_api.socket_protocol import SocketProtocol

UNREAD_HIGH_BYTES = 1 << 20
CLOSE_S_MAX = 5.0
"""Time for a client to read the queued frames and the close."""
UNREAD_LOW_BYTES = 1 << 18
WRITE_BYTES = 1 << 16
"""Joined to one piece at a time."""


class SocketQueue:
    """Implements `ports.WorkerSocket`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: SocketProtocol) -> None:
        """Neither accepted nor refused; `protocol` is the WebSocket's connection."""
        self._loop = loop
        self._protocol = protocol
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._writable = True
        self._open = False
        self._due = False
        """Whether the frames are written behind this turn."""
        self._may_end = asyncio.Event()
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
            self._soon()
            if self._writable and self._bytes > UNREAD_HIGH_BYTES:
                self._writable = False
                self._loop.call_soon(self._tell)

    def close(self, code: int, reason: str) -> None:
        """As the port says."""
        if self._closing is None:
            self._closing = (code, reason)
            self._soon()
            self._loop.call_later(CLOSE_S_MAX, self.over.set)

    def gone(self) -> None:
        """The client is gone: nothing can be sent any more."""
        self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, "the client has gone")
        self._gone = True
        self._may_end.set()

    async def write_to(self, websocket: WebSocket) -> None:
        """Send the queued frames, until the socket is closed or the client is gone."""
        self._open = True
        self._protocol.write_when_read(self._write)
        self._soon()
        await self._may_end.wait()
        if self._closing is not None and not self._gone:
            await websocket.close(*self._closing)

    def _soon(self) -> None:
        if self._open and not self._due:
            self._due = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        """Write what the client has room for, some at a time: what the transport has, no limit here counts."""
        self._due = False
        while self._frames and self._protocol.is_read and not self._gone:
            self._protocol.write(self._some())
        if not self._writable and self._bytes < UNREAD_LOW_BYTES:
            self._writable = True
            self._tell()
        if self._closing is not None and not self._frames:
            self._may_end.set()

    def _some(self) -> list[Frame]:
        frames: list[Frame] = []
        size = 0
        while self._frames and size < WRITE_BYTES:
            frames.append(self._frames.popleft())
            size += _size(frames[-1])
        self._bytes -= size
        return frames

    def heed(self) -> None:
        """Read no more of a client that leaves too much unread until it has read that; called behind its commands.

        One that gives no commands is read: it answers pings.
        """
        if not self._writable:
            self._protocol.set_reading(False)

    def _tell(self) -> None:
        if self._writable:
            self._protocol.set_reading(True)
        self.writability_changed(self._writable)


def _size(frame: Frame) -> int:
    """Approximate memory: a text with one character beyond Latin-1 may take four bytes for each character."""
    return len(frame) if isinstance(frame, bytes) or frame.isascii() else 4 * len(frame)


def _to_nobody(_: bool) -> None:  # noqa: FBT001 - as the port says
    """There is no worker yet."""
