"""Runs a gateway until a signal."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import structlog
import uvloop

from proxy.app.allocator import keep_freed_memory
from proxy.app.collector import spare_the_collector
from proxy.app.gateway import Gateway
from proxy.app.reload import NotReloaded, Reloaded, Reloader

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.app.host_process import HostProcess
    from proxy.app.log_limiter import LineLimiter
    from proxy.config.load import Loaded

log = structlog.get_logger("keyline.gateway")


def run(
    loaded: Loaded, log_limiter: LineLimiter, read: Callable[[], Loaded], process: HostProcess | None = None
) -> None:
    """Serve until a signal, then drain; SIGHUP lets it `read` the configuration again. Raises `StartFailure`.

    `process` is this one among several of the host, and None if it is alone.
    """
    keep_freed_memory()
    uvloop.run(_serve(loaded, log_limiter, read, process))


async def _serve(
    loaded: Loaded, log_limiter: LineLimiter, read: Callable[[], Loaded], process: HostProcess | None
) -> None:
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    received: list[str] = []

    def signalled(name: str) -> None:  # a supervisor tells by another way, so that its word and a signal are not two
        log.info("signal received", signal=name, again=bool(received))
        (hurry if received else stop).set()
        received.append(name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled, number.name)
    gateway = Gateway(loaded, loop, log_limiter, process)
    reloader = Reloader(loaded, read, gateway.reloadable.all, gateway.configured)
    gateway.admin.reloads = reloader.reload
    loop.add_signal_handler(signal.SIGHUP, _hung_up, reloader)
    if process is not None:
        _supervised(process, gateway, reloader, stop, hurry)
    await gateway.start()
    spare_the_collector()
    await stop.wait()
    await gateway.drain_and_stop(hurry)


def _supervised(
    process: HostProcess, gateway: Gateway, reloader: Reloader, stop: asyncio.Event, hurry: asyncio.Event
) -> None:
    """Do what the supervisor tells, and tell it of what an operator orders here for all processes."""

    def reload(by: str) -> Reloaded:
        done = reloader.reload(by)
        process.reloaded()
        return done

    gateway.admin.reloads = reload
    loop = asyncio.get_running_loop()
    process.attach(loop, gateway.own_reasons, stop.set, hurry.set, partial(_hung_up, reloader))


def _hung_up(reloader: Reloader) -> None:
    """The log says what was wrong, and there is no one else to tell."""
    with suppress(NotReloaded):
        reloader.reload("SIGHUP")
