"""A connection's frames, taken as they come while the loop's slice lasts; the rest waits its turn, and so does reading.

At most what one read brought waits here, since nothing more is read meanwhile. A read of few frames is taken at once:
who asks for little does not wait behind a flood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy.net.slices import Slices

FEW: Final = 16
"""Frames of one read that are taken at once, whoever else waits."""

Sort = Callable[[list[bytes], float], int]
"""Takes frames in order until a moment, one at least, and says how many it took."""


class FramesInSlices:
    """What one connection has brought and nobody has looked at yet."""

    def __init__(self, slices: Slices, sort: Sort, changed: Callable[[], None], broken: Callable[[], None]) -> None:
        """`changed` is called when frames begin or cease to wait, `broken` when `sort` has raised in a later turn."""
        self._slices = slices
        self._sort = sort
        self._changed = changed
        self._broken = broken
        self._waiting: list[bytes] = []

    def __bool__(self) -> bool:
        """Whether some wait: nothing more should be read."""
        return bool(self._waiting)

    def take(self, incoming: list[bytes]) -> None:
        """These came."""
        if self._waiting:
            self._waiting += incoming
            return
        taken = self._sort(incoming, self._slices.turn_end() if len(incoming) > FEW else math.inf)
        if taken < len(incoming):
            self._waiting = incoming[taken:]
            self._changed()
            self._slices.add(self._go_on)

    def end(self) -> None:
        """Look at nothing more, and let go of whose frames they were: it holds us, and is to go at once."""
        self._waiting = []
        self._sort, self._changed, self._broken = _take_all, _ignore, _ignore

    def _go_on(self, end: float) -> bool:
        if not self._waiting:
            return False
        waiting, self._waiting = self._waiting, []
        try:
            taken = self._sort(waiting, end)
        except Exception:
            self._broken()
            raise
        self._waiting = waiting[taken:]
        if not self._waiting:
            self._changed()
        return bool(self._waiting)


def _take_all(incoming: list[bytes], _end: float) -> int:
    return len(incoming)


def _ignore() -> None:
    """Nobody is left to be told."""
