"""Finds where a byte lies in Pulsar's stream of frames, to cut a connection inside of a frame.

A cut between two frames is no more than a closed connection; what a receiver makes of half a frame shows only when the
cut is inside. Each frame is its length in four bytes, big endian, and as many bytes as that (Pulsar binary protocol,
"Framing"). Nothing else of the protocol is known here.
"""

from __future__ import annotations

from typing import Final

LENGTH_BYTES: Final = 4


class FrameBorder:
    """Follows one direction of one connection from its first byte on."""

    def __init__(self) -> None:
        """At the beginning of a frame."""
        self._length = bytearray()
        self._left_bytes = 0
        """Of the frame whose length is known."""

    @property
    def inside(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._length or self._left_bytes)

    def advance(self, data: bytes) -> None:
        """These bytes have passed."""
        self.first_inside(data, len(data) + 1)

    def first_inside(self, data: bytes, from_bytes: int) -> int | None:
        """Let `data` pass, up to the first count of its bytes, `from_bytes` or more, that ends inside a frame.

        Returns:
            that count, 1 or more, or None when all of `data` has passed.
        """
        passed = 0
        while passed < len(data):
            if self._left_bytes:
                step = min(self._left_bytes, len(data) - passed)
                first, last = max(passed + 1, from_bytes), passed + step - (step == self._left_bytes)
                if first <= last:
                    self._left_bytes -= first - passed
                    return first
                self._left_bytes -= step
                passed += step
                continue
            self._length.append(data[passed])
            passed += 1
            if len(self._length) == LENGTH_BYTES:
                self._left_bytes = int.from_bytes(self._length, "big")
                self._length.clear()
            if passed >= from_bytes and self.inside:
                return passed
        return None
