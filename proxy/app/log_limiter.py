"""Limits the log lines of each event: untrusted clients must not be able to fill a disk.

Each event of a logger has a rate per second, and ten times that in a burst. Omitted lines are counted, and the event's
next line has their number in `left_out`. Rule: the limit depends on the event, not on its cause. Why not a list of the
lines that untrusted clients can cause: a line missing from it would be unlimited.

Operators' orders are always written, as an audit record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

ALWAYS: Final = frozenset({"admin request", "operator order applied"})
BURST_S: Final = 10
KEYS_MAX: Final = 1_000
"""Events with their own limit; further ones, of libraries that put values into their text, share one per logger."""
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
    """Decides whether a line is written. Thread-safe."""

    def __init__(self, now: Callable[[], float], lines_per_s: int) -> None:
        """`now` gives seconds that only grow; no limit with 0 lines."""
        self._now = now
        self._per_s = lines_per_s
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._lock = threading.Lock()
        self.left_out_total = 0

    def bound(self, lines_per_s: int) -> None:
        """Another rate from now on."""
        with self._lock:
            self._per_s = lines_per_s

    def admit(self, logger: str, event: str) -> int | None:
        """The number of omitted lines before this one if it is written; None if it is omitted too."""
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
