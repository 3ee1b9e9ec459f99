"""A worker that implements the binary protocol, to know the moment at which an acknowledgement leaves.

The official clients gather acknowledgements for about 100 ms before they send them, which would hide everything a
hand-over takes. No client is to be written here: one connection, one consumer, blocking, and nothing is retried.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from urllib.parse import urlsplit

from integration.bench import frames_made
from integration.errors import IntegrationError
from integration.threads import beside
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import FrameSplitter, frame_type, parse_command, payload_start
from proxy.wire.metadata import peek

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from types import TracebackType

FRAME_BYTES_MAX: Final = 8 << 20
READ_BYTES: Final = 1 << 16
ANSWER_S_MAX: Final = 30.0
LISTEN_S: Final = 1.0
"""How late a thread that listens may notice that it is to end."""
CONSUMER_ID: Final = 1
AHEAD_MAX: Final = 50
"""Requests on a connection that have no answer yet."""
_T = pb.BaseCommand


class Received(NamedTuple):
    """One unbatched message."""

    key: bytes
    place: pb.MessageIdData
    at: float
    """When its bytes were read, by the monotonic clock."""


class RawConnection:
    """One blocking connection; what it takes of what comes is for its kind to say."""

    def __init__(self, service_url: str) -> None:
        """Connect.

        Raises:
            IntegrationError: the server refused.
        """
        address = urlsplit(service_url)
        self._socket = socket.create_connection((address.hostname, address.port), ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._splitter = FrameSplitter(FRAME_BYTES_MAX)
        self._send(frames_made.connect())
        self._await(_T.CONNECTED)

    def __enter__(self) -> Self:
        """Close the connection when the block is left."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See `__enter__`."""
        self._socket.close()

    def _send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def _await(self, kind: int) -> None:
        deadline = time.monotonic() + ANSWER_S_MAX
        while time.monotonic() < deadline:
            if kind in self._read(deadline - time.monotonic()):
                return
        raise IntegrationError(f"no {_T.Type.Name(kind)} within {ANSWER_S_MAX:.0f} s")

    def _read(self, wait_s: float) -> list[int]:
        """Read once; the types of the commands that came."""
        self._socket.settimeout(max(wait_s, 1e-4))
        try:
            data = self._socket.recv(READ_BYTES)
        except TimeoutError:
            return []
        at = time.monotonic()
        if not data:
            raise IntegrationError("the server closed the connection")
        kinds = []
        for frame in self._splitter.feed(data):
            kinds.append(frame_type(frame))
            self._take(kinds[-1], frame, at)
        return kinds

    def _take(self, kind: int, frame: bytes, at: float) -> None:
        """One command that came, with the time when it was read."""
        _ = at
        if kind == _T.PING:
            self._send(commands.pong())
        elif kind == _T.ERROR:
            raise IntegrationError(f"the server refused: {parse_command(frame).error.message}")


class RawWorker(RawConnection):
    """One Key_Shared consumer."""

    def __init__(self, service_url: str, topic: str, subscription: str, name: str, permits: int) -> None:
        """Connect, subscribe and grant permits.

        Raises:
            IntegrationError: the server refused.
        """
        self._received: list[Received] = []
        super().__init__(service_url)
        self._send(frames_made.subscribe(CONSUMER_ID, name, topic, subscription))
        self._await(_T.SUCCESS)
        self.grant(permits)

    def grant(self, permits: int) -> None:
        """So many messages more may come."""
        if permits:
            self._send(frames_made.flow(CONSUMER_ID, permits))

    def request(self, frame: bytes) -> None:
        """Send a request of another consumer on this connection, and wait until it is granted."""
        self._send(frame)
        self._await(_T.SUCCESS)

    def request_each(self, frames: Iterable[bytes]) -> None:
        """Send requests of other consumers on this connection, some ahead, and wait until all are granted."""
        waiting = 0
        for frame in frames:
            self._send(frame)
            waiting += 1
            if waiting >= AHEAD_MAX:
                waiting -= self._granted()
        while waiting:
            waiting -= self._granted()

    def tell(self, frames: Iterable[bytes]) -> None:
        """Send commands that have no answer, in one piece."""
        self._send(b"".join(frames))

    def _granted(self) -> int:
        """Read until a request is granted, or several are; how many."""
        deadline = time.monotonic() + ANSWER_S_MAX
        while time.monotonic() < deadline:
            granted = self._read(deadline - time.monotonic()).count(_T.SUCCESS)
            if granted:
                return granted
        raise IntegrationError(f"nothing was granted within {ANSWER_S_MAX:.0f} s")

    def take(self, wait_s: float) -> list[Received]:
        """Messages that came, waiting for the first until `wait_s` have passed."""
        deadline = time.monotonic() + wait_s
        while not self._received and (left_s := deadline - time.monotonic()) > 0:
            self._read(left_s)
        received, self._received = self._received, []
        return received

    def acknowledge(self, place: pb.MessageIdData) -> float:
        """Acknowledge at once; the moment before the bytes left."""
        frame = frames_made.ack(CONSUMER_ID, [place])
        at = time.monotonic()
        self._send(frame)
        return at

    def _take(self, kind: int, frame: bytes, at: float) -> None:
        if kind == _T.MESSAGE:
            metadata = peek(frame[payload_start(frame) :]).metadata
            self._received.append(Received(metadata.partition_key, parse_command(frame).message.message_id, at))
        else:
            super()._take(kind, frame, at)


def kept_alive(worker: RawWorker) -> AbstractContextManager[None]:
    """Answer the broker's pings in a thread while no message is taken."""

    def listen(over: threading.Event) -> None:
        while not over.is_set():
            worker.take(LISTEN_S)

    return beside(listen)
