"""Long answers take turns with the messages: both run on one event loop, and messages must not wait for numbers.

Why not a thread: whoever holds the interpreter gives it back after 5 ms only, at every wake-up of the loop anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

TURN_S: Final = 0.001
"""How long a scrape may go on before others run."""
SLICE_S: Final = 0.0005
"""How long any other answer may, of which there may be several at a time."""


class Turns:
    """One answer's; asked often, gives way now and then."""

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
