"""One cheap connection of a client: raw frames on asyncio, no threads, a few kilobytes each.

The official clients would need gigabytes for thousands of connections of a process. Nothing is retried here: the
caller that made the connection hears of its end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from integration.bench import frames_made
from integration.errors import IntegrationError
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import FrameSplitter, encode_command, frame_type, parse_command

if TYPE_CHECKING:
    from collections.abc import Callable

FRAME_BYTES_MAX: Final = 8 << 20
ANSWER_S_MAX: Final = 120.0
"""For an answer while thousands of others ask too."""
_T = pb.BaseCommand
_ASKED: Final = {
    _T.CONNECTED: "connected",
    _T.SUCCESS: "success",
    _T.PRODUCER_SUCCESS: "producer_success",
    _T.LOOKUP_RESPONSE: "lookupTopicResponse",
    _T.ERROR: "error",
}
"""What settles the one request under way."""


class Peer(asyncio.Protocol):
    """A connection; one request at a time."""

    def __init__(self, pushed: Callable[[int, bytes], None], lost: Callable[[str], None]) -> None:
        """`pushed` gets what was not asked for as (type, frame); `lost` is told why, unless we closed it ourselves."""
        self._pushed = pushed
        self._lost = lost
        self._splitter = FrameSplitter(FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[pb.BaseCommand] | None = None
        self.closed = False

    async def connect(self, service_url: str) -> None:
        """Connect and shake hands."""
        host, _, port = urlsplit(service_url).netloc.rpartition(":")
        await asyncio.get_running_loop().create_connection(lambda: self, host, int(port))
        await self.ask(frames_made.connect())

    async def ask(self, frame: bytes) -> Any:
        """Send a request and return the body of its answer.

        Raises:
            IntegrationError: it was refused, or the connection was lost.
        """
        assert self._answer is None, "one request at a time"
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self.send(frame)
            command = await asyncio.wait_for(self._answer, ANSWER_S_MAX)
        finally:
            self._answer = None
        if command.type == _T.ERROR:
            raise IntegrationError(f"refused: {command.error.message}")
        return getattr(command, _ASKED[command.type])

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        if self._transport is not None and not self.closed:
            self._transport.write(frame)

    def close(self) -> None:
        """Close the connection behind what was sent."""
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio says."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """As asyncio says."""
        if self.closed:
            return
        for frame in self._splitter.feed(data):
            kind = frame_type(frame)
            if kind == _T.PING:
                self.send(commands.pong())
            elif kind in _ASKED and self._answer is not None and not self._answer.done():
                self._answer.set_result(parse_command(frame))
            else:
                self._pushed(kind, frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio says."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(IntegrationError(f"connection lost: {exc}"))
        if not self.closed:
            self.closed = True
            self._lost(f"connection lost: {exc or 'closed by the gateway'}")


def lookup(topic: str) -> bytes:
    """LOOKUP, which makes the broker take the topic on."""
    return encode_command(_T(type=_T.LOOKUP, lookupTopic=pb.CommandLookupTopic(topic=topic, request_id=1)))
