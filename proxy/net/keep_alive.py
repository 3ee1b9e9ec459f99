"""Decides when to ping a peer, and when it counts as dead.

A peer that is silent for an interval is pinged; silent for two, it counts as dead, because a lost route sends no FIN.

While reading is paused, silence proves nothing. But then the broker's own PINGs are not answered, and it closes a
connection without answers; any command of the gateway counts as an answer, so the gateway pings in time.
(`PulsarHandler.handleKeepAliveTimeout` in the broker.)

A peer that is doubted, because much may have happened unnoticed, is asked at once, and has `DOUBT_S`.

Silence during a pause of the machine or the process proves nothing either: afterwards the timers run first, and the
peer's answer is still unread in the socket. So a late check counts none of the time since the previous one; the peer is
pinged, and judged by the following checks. Otherwise a resumed gateway would disconnect every idle worker, and give
messages that those workers still hold to others.
"""

from __future__ import annotations

import enum
from typing import Final

DOUBT_S: Final = 5.0
"""As long as a broker gives a consumer's connection that it doubts (`connectionLivenessCheckTimeoutMillis`)."""
LOOKS_MISSED_MIN: Final = 2
"""A check is late when it comes after this multiple of its interval."""


class Verdict(enum.Enum):
    """The result of a check."""

    FINE = "fine"
    PING = "ping"
    DEAD = "dead"


class KeepAlive:
    """The owner sets `heard` when bytes come (the cheapest news there is) and asks `check` now and then."""

    __slots__ = ("_checked_at", "_doubted_at", "_heard_at", "_interval_s", "_late_after_s", "_pinged_at", "heard")

    def __init__(self, interval_s: float, now: float, *, look_every_s: float) -> None:
        """`interval_s` of silence call for a PING; `check` is called every `look_every_s`."""
        self._interval_s = interval_s
        self._late_after_s = LOOKS_MISSED_MIN * look_every_s
        self.heard = False
        self._doubted_at: float | None = None
        self.begin(now)

    def begin(self, now: float) -> None:
        """Count from now on; for a later start of the checks."""
        self._heard_at = self._pinged_at = self._checked_at = now

    def quiet_s(self, now: float) -> float:
        """Seconds without a byte, as of the last check."""
        return now - self._heard_at

    def doubt(self, now: float) -> bool:
        """Nothing that was heard before counts; whether a PING is to be sent: it is doubted already otherwise."""
        if self._doubted_at is not None:
            return False
        if self.heard:
            self.heard, self._heard_at = False, now
        self._doubted_at = now
        return True

    def check(self, now: float, *, paused: bool) -> Verdict:
        """Judge; after PING the owner sends one."""
        unseen_s, self._checked_at = now - self._checked_at, now
        if self.heard or paused:
            self.heard, self._heard_at, self._doubted_at = False, now, None
        elif unseen_s >= self._late_after_s:
            self._heard_at += unseen_s
            self._pinged_at = now
            self._doubted_at = None if self._doubted_at is None else now
            return Verdict.PING
        quiet_s = now - self._heard_at
        doubted_s = 0.0 if self._doubted_at is None else now - self._doubted_at
        if quiet_s >= 2 * self._interval_s or doubted_s >= DOUBT_S:
            return Verdict.DEAD
        if paused:
            due = now - self._pinged_at >= self._interval_s / 2
        else:
            due = quiet_s >= self._interval_s and self._pinged_at < self._heard_at + self._interval_s
        if due:
            self._pinged_at = now
            return Verdict.PING
        return Verdict.FINE
