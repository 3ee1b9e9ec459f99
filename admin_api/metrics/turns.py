"""A scrape takes turns with the messages: both run on one event loop, and messages must not wait for numbers.

Why not a thread: whoever holds the interpreter gives it back after 5 ms only, at every wake-up of the loop anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

TURN_S: Final = 0.001
"""How long a scrape may go on before others run."""


class Turns:
    """One scrape's; asked often, gives way now and then."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """The first turn begins now."""
        self._clock = clock
        self._ends_at = clock() + TURN_S
        self.taken = 1

    @property
    def over(self) -> bool:
        """Whether others should run now."""
        return self._clock() >= self._ends_at

    async def next(self) -> None:
        """Let others run, then take another turn."""
        await asyncio.sleep(0)
        self._ends_at = self._clock() + TURN_S
        self.taken += 1
