"""When to ping a broker, and when to give it up.

A broker that is silent for an interval is pinged; silent for two, it counts as dead: a lost route sends no FIN.

While reading is paused nothing can be heard, so silence proves nothing. But the broker's own PINGs go unanswered
then, and it closes a connection that answers none; any command of ours counts as an answer, so we ping in time.
(`PulsarHandler.handleKeepAliveTimeout` in the broker.)

Nor does silence prove anything that we slept through: after a pause of the machine or of the process the timers run
first, and the peer's answer lies unread in the socket. So a look that comes late counts none of the time since the
one before; the peer is pinged, and judged by the looks that follow. Without this, a gateway that is continued would
cut off every worker that had nothing to say, and hand to others what those still hold.
"""

from __future__ import annotations

import enum
from typing import Final

LOOKS_MISSED_MIN: Final = 2
"""A look is late when it comes after so many times its interval."""


class Verdict(enum.Enum):
    """What a look at the clock asks for."""

    FINE = "fine"
    PING = "ping"
    DEAD = "dead"


class KeepAlive:
    """The owner sets `heard` when bytes come (the cheapest news there is) and asks `check` now and then."""

    __slots__ = ("_checked_at", "_heard_at", "_interval_s", "_late_after_s", "_pinged_at", "heard")

    def __init__(self, interval_s: float, now: float, *, look_every_s: float) -> None:
        """`interval_s` of silence call for a PING; `check` is called every `look_every_s`."""
        self._interval_s = interval_s
        self._late_after_s = LOOKS_MISSED_MIN * look_every_s
        self.heard = False
        self.begin(now)

    def begin(self, now: float) -> None:
        """Count from now on; for whoever begins to look only later."""
        self._heard_at = self._pinged_at = self._checked_at = now

    def quiet_s(self, now: float) -> float:
        """Seconds without a byte, as of the last check."""
        return now - self._heard_at

    def check(self, now: float, *, paused: bool) -> Verdict:
        """Judge; after PING the owner sends one."""
        unseen_s, self._checked_at = now - self._checked_at, now
        if self.heard or paused:
            self.heard = False
            self._heard_at = now
        elif unseen_s >= self._late_after_s:
            self._heard_at += unseen_s
            self._pinged_at = now
            return Verdict.PING
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
