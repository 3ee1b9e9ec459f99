"""Work that one client can ask for without end, done a few milliseconds at a time so that others are served between.

Problem: everything runs on one loop. A connection may bring thousands of commands in one read, a subscription may be
joined by thousands at once, and when their connection closes all of them leave: done in one go, each of these stops
every other client, the health checks and the pings. Rule kept: in one turn of the loop all such work together takes
about `SLICE_S`, then the sockets have their turn. Who waits takes its turn in a ring, so one flood does not keep
another client's join waiting until it is over.

Work is a step: called with the moment at which it should stop, it does one piece at least, and says whether some is
left. One that raises is called again, so it takes a piece off before it does it. Why not a thread: the state belongs
to the loop. Why not a task per client: nothing would bound the turn.
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
        """When this turn's slice is used up; None while nobody has used any of it."""
        self.cut_total = 0
        """Turns that ended with something left to do."""

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def turn_end(self) -> float:
        """Until when such work may go on in this turn of the loop."""
        if self._end is None:
            self._end = self._clock.now() + self._slice_s
            self._clock.call_soon(self._turn_over)
        return self._end

    def do(self, step: Step) -> None:
        """Begin at once if nobody waits and the turn has time, and go on in later turns until nothing is left."""
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
