"""uvicorn as a guest in the gateway's process: it takes neither its signals, nor its logging, nor its exit.

The socket is bound here, because uvicorn ends the process when it cannot bind.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE_S = 2
"""How long requests under way may take when the server stops."""


class _Guest(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGTERM and SIGINT to the gateway, which drains first."""
        yield


class AdminServer:
    """The admin API on an address of its own."""

    def __init__(self, app: FastAPI) -> None:
        """Nothing is bound before `start`."""
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
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
