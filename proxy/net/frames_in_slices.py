"""A connection's frames, taken as they come while the loop's slice lasts; the rest waits its turn, and so does reading.

At most the frames of one read wait here, because reading is paused meanwhile. A read of few frames is processed at
once: a client with little work does not wait behind a flood. A single large command is a separate step, for which every
later frame of the connection waits: a close must not overtake the acknowledgements that were sent before it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from proxy.wire.frames import frame_type

if TYPE_CHECKING:
    from proxy.net.ports import Step
    from proxy.net.slices import Slices

FEW: Final = 16
"""Frames of one read that are processed at once, even if other connections wait."""

Sort = Callable[[list[bytes], float], int]
"""Takes frames in order until a moment or until `held`, one at least, and says how many it took."""


class FramesInSlices:
    """The unprocessed frames of one connection."""

    def __init__(self, slices: Slices, sort: Sort, changed: Callable[[], None], broken: Callable[[], None]) -> None:
        """`changed` is called when frames begin or cease to wait, `broken` when `sort` has raised in a later turn."""
        self._slices = slices
        self._sort = sort
        self._changed = changed
        self._broken = broken
        self._waiting: list[bytes] = []
        self._steps: deque[Step] = deque()
        self.held = False
        """Whether frames wait, or a step: nothing more should be read."""

    def take(self, incoming: list[bytes]) -> None:
        """These came."""
        if self.held:
            self._waiting += incoming
            return
        taken = self._sort(incoming, self._slices.turn_end() if len(incoming) > FEW else math.inf)
        if taken < len(incoming):
            self._waiting = incoming[taken:]
            self._hold()

    def first(self, step: Step) -> None:
        """Do this before any frame that was not taken yet; to be called by what `sort` does with a frame."""
        self._steps.append(step)
        self._hold()

    def do_first(self, step: Step) -> None:
        """Do this at once while the turn has time, and the rest before any frame that was not taken yet."""
        if self._steps or step(self._slices.turn_end()):
            self.first(step)

    def keep(self, kind: int) -> None:
        """Of what waits look at commands of this type alone."""
        self._waiting = [frame for frame in self._waiting if frame_type(frame) == kind]

    def end(self) -> None:
        """Look at nothing more, and let go of whose frames they were: it holds us, and is to go at once."""
        self._waiting = []
        self._steps.clear()
        self._sort, self._changed, self._broken = _take_all, _ignore, _ignore

    def _hold(self) -> None:
        if not self.held:
            self.held = True
            self._changed()
            self._slices.add(self._go_on)

    def _go_on(self, end: float) -> bool:
        try:
            self._some(end)
        except Exception:
            self._broken()
            raise
        self.held = bool(self._steps or self._waiting)
        if not self.held:
            self._changed()
        return self.held

    def _some(self, end: float) -> None:
        """A slice of the first step, or of what waits if there is none."""
        if self._steps:
            step = self._steps.popleft()
            if step(end):
                self._steps.appendleft(step)
        elif self._waiting:
            waiting, self._waiting = self._waiting, []
            taken = self._sort(waiting, end)
            self._waiting = waiting[taken:]


def _take_all(incoming: list[bytes], _end: float) -> int:
    return len(incoming)


def _ignore() -> None:
    """Replaces the callbacks of an ended owner."""
