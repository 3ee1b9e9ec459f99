"""When to ping a broker, and when to give it up.

A broker that is silent for an interval is pinged; silent for two, it counts as dead: a lost route sends no FIN.

While reading is paused nothing can be heard, so silence proves nothing. But the broker's own PINGs go unanswered
then, and it closes a connection that answers none; any command of ours counts as an answer, so we ping in time.
(`PulsarHandler.handleKeepAliveTimeout` in the broker.)
"""

from __future__ import annotations

import enum


class Verdict(enum.Enum):
    """What a look at the clock asks for."""

    FINE = "fine"
    PING = "ping"
    DEAD = "dead"


class KeepAlive:
    """The owner sets `heard` when bytes come (the cheapest news there is) and asks `check` now and then."""

    __slots__ = ("_heard_at", "_interval_s", "_pinged_at", "heard")

    def __init__(self, interval_s: float, now: float) -> None:
        """`interval_s` of silence call for a PING."""
        self._interval_s = interval_s
        self._heard_at = self._pinged_at = now
        self.heard = False

    def quiet_s(self, now: float) -> float:
        """Seconds without a byte, as of the last check."""
        return now - self._heard_at

    def check(self, now: float, *, paused: bool) -> Verdict:
        """Judge; after PING the owner sends one."""
        if self.heard or paused:
            self.heard = False
            self._heard_at = now
        quiet_s = now - self._heard_at
        if quiet_s >= 2 * self._interval_s:
            return Verdict.DEAD
        if paused:
            due = now - self._pinged_at >= self._interval_s / 2
        else:
            due = quiet_s >= self._interval_s and self._pinged_at < self._heard_at + self._interval_s
        if due:
            self._pinged_at = now
            return Verdict.PING
        return Verdict.FINE
