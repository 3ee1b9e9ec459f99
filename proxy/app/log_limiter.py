"""How many log lines of one event there may be: what a stranger can cause without end must not fill a disk.

Each event of a logger may be told so often per second, and ten times as often in a burst; what is left out is counted,
and the next line of the event says how many there were, as `left_out`. Rule: the limit knows events and not who caused
them. Why not a list of the lines that strangers cause: the one that is forgotten there is the one that is used.

What an operator ordered is always written: it is the record of who did what.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

ALWAYS: Final = frozenset({"admin request", "ordered by an operator"})
BURST_S: Final = 10
KEYS_MAX: Final = 1_000
"""Events kept apart; further ones, of libraries that put values into their text, share one limit a logger."""
KEY_CHARACTERS_MAX: Final = 80


class _Bucket:
    __slots__ = ("at", "left_out", "lines")

    def __init__(self, lines: float, at: float) -> None:
        self.lines = lines
        """That may be written at the moment `at`."""
        self.at = at
        self.left_out = 0
        """Since the last one that was written."""


class LineLimiter:
    """Says of each line whether it is written. Threads may share one."""

    def __init__(self, now: Callable[[], float], lines_per_s: int) -> None:
        """`now` gives seconds that only grow; no limit with 0 lines."""
        self._now = now
        self._per_s = lines_per_s
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._lock = threading.Lock()
        self.left_out_total = 0

    def admit(self, logger: str, event: str) -> int | None:
        """Whether a line of this event is written: how many before it were not; None if it is not either."""
        if not self._per_s or event in ALWAYS:
            return 0
        with self._lock:
            return self._admit(self._bucket(logger, event.partition("\n")[0][:KEY_CHARACTERS_MAX]))

    def _bucket(self, logger: str, event: str) -> _Bucket:
        key = (logger, event)
        if key not in self._buckets and len(self._buckets) >= KEYS_MAX:
            key = (logger, "")
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._per_s * BURST_S, self._now())
        return bucket

    def _admit(self, bucket: _Bucket) -> int | None:
        now = self._now()
        bucket.lines = min(self._per_s * BURST_S, bucket.lines + (now - bucket.at) * self._per_s)
        bucket.at = now
        if bucket.lines < 1:
            bucket.left_out += 1
            self.left_out_total += 1
            return None
        bucket.lines -= 1
        left_out, bucket.left_out = bucket.left_out, 0
        return left_out
