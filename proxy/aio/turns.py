"""Ends each turn of the event loop that has something to send: all connections write, and a busy loop pauses.

Problem: a gateway that keeps up with its peers is woken for every message. A wake-up, a read and a write cost several
times the work on a small message, at the gateway and again at the broker and the client that read what it wrote.
Rule: turns that write are counted against a rate. Beyond it, after a burst, the loop sleeps until its next turn is due,
while messages gather in the sockets: one turn then takes many. Network cards moderate their interrupts the same way.
Below the rate nothing is ever delayed. A turn that is longer than the interval pauses for nothing, because it is slower
than the rate by itself.

Why not fewer turns still where data is always there: a peer that waits for each answer, a producer that sends one
message at a time or a worker with a queue of one, is always there, because it is the pause that it waits for.

The pause comes after all writes, so that it delays what arrives during it, and what was read but is handled by a later
call of this turn: a subscription dispatches in such a call. To let those go first, the loop would have to read again,
and would gather less.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

BURST_TURNS: Final = 64
"""Turns that may follow each other at once after a time with fewer: a message and its acknowledgement are in them."""
PAUSE_S_MIN: Final = 20e-6
"""Shorter pauses are left to the next one: the system sleeps longer than that in any case."""


class LoopTurns:
    """The turns of one loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        per_s_max: int = 0,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """At most `per_s_max` turns a second write; 0 is no bound. `now` and `sleep` are the system's, in seconds."""
        self._loop = loop
        self._now = now
        self._sleep = sleep
        self._interval_s = 1 / per_s_max if per_s_max else 0.0
        self._flushes: deque[Callable[[], None]] = deque()
        self._end_due = False
        self._due_at = 0.0
        """When the next turn would begin at exactly the rate."""

    def at_end(self, flush: Callable[[], None]) -> None:
        """Call this once, before the loop reads its sockets again."""
        self._flushes.append(flush)
        if not self._end_due:
            self._end_due = True
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        flushes = self._flushes
        try:
            for _ in range(len(flushes)):
                flushes.popleft()()
        finally:
            self._end_due = bool(flushes)  # asked for by a flush, or behind one that failed
            if flushes:
                self._loop.call_soon(self._end)
        if self._interval_s:
            self._pace()

    def _pace(self) -> None:
        now = self._now()
        self._due_at = max(self._due_at, now - BURST_TURNS * self._interval_s) + self._interval_s
        if self._due_at - now >= PAUSE_S_MIN:
            self._sleep(self._due_at - now)
