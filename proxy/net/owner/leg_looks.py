"""Finds single legs that a network has forgotten, between two replicas that reach each other.

Problem: a firewall, or a node that translates addresses, may lose one connection's entry and tell neither end. What was
sent into it then stands still until the keep-alive of any connection, a minute. TCP's own timeouts say the same of
a leg that is not read because its client reads nothing, which is no reason to end it. Rule: a leg is asked only while
something is owed on it, an acknowledgement or an answer, and nothing came for an interval; and given up when nothing
came for two. A side that does not read says so by asking itself, as `keep_alive` has it. What was owed counts until
something comes: when an ack lease ends the messages are owed no more, and the CLOSE_CONSUMER that says so may be lost
with them.

The side that dialled cannot know that messages were sent to it. So the other one names the leg that it asks on the
connection for signs of life, and the leg is asked from this end, too: it has half an interval, since the replica lives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.net.alarm import Alarm
from proxy.net.keep_alive import KeepAlive, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock

LOOKS_PER_INTERVAL: Final = 2


class Leg(Protocol):
    """A client's connection between two replicas, seen from either of them."""

    @property
    def name(self) -> str:
        """The client's address, by which both ends know the leg."""

    @property
    def owes(self) -> bool:
        """Whether the other end has to acknowledge or to answer something."""

    @property
    def paused(self) -> bool:
        """Whether nothing is read from it now."""

    def take_heard(self) -> bool:
        """Whether bytes came since this was asked last."""

    def ping(self) -> None:
        """Ask for a sign of life."""

    def give_up(self, reason: str) -> None:
        """The other replica does not answer."""


class _Watched:
    """What is known of one leg."""

    __slots__ = ("asked_at", "keep_alive", "owed")

    def __init__(self, keep_alive: KeepAlive) -> None:
        self.keep_alive = keep_alive
        self.asked_at: float | None = None
        """Since when the other end waits for what it asked for by name."""
        self.owed = False
        """Whether it owed something at a look, and was not heard since."""


class LegLooks:
    """At all legs between this replica and another one."""

    def __init__(self, clock: Clock, interval_s: float, tell: Callable[[str], None]) -> None:
        """`tell` names a leg to the other end."""
        self._clock = clock
        self._interval_s = interval_s
        self._look_every_s = interval_s / LOOKS_PER_INTERVAL
        self._tell = tell
        self._watched: dict[Leg, _Watched] = {}
        self._by_name: dict[str, list[Leg]] | None = None
        """Made when the other end names one: it may name all at a time, and there are as many as workers."""
        self._timer = Alarm(clock)
        self._looked_at = clock.now()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._watched)

    def add(self, leg: Leg) -> None:
        """One more; harmless once more."""
        if leg not in self._watched:
            keep_alive = KeepAlive(self._interval_s, self._clock.now(), look_every_s=self._look_every_s)
            self._watched[leg] = _Watched(keep_alive)
            self._by_name = None
        if not self._timer.is_set:
            self._looked_at = self._clock.now()
            self._timer.set(self._look_every_s, self._look)

    def remove(self, leg: Leg) -> None:
        """It is over; harmless once more."""
        self._watched.pop(leg, None)
        self._by_name = None
        if not self._watched:
            self._timer.cancel()

    def take_all(self) -> list[Leg]:
        """Watch none any more."""
        legs = list(self._watched)
        self._watched.clear()
        self._by_name = None
        self._timer.cancel()
        return legs

    def asked(self, name: str) -> None:
        """The other end has sent something on this leg, and heard nothing."""
        if self._by_name is None:
            self._by_name = {}
            for leg in self._watched:
                self._by_name.setdefault(leg.name, []).append(leg)
        for leg in self._by_name.get(name, ()):
            watched = self._watched[leg]
            if watched.asked_at is None:
                leg.ping()
                watched.asked_at = self._clock.now()

    def ask_all(self) -> None:
        """The other end may have given legs up, and not have been heard: its system resets what it does not know."""
        for leg in list(self._watched):
            leg.ping()

    def _look(self) -> None:
        now = self._clock.now()
        self._timer.set(self._look_every_s, self._look)
        late = now - self._looked_at >= 2 * self._look_every_s
        self._looked_at = now
        for leg, watched in list(self._watched.items()):
            if leg in self._watched and self._is_forgotten(leg, watched, now, late=late):
                self.remove(leg)
                leg.give_up("a network between the replicas has forgotten the connection")

    def _is_forgotten(self, leg: Leg, watched: _Watched, now: float, *, late: bool) -> bool:
        """Look at one; `late` says that this process stood still, and what came meanwhile is unread."""
        keep_alive = watched.keep_alive
        if leg.take_heard():
            keep_alive.heard, watched.asked_at, watched.owed = True, None, False
        elif watched.asked_at is not None and (late or leg.paused):
            watched.asked_at = now
        elif watched.asked_at is not None and now - watched.asked_at >= self._interval_s / 2:
            return True
        watched.owed |= leg.owes
        if not (watched.owed or leg.paused):
            keep_alive.begin(now)
            return False
        verdict = keep_alive.check(now, paused=leg.paused)
        if verdict is Verdict.PING:
            leg.ping()
            self._tell(leg.name)
        return verdict is Verdict.DEAD
