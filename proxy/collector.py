"""When the garbage collector looks: rarely at what is young, and at everything when connections have ended.

Problem: what messages leave behind has no cycles, so the collector finds nothing in it, and at its usual thresholds
spends a twentieth of a busy gateway's time on walking everything that waits for an ack. Yet a session, its relay and a
subscription are cycles, and grow old before they end: with raised thresholds alone nobody ever comes back for them,
and a gateway whose clients reconnect grows by some 5 KiB for each, for ever.
Rule: everything is walked when as much has ended as is alive, or a thousand sessions if that is more, and never for any
other reason. So a walk, whose pause grows with what is alive, costs each session that ended the same.
Why not on a timer: a gateway whose clients stay would pause for nothing, and one in a storm of reconnects would grow
between two ticks by as much as the storm brings.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock

THRESHOLDS: Final = (50_000, 20, 50)
"""Objects made before the youngest are collected, and collections of one generation before one of the next."""

ENDED_BEFORE_COLLECTING: Final = 1_000
"""Ended sessions, some 5 MB. Walking what 5,000 workers of 2,000 subscriptions keep alive takes 0.2 s."""

SUBSCRIPTION_WEIGHT: Final = 10
"""A subscription has its table of slots and its ring, and counts as so many sessions."""

LOOK_S: Final = 1.0


def spare_the_collector() -> None:
    """Let it look less often, and never at what lives as long as the gateway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class Collector:
    """Collects what has ended, at the end of a loop turn, when there is enough of it."""

    def __init__(
        self,
        clock: Clock,
        sessions: Callable[[], int],
        ended_sessions: Callable[[], int],
        ended_subscriptions: Callable[[], int],
    ) -> None:
        """`sessions` gives how many are alive, the others totals that never fall."""
        self._clock = clock
        self._sessions = sessions
        self._ended_sessions = ended_sessions
        self._ended_subscriptions = ended_subscriptions
        self._collected_at = 0
        self.collections_total = 0

    def start(self) -> None:
        """Look now and then, for as long as the loop runs."""
        self._clock.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        ended = self._ended_sessions() + SUBSCRIPTION_WEIGHT * self._ended_subscriptions()
        if ended - self._collected_at >= max(ENDED_BEFORE_COLLECTING, self._sessions()):
            self._collected_at = ended
            self.collections_total += 1
            gc.collect()
        self.start()
