"""Requests of one client that wait until the connection to its broker is open."""

from __future__ import annotations

from proxy.errors import LimitExceeded


class RequestQueue:
    """Whole frames, in the order in which they came, within a bound."""

    def __init__(self, bytes_max: int) -> None:
        """Hold no more than that."""
        self.topic: str | None = None
        """Of the first request that has one."""
        self.bytes_held = 0
        self._frames: list[bytes] = []
        self._bytes_max = bytes_max

    def check(self, frame: bytes) -> None:
        """Raise `LimitExceeded` if it does not fit."""
        if self.bytes_held + len(frame) > self._bytes_max:
            message = f"{self._bytes_max} bytes of requests wait for the broker, no more are taken"
            raise LimitExceeded(message)

    def add(self, frame: bytes, topic: str | None) -> None:
        """Let it wait; `topic` is None for a request without one."""
        self._frames.append(frame)
        self.bytes_held += len(frame)
        self.topic = self.topic or topic

    def take(self) -> list[bytes]:
        """Give all that wait, and hold none of them any more."""
        frames, self._frames, self.bytes_held, self.topic = self._frames, [], 0, None
        return frames
