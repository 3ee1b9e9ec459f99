"""Long answers alternate with messages on the event loop, so that messages do not wait for statistics.

Why not a thread: it holds the interpreter for 5 ms at a time, at every wake-up of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

TURN_S: Final = 0.001
"""Time of a scrape before other work runs."""
SLICE_S: Final = 0.0005
"""The same for other answers, of which several may run at a time."""


class Turns:
    """The turns of one answer; polled often, it yields when the time is used up."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, turn_s: float = TURN_S) -> None:
        """The first turn begins now, and each may take `turn_s`."""
        self._clock = clock
        self._turn_s = turn_s
        self._ends_at = clock() + turn_s
        self.taken = 1

    @property
    def over(self) -> bool:
        """Whether others should run now."""
        return self._clock() >= self._ends_at

    async def next(self) -> None:
        """Let others run, then take another turn."""
        await asyncio.sleep(0)
        self._ends_at = self._clock() + self._turn_s
        self.taken += 1
