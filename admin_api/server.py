"""uvicorn as a guest in the gateway's process: it takes neither its signals, nor its logging, nor its exit.

The socket is bound here, because uvicorn ends the process when it cannot bind.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from admin_api.http_protocol import Connections, strict_http

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn._types import ASGISendEvent

GRACE_S = 2
"""How long requests under way may take when the server stops."""
FAREWELL_S = 1.0
"""For a peer to take the reason why it is given up."""
SOCKET_FRAME_BYTES_MAX = 1 << 20
"""Of what a WebSocket's client sends; the bound of Pulsar's own service."""


class _Guest(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGTERM and SIGINT to the gateway, which drains first."""
        yield


class _Sockets(WebSocketsSansIOProtocol):
    """uvicorn's WebSockets, with an end to every connection.

    Where a peer reads nothing any more, closing waits for ever; such connections are cut. A handshake that was refused
    is no fault of ours, and one that is no HTTP gets its answer.
    """

    def data_received(self, data: bytes) -> None:
        """As uvicorn does; a request that cannot be read is answered."""
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_ping(self) -> None:
        """As uvicorn does, unless the answers pile up unread."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.transport.abort()

    def keepalive_timeout(self) -> None:
        """As uvicorn does; who does not answer may not read either."""
        super().keepalive_timeout()
        self.loop.call_later(FAREWELL_S, self._cut)

    async def send(self, message: ASGISendEvent) -> None:
        """As uvicorn does; the end of a refusal is the end of the handshake, and behind a close nothing is said."""
        if self.close_sent and self.initial_response is None:
            raise ClientDisconnected
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True

    async def run_asgi(self) -> None:
        """As uvicorn does; what is left of the connection then has an end too."""
        await super().run_asgi()
        self.loop.call_later(FAREWELL_S, self._cut)

    def _cut(self) -> None:
        if not self.disconnected:
            self.transport.abort()


class AdminServer:
    """The admin API on an address of its own."""

    def __init__(self, app: FastAPI, keep_alive_s: float = 30.0, tls: ssl.SSLContext | None = None) -> None:
        """Nothing is bound before `start`. A WebSocket is pinged after `keep_alive_s`, and gone after as long again."""
        self.connections = Connections()
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="error",  # its warnings are of what strangers send
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # anybody can write them, and nothing here is told from them
            http=strict_http(self.connections),  # type: ignore[arg-type]  # called as a class is
            timeout_graceful_shutdown=GRACE_S,
            ws=_Sockets,
            ws_max_size=SOCKET_FRAME_BYTES_MAX,
            ws_ping_interval=keep_alive_s,
            ws_ping_timeout=keep_alive_s,
            ws_per_message_deflate=False,  # it would hold up the loop
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        self._server = _Guest(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen and serve; the address that was bound. Raises `OSError` if it cannot be had."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=128)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name="admin API")
        name, bound_port = listener.getsockname()[:2]
        return str(name), int(bound_port)

    async def stop(self) -> None:
        """Answer what is under way, then close; idempotent."""
        task, self._task = self._task, None
        if task is not None:
            self._server.should_exit = True
            await task
