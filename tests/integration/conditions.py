"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 120.0
"""For things that take milliseconds, or seconds on a busy machine: only a fault exhausts it."""
INTERVAL_S = 0.05


def eventually(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return once the condition holds.

    Raises:
        AssertionError: it did not within `deadline_s`; the text says what was awaited.
    """
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {deadline_s:.0f} s for {what}"
        time.sleep(INTERVAL_S)
