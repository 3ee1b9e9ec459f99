"""The background on threads.

Only work that releases the interpreter's lock belongs there, for example decompression: other work would slow the event
loop down as if it ran on it.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

T = TypeVar("T")

THREADS: Final = 1
"""One thread decompresses several hundred MB a second, more than the loop relays; more threads would take its cores."""

log = structlog.get_logger("keyline.net")


class AioBackground:
    """Implements `ports.Background`: pieces of work begin in the order they were asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = THREADS) -> None:
        """`loop` is the one everything runs on; threads begin with the first piece of work."""
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, "keyline-background")

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> Errand[T]:
        """As the port says."""
        return Errand(self._loop, self._pool.submit(work), done)

    def close(self) -> None:
        """Start nothing more; running work ends by itself, without a callback."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Errand(Generic[T]):
    """One piece of work; implements `ports.Timer`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, future: Future[T], done: Callable[[T | Exception], None]
    ) -> None:
        """`done` is called on the loop."""
        self._loop = loop
        self._future = future
        self._done: Callable[[T | Exception], None] | None = done
        future.add_done_callback(self._ended)

    def cancel(self) -> None:
        """As the port says."""
        self._done = None
        self._future.cancel()

    def _ended(self, future: Future[T]) -> None:
        """On the thread."""
        if not future.cancelled():
            with suppress(RuntimeError):  # the loop is closed: the gateway has stopped
                self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        error = self._future.exception()
        if isinstance(error, BaseException) and not isinstance(error, Exception):
            raise error
        try:
            done(self._future.result() if error is None else error)
        except Exception:
            log.exception("background task failed", callback=getattr(done, "__qualname__", repr(done)))
