"""How fast a worker acknowledges: lately, usually, and with which pauses.

Problem: a worker that has stopped and one that is slow by nature look alike in counters. Rule kept: both are compared
with the worker's own past, which is noted when it acknowledges and at most once in `SPAN_S`: no timer runs, and an ack
costs one comparison. What happens without an ack, nothing, is seen from the time of the reading.

Why not the histogram of latencies: it has what all workers did since the beginning, and messages that waited in a
client's queue make every latency long where nothing is wrong.
"""

from __future__ import annotations

from typing import Final

SPAN_S: Final = 10.0
"""Shortest time between two notes."""
IDLE_S: Final = 60.0
"""A longer span had a pause in it and says nothing about the usual rate."""
USUAL_S: Final = 600.0
"""Time constant of the usual rate."""
_PAUSE_KEPT: Final = 0.8
"""Share of the longest pause that is left at the next note: after a stop of ten minutes it is short in two."""


class Pace:
    """One worker's."""

    __slots__ = ("_acked", "_at", "_before_acked", "_before_at", "longest_pause_s", "notes", "usual")

    def __init__(self) -> None:
        """It has acknowledged nothing."""
        self._at = self._before_at = 0.0
        self._acked = self._before_acked = 0
        self.notes = 0
        self.usual = 0.0
        """Messages per second over the last ten minutes or so, 0 before two notes."""
        self.longest_pause_s = 0.0
        """Longest time lately without an ack while it held messages; pauses shorter than `SPAN_S` are not told."""

    def note(self, acked: int, pause_s: float, now: float) -> None:
        """It acknowledges now, at least `SPAN_S` after the note before; `acked` messages before this one."""
        span = now - self._at
        if self.notes == 0 or span > IDLE_S:
            # The first, or it had nothing to do: what follows is measured from here.
            self._at, self._acked = now, acked
        else:
            rate = (acked - self._acked) / span
            self.usual = rate if self.usual == 0.0 else self.usual + (rate - self.usual) * span / (span + USUAL_S)
        self._before_at, self._before_acked = self._at, self._acked
        self._at, self._acked = now, acked
        self.notes += 1
        self.longest_pause_s = max(pause_s, self.longest_pause_s * _PAUSE_KEPT)

    def lately(self, acked: int, now: float) -> float:
        """Messages per second over the last `SPAN_S` to twice that, and longer where it has not acknowledged since."""
        span = now - self._before_at
        return (acked - self._before_acked) / span if self.notes and span > 0 else 0.0

    def is_known(self, now: float) -> bool:
        """Whether it has acknowledged for long enough to be compared."""
        return self.notes > 0 and now - self._before_at >= SPAN_S
