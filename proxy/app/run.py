"""Runs a gateway until a signal."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog
import uvloop

from proxy.app.collector import spare_the_collector
from proxy.app.gateway import Gateway
from proxy.app.reload import NotReloaded, Reloader

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.app.log_limiter import LineLimiter
    from proxy.config.load import Loaded

log = structlog.get_logger("keyline.gateway")


def run(loaded: Loaded, log_limiter: LineLimiter, read: Callable[[], Loaded]) -> None:
    """Serve until a signal, then drain; SIGHUP lets it `read` the configuration again. Raises `StartFailure`."""
    uvloop.run(_serve(loaded, log_limiter, read))


async def _serve(loaded: Loaded, log_limiter: LineLimiter, read: Callable[[], Loaded]) -> None:
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def signalled(name: str) -> None:
        log.info("signal received", signal=name, again=stop.is_set())
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled, number.name)
    gateway = Gateway(loaded, loop, log_limiter)
    reloader = Reloader(loaded, read, gateway.reloadable.all, gateway.configured)
    gateway.admin.reloads = reloader.reload
    loop.add_signal_handler(signal.SIGHUP, _hung_up, reloader)
    await gateway.start()
    spare_the_collector()
    await stop.wait()
    await gateway.drain_and_stop(hurry)


def _hung_up(reloader: Reloader) -> None:
    """The log says what was wrong, and there is no one else to tell."""
    with suppress(NotReloaded):
        reloader.reload("SIGHUP")
