"""A broker that says yes to everything, for clients that bring their own: it must never be asked.

It lets everybody in, answers a permission probe as a broker does who allows it, grants every producer, and sends every
lookup to itself.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from typing import TYPE_CHECKING, Self

from integration.ports import LOOPBACK
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from tests.integration.raw_client import MAX_FRAME_BYTES, PIECE_BYTES, T, frame

if TYPE_CHECKING:
    from types import TracebackType


class HostileBroker:
    """Listens on loopback while the block runs."""

    def __init__(self) -> None:
        """Begins at once."""
        self.connections = 0
        hostile = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                hostile.connections += 1
                with contextlib.suppress(ConnectionError):
                    hostile._serve(self.request)

        self._server = socketserver.ThreadingTCPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        """It listens already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def authority(self) -> str:
        """``host:port``."""
        return f"{LOOPBACK}:{self._server.server_address[1]}"

    def _serve(self, client: socket.socket) -> None:
        splitter = frames.FrameSplitter(MAX_FRAME_BYTES)
        while data := client.recv(PIECE_BYTES):
            for received in splitter.feed(data):
                client.sendall(self._answer(frames.parse_command(received)))

    def _answer(self, command: pb.BaseCommand) -> bytes:
        if command.type == T.CONNECT:
            return frame(T.CONNECTED, pb.CommandConnected(server_version="hostile", protocol_version=21))
        if command.type == T.SUBSCRIBE:
            error = pb.CommandError(request_id=command.subscribe.request_id, error=pb.NotAllowedError, message="yes")
            return frame(T.ERROR, error)
        if command.type == T.PRODUCER:
            granted = pb.CommandProducerSuccess(
                request_id=command.producer.request_id, producer_name="hostile", topic_epoch=99, producer_ready=True
            )
            return frame(T.PRODUCER_SUCCESS, granted)
        if command.type == T.LOOKUP:
            url = f"pulsar://{self.authority}"
            answer = pb.CommandLookupTopicResponse(
                request_id=command.lookupTopic.request_id,
                response=pb.CommandLookupTopicResponse.Redirect,
                brokerServiceUrl=url,
                brokerServiceUrlTls=url,
            )
            return frame(T.LOOKUP_RESPONSE, answer)
        return b""
