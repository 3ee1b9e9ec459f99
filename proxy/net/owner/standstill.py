"""Legs to owners are given up when this process has stood still: what is in their sockets may be of long ago.

Problem: a process that was stopped, or got no CPU, finds messages in its sockets as it goes on. The owner may have
given up its silent connection meanwhile, and delivered them and later ones of their keys to others. Rule: the reader
of a leg, and a timer, say when they ran; after a gap every leg is given up unread, and its consumers come again. A
gap counts from well below the silence after which an owner gives a connection up.

Why not ask the owner, and pass on what was read when it answers: clients have waited for long by then, and a gap is
rare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.net.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock

LOOKS_PER_GAP: Final = 3

log = structlog.get_logger("keyline.owner")


class Standstill:
    """Of one process."""

    def __init__(self, clock: Clock, gap_s: float) -> None:
        """A gap is so long, in seconds, or longer."""
        self._clock = clock
        self._gap_s = gap_s
        self._ran_at = clock.now()
        self._watched: dict[Callable[[], None], None] = {}
        self._timer = Alarm(clock)

    def watch(self, give_up: Callable[[], None]) -> None:
        """Call this after a gap."""
        self._watched[give_up] = None
        if not self._timer.is_set:
            self._ran_at = self._clock.now()
            self._look_later()

    def forget(self, give_up: Callable[[], None]) -> None:
        """It is over; harmless once more."""
        self._watched.pop(give_up, None)
        if not self._watched:
            self._timer.cancel()

    def was_none(self) -> bool:
        """Whether there was no gap since the last call; else all that is watched has been given up."""
        now = self._clock.now()
        gap_s, self._ran_at = now - self._ran_at, now
        if gap_s < self._gap_s:
            return True
        log.warning("process stood still", seconds=round(gap_s, 1), legs_given_up=len(self._watched))
        watched, self._watched = self._watched, {}
        for give_up in watched:
            give_up()
        return False

    def _look_later(self) -> None:
        self._timer.set(self._gap_s / LOOKS_PER_GAP, self._look)

    def _look(self) -> None:
        self.was_none()
        if self._watched:
            self._look_later()
