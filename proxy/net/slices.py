"""Divides unbounded work of one client into slices of a few milliseconds, so that others are served in between.

Problem: everything runs on one event loop. A connection may bring thousands of commands in one read, thousands of
workers may join a subscription at once, and all of them leave when their connection closes: done at once, each of these
blocks every other client, the health checks and the pings. Rule: in one turn of the loop all such work together takes
about `SLICE_S`, then the sockets get their turn. Waiting work is served round robin, so that a flood does not delay
another client's join until its end.

Work is a step: called with its end time, it does at least one piece, and returns whether some is left. A step that
raises is called again, so it must remove a piece before it executes it. Why not a thread: the state belongs to the
loop. Why not a task per client: nothing would bound the turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from proxy.net.ports import Clock, Step

T = TypeVar("T")

SLICE_S: Final = 0.002


class Slices:
    """The time of one loop that such work may take."""

    def __init__(self, clock: Clock, slice_s: float = SLICE_S) -> None:
        """Nothing waits."""
        self._clock = clock
        self._slice_s = slice_s
        self._waiting: deque[Step] = deque()
        self._run_due = False
        self._end: float | None = None
        """The end of this turn's slice; None while it is unused."""
        self.cut_total = 0
        """Turns that ended with something left to do."""

    def turn_end(self) -> float:
        """Until when such work may go on in this turn of the loop."""
        if self._end is None:
            self._end = self._clock.now() + self._slice_s
            self._clock.call_soon(self._turn_over)
        return self._end

    def do(self, step: Step) -> None:
        """Start at once if no work waits and the turn has time, and continue in later turns until nothing is left."""
        if self._waiting or self._clock.now() >= self.turn_end() or step(self.turn_end()):
            self.add(step)

    def add(self, step: Step) -> None:
        """Begin in a later turn."""
        self._waiting.append(step)
        if not self._run_due:
            self._run_due = True
            self._clock.call_soon(self._run)

    def each(self, items: Iterable[T], handle: Callable[[T], None]) -> None:
        """Do the same with each of these, in order."""
        self.do(self.step_of_each(items, handle))

    def step_of_each(self, items: Iterable[T], handle: Callable[[T], None]) -> Step:
        """Make a step that does the same with each of these, in order."""
        rest = deque(items)

        def some(end: float) -> bool:
            while rest:
                handle(rest.popleft())
                if self._clock.now() >= end:
                    break
            return bool(rest)

        return some

    def _turn_over(self) -> None:
        self._end = None

    def _run(self) -> None:
        """One slice."""
        end = self.turn_end()
        try:
            while self._waiting:
                more = True
                step = self._waiting.popleft()
                try:
                    more = step(end)
                finally:
                    if more:
                        self._waiting.append(step)
                if self._clock.now() >= end:
                    break
        finally:
            self._run_due = bool(self._waiting)
            if self._run_due:
                self.cut_total += 1
                self._clock.call_soon(self._run)
