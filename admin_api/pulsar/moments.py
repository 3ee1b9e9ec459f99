"""Moments of the gateway's monotonic clock as the broker writes moments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

STEP_S: Final = 0.05
"""Less than this the clocks may drift apart before it is followed, so that one moment stays one text."""


class Epoch:
    """Where the monotonic clock stands among the world's."""

    def __init__(self) -> None:
        """Not known yet."""
        self._offset: float | None = None

    def observe(self, now: float, wall: float) -> None:
        """`now` on the monotonic clock is `wall` in seconds since 1970."""
        offset = wall - now
        if self._offset is None or abs(offset - self._offset) > STEP_S:
            self._offset = offset

    def ms(self, moment: float) -> int:
        """Milliseconds since 1970; 0 for 0.0, which says never."""
        assert self._offset is not None, "observe first"
        return round((moment + self._offset) * 1000) if moment else 0

    def text(self, moment: float) -> str:
        """As in ``2026-11-21T16:27:40.593Z``."""
        return iso(self.ms(moment))


def iso(ms: int) -> str:
    """Milliseconds since 1970 as the broker writes them: no zeros behind the last digit that is none."""
    seconds, rest = divmod(ms, 1000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:03}".rstrip("0").rstrip(".")
    return f"{text}{fraction}Z"
