"""One call that is due later: what most state machines here need of a clock, and more than a single timer does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock, Timer


class Alarm:
    """One deferred call at most: to set it again replaces the call that was due, as alarm(2) does."""

    __slots__ = ("_clock", "_timer")

    def __init__(self, clock: Clock) -> None:
        """Not set."""
        self._clock = clock
        self._timer: Timer | None = None

    @property
    def is_set(self) -> bool:
        """Whether a call is due; not while it is made."""
        return self._timer is not None

    def set(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call so many seconds from now, and not when a call was due before.

        An alarm that is not set refers to no caller: so what has one is no cycle for the garbage collector.
        """
        self.cancel()
        self._timer = self._clock.call_later(delay_s, partial(self._go_off, call))

    def cancel(self) -> None:
        """Forget the call. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self, call: Callable[[], None]) -> None:
        self._timer = None
        call()
