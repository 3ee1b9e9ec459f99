"""How far a subscription's topic was read here: whether an older message of a key may still come.

Problem: a parking topic may have messages of a key, and lack an older one that it refused. A gateway that begins knows
of those. The other one comes with what is read of the original topic, and a redrive that began before that would be
ahead of it.
Rule: a broker sends what is not acknowledged in the topic's order. So all up to a place has come once something at or
behind it has, once the broker has told that all up to there is acknowledged, or once it has sent nothing of what it was
asked for in `QUIET_S`: then what lies between was acknowledged one by one, which no broker tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.positions import MAX_ENTRY, MAX_LEDGER, pack
from proxy.net.alarm import Alarm
from proxy.net.subscription.cursor import IDLE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.outstanding import Outstanding
    from proxy.core.positions import Position
    from proxy.net.ports import Clock
    from proxy.net.subscription.upstream_consumers import UpstreamConsumers

QUIET_S: Final = IDLE_S
END: Final = pack(MAX_LEDGER, MAX_ENTRY)


class TopicReading:
    """Of one subscription."""

    def __init__(
        self, outstanding: Outstanding, consumers: UpstreamConsumers, clock: Clock, look_again: Callable[[], None]
    ) -> None:
        """`look_again` is called when the broker was silent for so long that somebody asked in vain before."""
        self._outstanding = outstanding
        self._consumers = consumers
        self._look_again = look_again
        self._arrived = 0
        """Messages that had come when the silence began."""
        self._quiet = Alarm(clock)

    def has_passed(self, position: Position) -> bool:
        """Whether all up to here has come that the broker sends; `look_again` follows if it has not."""
        if position <= self._outstanding.reached:
            return True
        if not self._quiet.is_set:
            self._listen()
        return False

    def stop(self) -> None:
        """The subscription has ended."""
        self._quiet.cancel()

    def _listen(self) -> None:
        self._arrived = self._consumers.arrived
        self._quiet.set(QUIET_S, self._listened)

    def _listened(self) -> None:
        if self._consumers.arrived == self._arrived and not self._consumers.behind:
            self._outstanding.acknowledged_to = END
        self._look_again()
