"""Ends each turn of the event loop that has something to send: all connections write, and a busy loop pauses.

Problem: a gateway that keeps up with its peers is woken for every message. A wake-up, a read and a write cost several
times the work on a small message, at the gateway and again at the broker and the client that read what it wrote.
Rule: turns that write are counted against a rate. Beyond it, after a burst, the loop sleeps until its next turn is due,
while messages gather in the sockets: one turn then takes many. Network cards moderate their interrupts the same way.
Below the rate nothing is ever delayed. A turn that is longer than the interval pauses for nothing, because it is slower
than the rate by itself.

Where data was there after almost every pause, so much comes that a third of the rate will do. Pauses that end before
there is any bring the rate back. So do longer ones that gather no more than others did: peers that wait for each answer
before they go on, a producer that sends one message at a time or a worker with a queue of one, are always there after
a pause, because it is the pause that they wait for.

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

LONG: Final = 3
"""Pauses are so many times longer where data is always there."""
ALWAYS: Final = 32
"""Pauses after which data was there, until that counts as always: 6 ms by default."""
GAP: Final = 8
"""So many of them count as much as one after which there was none, or a longer one that gathered nothing."""
GATHERED: Final = 1.5
"""So many times as much as after other pauses has to be there after a longer one; messages that come anyway are `LONG`
times as many."""
USUAL_OF: Final = 16
"""Pauses of which the average tells what is there after one."""
KEPT_MAX: Final = ALWAYS + 2 * GAP
"""No more of them are remembered, so that three gaps are enough after any time."""
PAUSE_S_MIN: Final = 20e-6
"""Shorter pauses are left to the next one: the system sleeps longer than that in any case."""
THERE_S: Final = 50e-6
"""A loop that had to wait no longer for data had found it there."""


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
        self._paused_until: float | None = None
        """When the pause before this turn ended; None if there was none, or data has come since."""
        self._found: bool | None = None
        """Whether data was there after that pause; None where there is none to judge."""
        self._long = False
        """Whether that pause was a longer one."""
        self._came_bytes = 0
        """Read since the last turn that wrote."""
        self._usual_bytes = 0.0
        """What was read in the turn after a pause that was not longer, on average."""
        self._there = 0
        """Pauses after which data was there, less those after which it was not; see `GAP`."""

    def data_came(self, size: int) -> None:
        """A connection was read, so many bytes."""
        self._came_bytes += size
        if self._paused_until is not None:
            self._found = self._now() - self._paused_until < THERE_S
            self._paused_until = None

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

    def _judge_pause(self) -> None:
        if self._found is not None:
            useful = self._found
            if self._long:
                useful = useful and self._came_bytes >= GATHERED * self._usual_bytes
            else:
                self._usual_bytes += (self._came_bytes - self._usual_bytes) / USUAL_OF
            self._there = min(self._there + 1, KEPT_MAX) if useful else max(0, self._there - GAP)
            self._found = None
        self._came_bytes = 0

    def _pace(self) -> None:
        self._judge_pause()
        now = self._now()
        self._long = self._there >= ALWAYS
        interval_s = LONG * self._interval_s if self._long else self._interval_s
        self._due_at = max(self._due_at, now - BURST_TURNS * self._interval_s) + interval_s
        if self._due_at - now >= PAUSE_S_MIN:
            self._sleep(self._due_at - now)
            self._paused_until = self._now()
