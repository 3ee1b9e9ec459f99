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

from admin_api.http_protocol import Connections, strict_http
from admin_api.socket_protocol import SocketProtocol

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE_S = 2
"""How long requests under way may take when the server stops."""
SOCKET_FRAME_BYTES_MAX = 1 << 20
"""Of what a WebSocket's client sends; the bound of Pulsar's own service."""


class _Guest(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGTERM and SIGINT to the gateway, which drains first."""
        yield


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
            ws=SocketProtocol,
            ws_max_size=SOCKET_FRAME_BYTES_MAX,
            ws_ping_interval=keep_alive_s,
            ws_ping_timeout=keep_alive_s,
            ws_per_message_deflate=False,  # a little that opens to much would hold up the loop
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
