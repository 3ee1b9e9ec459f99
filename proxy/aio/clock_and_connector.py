"""The clock and the connector on asyncio, for uvloop and any other loop; `transport` has the connections.

A task exists only while a connection is being opened.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from proxy.aio.transport import AioTransport
from proxy.service_url import ServiceUrl, parse_service_url

if TYPE_CHECKING:
    import ssl

    from proxy.aio.turns import LoopTurns
    from proxy.limits import Limits
    from proxy.net.ports import Receiver

log = structlog.get_logger("keyline.net")


class AioClock:
    """Time from the operating system, calls from the loop.

    The origin is shifted by a random amount, so that a stray `time.monotonic()` elsewhere shows at once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """`loop` is the one everything runs on."""
        self._loop = loop
        self._shift_s = random.uniform(1e4, 1e6)  # noqa: S311 - no secret, only an odd number

    def now(self) -> float:
        """As the port says."""
        return time.monotonic() + self._shift_s

    def time(self) -> float:
        """As the port says."""
        return time.time()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """As the port says."""
        return self._loop.call_later(delay_s, _run_guarded, callback)

    def call_soon(self, callback: Callable[[], None]) -> asyncio.Handle:
        """As the port says."""
        return self._loop.call_soon(_run_guarded, callback)


class AioConnector:
    """Opens TCP connections, plain or with TLS by the address's scheme."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        ssl_context: ssl.SSLContext | None = None,
        *,
        tls_only: bool = False,
        turns: LoopTurns | None = None,
    ) -> None:
        """`ssl_context` is needed for ``pulsar+ssl`` addresses; `tls_only` refuses all others.

        `turns` as for `AioTransport`.
        """
        self._turns = turns
        self._loop = loop
        self._limits = limits
        self._ssl_context = ssl_context
        self._tls_only = tls_only
        self._tasks: set[asyncio.Task[None]] = set()

    def connect(self, address: str, receiver: Receiver) -> None:
        """As the port says."""
        task = self._loop.create_task(self._open(address, receiver))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, address: str, receiver: Receiver) -> None:
        protocol = AioTransport(lambda _: receiver, self._loop, self._limits, self._turns)
        try:
            url = parse_service_url(address)
            async with asyncio.timeout(self._limits.connect_timeout_s):
                await self._dial(url, protocol)
        except TimeoutError:
            self._give_up(protocol, receiver, f"no connection to {address} in {self._limits.connect_timeout_s:g} s")
        except (OSError, ValueError) as error:
            self._give_up(protocol, receiver, f"no connection to {address}: {error}")

    async def _dial(self, url: ServiceUrl, protocol: AioTransport) -> None:
        if not url.tls:
            if self._tls_only:
                message = "it is an address without TLS, and here is TLS only"
                raise ValueError(message)
            await self._loop.create_connection(lambda: protocol, url.host, url.port)
            return
        if self._ssl_context is None:
            message = "no TLS is configured for such addresses"
            raise ValueError(message)
        await self._loop.create_connection(
            lambda: protocol, url.host, url.port, ssl=self._ssl_context, server_hostname=url.host
        )

    def _give_up(self, protocol: AioTransport, receiver: Receiver, reason: str) -> None:
        """Notify the receiver once: the loop does it if the connection was already open."""
        if protocol.opened:
            protocol.abort()
            return
        try:
            receiver.closed(reason)
        except Exception:
            log.exception("receiver failed", receiver=type(receiver).__name__)


def _run_guarded(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:
        log.exception("timer failed", callback=getattr(callback, "__qualname__", repr(callback)))
