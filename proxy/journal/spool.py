"""The bounded queue of rows for the writer's thread: rows that do not fit are dropped and counted, without waiting.

A slow, full or missing disk must not slow deliveries down, and memory must not grow with unwritten rows.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.journal.chunk import Chunk


class Spool:
    """Chunks go in on the event loop's side and out on the thread's, oldest first."""

    def __init__(self, bytes_max: int) -> None:
        """Nothing in it. `bytes_max` bounds the chunks that wait and the one that is being written."""
        self.bytes_max = bytes_max
        self.dropped: Counter[str] = Counter()
        """Dropped rows, by kind."""
        self._bytes = 0
        self._chunks: deque[Chunk] = deque()
        self._changed = threading.Condition()
        self._closed = False

    @property
    def held_bytes(self) -> int:
        """Bytes of all chunks in the queue or being written."""
        return self._bytes

    def put(self, chunk: Chunk) -> bool:
        """Queue it, or drop it if it does not fit; returns at once."""
        with self._changed:
            if self._closed or self._bytes + chunk.size_bytes > self.bytes_max:
                self._lose(chunk)
                return False
            self._bytes += chunk.size_bytes
            self._chunks.append(chunk)
            self._changed.notify()
            return True

    def take(self, timeout_s: float) -> Chunk | None:
        """The oldest, until `done`; None if none came in time, or it is closed and empty."""
        with self._changed:
            if not self._chunks and not self._closed:
                self._changed.wait(timeout_s)
            if not self._chunks:
                return None
            return self._chunks.popleft()

    def done(self, chunk: Chunk) -> None:
        """The chunk in work is written."""
        with self._changed:
            self._bytes -= chunk.size_bytes

    def lose(self, chunk: Chunk) -> None:
        """The chunk in work could not be written."""
        with self._changed:
            self._lose(chunk)

    @property
    def over(self) -> bool:
        """Whether it is closed and nothing is left in it."""
        return self._closed and not self._chunks

    def close(self) -> None:
        """Take nothing more; what is in it stays."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _lose(self, chunk: Chunk) -> None:
        for kind, count in chunk.counted().items():
            self.dropped[kind] += count
