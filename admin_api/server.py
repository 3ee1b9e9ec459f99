"""uvicorn inside the gateway's process: it handles no signals, no logging and no exit.

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
"""Time for running requests when the server stops."""
SOCKET_FRAME_BYTES_MAX = 1 << 20
"""Largest frame of a WebSocket client; the bound of Pulsar's own service."""


class _Guest(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGTERM and SIGINT to the gateway, which drains first."""
        yield


class AdminServer:
    """The admin API on an address of its own."""

    def __init__(self, app: FastAPI, keep_alive_s: float = 30.0, tls: ssl.SSLContext | None = None) -> None:
        """Nothing is bound before `start`. A WebSocket is pinged after `keep_alive_s`, and closed after twice that."""
        self.connections = Connections()
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="error",  # its warnings are about input of untrusted clients
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # any client can set them, and nothing here uses them
            http=strict_http(self.connections),  # type: ignore[arg-type]  # called as a class is
            timeout_graceful_shutdown=GRACE_S,
            ws=SocketProtocol,
            ws_max_size=SOCKET_FRAME_BYTES_MAX,
            ws_ping_interval=keep_alive_s,
            ws_ping_timeout=keep_alive_s,
            ws_per_message_deflate=False,  # decompression bombs would block the event loop
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        self._server = _Guest(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, *, shared: bool = False) -> tuple[str, int]:
        """Listen and serve; returns the bound address, which may be `shared` with other processes.

        Raises `OSError` if it is not available.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=128, reuse_port=shared)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name="admin API")
        name, bound_port = listener.getsockname()[:2]
        return str(name), int(bound_port)

    async def stop(self) -> None:
        """Finish running requests, then close; idempotent."""
        task, self._task = self._task, None
        if task is not None:
            self._server.should_exit = True
            await task
