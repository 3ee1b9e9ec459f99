"""Items that are due a fixed time after they were added: refused messages, unacknowledged ones, unpublished ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from proxy.net.alarm import Alarm

if TYPE_CHECKING:
    from proxy.net.ports import Clock
    from proxy.net.websocket.message_position import MessagePosition


class Deadlines:
    """Messages in the order they are due; one timer for all of them."""

    def __init__(
        self,
        clock: Clock,
        delay_s: float | None,
        due: Callable[[list[MessagePosition]], None],
        pause_s: Callable[[], float] = float,
    ) -> None:
        """`due` gets the items whose time is over; without a delay none are due.

        It is left alone for `pause_s()` after each time: what is due meanwhile is due together.
        """
        self._clock = clock
        self._delay_s = delay_s
        self._due = due
        self._pause_s = pause_s
        self._rested_at = 0.0
        """When `due` may be called again."""
        self._at: dict[MessagePosition, float] = {}
        self._timer = Alarm(clock)

    def __contains__(self, position: MessagePosition) -> bool:
        """Whether its time runs."""
        return position in self._at

    def add(self, position: MessagePosition) -> None:
        """Start its time, or restart it."""
        if self._delay_s is None:
            return
        self._at.pop(position, None)
        self._at[position] = self._clock.now() + self._delay_s
        self._look_later()

    def discard(self, position: MessagePosition) -> bool:
        """Remove one; returns whether it was here."""
        return self._at.pop(position, None) is not None

    def stop(self) -> None:
        """Forget all."""
        self._at.clear()
        self._timer.cancel()

    def _look(self) -> None:
        now = self._clock.now()
        over = []
        for position, at in self._at.items():
            if at > now:
                break
            over.append(position)
        for position in over:
            del self._at[position]
        if over:
            self._rested_at = now + self._pause_s()  # before what is added from within `due`
            self._due(over)
        self._look_later()

    def _look_later(self) -> None:
        if not self._timer.is_set and self._at:
            at = max(next(iter(self._at.values())), self._rested_at)
            self._timer.set(at - self._clock.now(), self._look)
