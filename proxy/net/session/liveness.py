"""Asks a client for a sign of life because another worker wants what it holds; gives it up if it gives none.

Problem: a host that vanishes ends no connection. Until the keep-alive notices, a minute, its worker holds its STICKY
hash ranges, and the same worker's next connection is refused. Rule, as at a broker: who is in the way is sent a PING;
the newcomer waits for the PONG, and is refused if it comes. Without a sign of life for `LIVENESS_S` the connection is
given up, and the newcomer has the ranges. Silence while nothing is read proves nothing, as for `keep_alive`, nor does
the time in which this process stood still.

A client whose connection ends at another replica is that replica's to judge: it is asked (`commands.ask_client`), as
it answers a PING itself. It ends the leg of a client that is dead; if it does neither, the client counts as alive.

Source: Pulsar, `ServerCnx.checkConnectionLiveness`; seen with 4.2.4 and 4.0.7: a healthy holder's newcomer is refused
within 30 ms, that of one that does not read is let in after 5.0 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.alarm import Alarm
from proxy.wire import commands

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.heartbeat import Heartbeat
    from proxy.net.ports import Clock

LIVENESS_S: Final = 5
"""Pulsar's default of `connectionLivenessCheckTimeoutMillis`."""
LED_S: Final = LIVENESS_S + 2
"""How long another replica may take to answer for its client, or to end it."""
LOOK_S: Final = 1.0
"""Between two looks; one that is twice as late shows that this process stood still."""


class Liveness:
    """Of one client's connection. It costs nothing until it is asked for."""

    __slots__ = ("_asking", "_clock", "_heartbeat", "_led", "_looked_at", "_looks", "_send", "_silent", "_timer")

    def __init__(
        self,
        clock: Clock,
        send: Callable[[bytes], None],
        heartbeat: Heartbeat,
        silent: Callable[[float], None],
        *,
        led: bool,
    ) -> None:
        """`heartbeat` is the connection's, and knows of all that came.

        `silent` is called with the seconds when the client counts as dead; never with `led`, for a client of another
        replica's.
        """
        self._clock = clock
        self._send: Callable[[bytes], None] = send
        self._heartbeat = heartbeat
        self._silent: Callable[[float], None] = silent
        self._led = led
        self._asking: list[Callable[[], None]] = []
        self._timer = Alarm(clock)
        self._looks = 0
        self._looked_at = 0.0

    def ask(self, alive: Callable[[], None]) -> None:
        """Call `alive` with the client's sign of life; without one the connection ends, and it is not called."""
        self._asking.append(alive)
        if not self._timer.is_set:
            self._heartbeat.take_heard()
            self._send(commands.ask_client() if self._led else commands.ping())
            self._looks = 0
            self._look_later()

    def answered(self, frame: bytes) -> None:
        """A PONG came."""
        if self._timer.is_set and (not self._led or frame == commands.client_lives()):
            self._answer()

    def stop(self) -> None:
        """The connection has ended: no one is answered, and the reference to the owner is dropped."""
        self._over()
        self._send = self._silent = _nothing

    def _over(self) -> list[Callable[[], None]]:
        asking, self._asking = self._asking, []
        self._timer.cancel()
        return asking

    def _answer(self) -> None:
        for alive in self._over():
            alive()

    def _look_later(self) -> None:
        self._looked_at = self._clock.now()
        self._timer.set(LOOK_S, self._look)

    def _look(self) -> None:
        if self._clock.now() - self._looked_at < 2 * LOOK_S:
            self._looks += 1
        heartbeat = self._heartbeat
        if not self._led and (heartbeat.take_heard() or heartbeat.paused):
            self._answer()
        elif self._looks < (LED_S if self._led else LIVENESS_S):
            self._look_later()
        elif self._led:
            self._answer()
        else:
            self._over()
            self._silent(LIVENESS_S)


def _nothing(_: object) -> None:
    """Replaces the callbacks of an ended owner."""
