"""What every child process of a soak has: a file of samples, and a graceful end.

A sample is a line of JSON. SIGUSR1 asks for the end: what is under way is finished, the last line says all, and the
process waits until it is stopped.
"""

from __future__ import annotations

import asyncio
import json
import resource
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any


class Samples:
    """The file of one helper's lines."""

    def __init__(self, path: Path) -> None:
        """Write to a new file."""
        self._file = path.open("w", buffering=1)

    def write(self, kind: str, **values: Any) -> None:
        """Write one line."""
        self._file.write(json.dumps({"kind": kind, **values}) + "\n")


def read_samples(path: Path) -> list[dict[str, Any]]:
    """Every whole line so far."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1]]


def raise_descriptor_limit() -> int:
    """Allow ourselves, and what we start, as many open files as we may have; returns how many that are."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


async def every(
    interval_s: float, action: Callable[[], Coroutine[Any, Any, None] | None], finish: asyncio.Event
) -> None:
    """Do it again and again, counting the interval from start to start, until `finish`; what has begun is ended.

    Were it cancelled instead, a connection that is being made would be cut, and counted as lost.
    """
    loop = asyncio.get_running_loop()
    due = loop.time()
    while not finish.is_set():
        due += interval_s
        with suppress(TimeoutError):
            await asyncio.wait_for(finish.wait(), max(0.0, due - loop.time()))
            return
        pending = action()
        if pending is not None:
            await pending


def finish_asked() -> asyncio.Event:
    """An event that SIGUSR1 sets."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, asked.set)
    return asked
