"""A clock that shows the same times in every run, and whose timers fall due when it is told to go on."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from integration.bench.path import StillClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Timer

TICK_S: Final = 1e-6


class _Timer:
    """One call that is to come."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """As the port says."""
        self.callback = None


class SteppedClock(StillClock):
    """The same times in every run."""

    def __init__(self) -> None:
        """Begin at zero."""
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbers = count()

    def now(self) -> float:
        """A little later at every call."""
        self._now += TICK_S
        return self._now

    def time(self) -> float:
        """As `now`."""
        return self.now()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """As the port says; due only while the clock goes on."""
        timer = _Timer(callback)
        heappush(self._timers, (self._now + delay_s, next(self._numbers), timer))
        return timer

    def go_on(self, seconds: float) -> None:
        """Let so much time pass, and make what falls due."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heappop(self._timers)
            self._now = max(self._now, due)
            if timer.callback is not None:
                timer.callback()
                self.settle()
        self._now = max(self._now, end)
