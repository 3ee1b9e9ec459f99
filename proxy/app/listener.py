"""The listener: accepts clients on any number of addresses, and hands their connections to the sessions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from proxy.aio.tls_door import BACKLOG, TlsDoor
from proxy.aio.transport import AioTransport

if TYPE_CHECKING:
    import ssl

    from proxy.aio.turns import LoopTurns
    from proxy.limits import Limits
    from proxy.net.server_statistics import ServerStatistics
    from proxy.net.session.sessions import Sessions

log = structlog.get_logger("keyline.server")


class GatewayServer:
    """Listens on any number of addresses, plain or with TLS, and feeds `Sessions`."""

    def __init__(
        self, sessions: Sessions, limits: Limits, loop: asyncio.AbstractEventLoop, turns: LoopTurns | None = None
    ) -> None:
        """`loop` is the one everything runs on; `turns` as for `AioTransport`."""
        self._turns = turns
        self._sessions = sessions
        self._limits = limits
        self._loop = loop
        self._listeners: list[asyncio.Server | TlsDoor] = []
        self._handshakes_failed_before = 0
        """Failures of TLS listeners that are closed."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses; with the assigned port for port 0."""
        return [sock.getsockname()[:2] for listener in self._listeners for sock in listener.sockets]

    async def listen(
        self, host: str, port: int, ssl_context: ssl.SSLContext | None = None, *, shared: bool = False
    ) -> None:
        """Accept clients at one more address, `shared` with other processes. Raises `OSError` if it is taken."""
        if ssl_context is None:
            server = await self._loop.create_server(self._accept, host, port, backlog=BACKLOG, reuse_port=shared)
            self._listeners.append(server)
        else:
            door = TlsDoor(self._sessions, self._limits, self._loop, ssl_context, self._turns)
            await door.open(host, port, shared=shared)
            self._listeners.append(door)
        log.info("listening", host=host, port=port, tls=ssl_context is not None)

    def stop_accepting(self) -> None:
        """Accept no new client; connected ones stay."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.close()
            if isinstance(listener, TlsDoor):
                self._handshakes_failed_before += listener.failed_total

    def close_sessions(self) -> None:
        """End every session; `sessions_gone` waits for the last."""
        self._sessions.close_all()

    async def sessions_gone(self, deadline_s: float) -> bool:
        """Wait until every connection is closed; false when some were not by then."""
        gone = asyncio.Event()
        self._sessions.when_empty(gone.set)
        try:
            await asyncio.wait_for(gone.wait(), deadline_s)
        except TimeoutError:
            return False
        return True

    def statistics(self) -> ServerStatistics:
        """Freeze the sums."""
        failed = sum(listener.failed_total for listener in self._listeners if isinstance(listener, TlsDoor))
        return self._sessions.statistics(
            accepting=bool(self._listeners), handshakes_failed_total=self._handshakes_failed_before + failed
        )

    def _accept(self) -> AioTransport:
        return AioTransport(
            lambda transport: self._sessions.admit(transport.peer), self._loop, self._limits, self._turns
        )
