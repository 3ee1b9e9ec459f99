"""One leg's keep-alive: the timer around `KeepAlive`, for a client's connection and for its upstream one alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from proxy.net.alarm import Alarm
from proxy.net.keep_alive import KeepAlive, Verdict

if TYPE_CHECKING:
    from proxy.net.ports import Clock

LOOKS_PER_INTERVAL: Final = 3
"""How often silence is looked at: a PING is late by a third of the interval at most."""


class Heartbeat:
    """Pings a silent peer, and reports one that does not answer, and a dead one. The owner tells it that bytes came."""

    __slots__ = ("_clock", "_dead", "_interval_s", "_keep_alive", "_lately", "_look_every_s", "_paused", "_ping",
                 "_suspected", "_timer")  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        interval_s: float,
        *,
        ping: Callable[[], None],
        dead: Callable[[], None],
        paused: Callable[[], bool],
        suspected: Callable[[], None] | None = None,
    ) -> None:
        """`paused` says whether reading from the peer is paused: then its silence proves nothing.

        `suspected` is called with each look at which a PING has not been answered.
        """
        self._interval_s = interval_s
        self._suspected = suspected or _nothing
        self._clock = clock
        self._ping = ping
        self._dead = dead
        self._paused = paused
        self._look_every_s = interval_s / LOOKS_PER_INTERVAL
        self._keep_alive = KeepAlive(interval_s, clock.now(), look_every_s=self._look_every_s)
        self._timer = Alarm(clock)
        self._lately = False

    def start(self) -> None:
        """Begin to look."""
        self._keep_alive.begin(self._clock.now())
        self._look_later()

    def stop(self) -> None:
        """Stop, and drop the reference to the owner, so that no cycle waits for the garbage collector. Idempotent."""
        self._timer.cancel()
        self._ping = self._dead = self._suspected = _nothing
        self._paused = bool

    def heard(self) -> None:
        """Bytes came."""
        self._keep_alive.heard = self._lately = True

    def take_heard(self) -> bool:
        """Whether bytes came since this was asked last."""
        heard, self._lately = self._lately, False
        return heard

    @property
    def paused(self) -> bool:
        """Whether silence proves nothing now."""
        return self._paused()

    @property
    def suspects(self) -> bool:
        """Whether a PING was not answered, as of the last look."""
        return self._keep_alive.quiet_s(self._clock.now()) > self._interval_s and not self._keep_alive.heard

    def _look(self) -> None:
        verdict = self._keep_alive.check(self._clock.now(), paused=self._paused())
        if verdict is Verdict.DEAD:
            self._dead()
            return
        self._look_later()
        if verdict is Verdict.PING:
            self._ping()
        elif self.suspects:
            self._suspected()

    def _look_later(self) -> None:
        self._timer.set(self._look_every_s, self._look)


def _nothing() -> None:
    """Replaces the callbacks of an ended owner."""
