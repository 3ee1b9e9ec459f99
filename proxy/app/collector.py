"""When the garbage collector looks: rarely at what is young, and at everything when subscriptions have ended.

Problem: what messages leave behind has no cycles, so the collector finds nothing in it, and at its usual thresholds
spends a twentieth of a busy gateway's time on walking everything that waits for an ack. Sessions, which come and go
with their clients, let go of themselves when they end (`tests/net/test_ended_sessions.py`). A subscription does not: it
is a cycle of some 8 KiB that grows old before it ends, and with raised thresholds alone nobody ever comes back for it.
Rule: everything is walked when as many subscriptions have ended as are alive, or a thousand if that is more, and never
for any other reason. So a walk, whose pause grows with what is alive, costs each that ended the same.
Why not on a timer: a gateway whose clients stay would pause for nothing, and one whose subscriptions are short-lived
would grow between two ticks by as many as come.
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
"""Ended subscriptions, some 8 MB. Walking what 5,000 workers of 2,000 subscriptions keep alive takes 0.2 s."""

LOOK_S: Final = 1.0


def spare_the_collector() -> None:
    """Let it look less often, and never at what lives as long as the gateway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class Collector:
    """Collects what has ended, at the end of a loop turn, when there is enough of it."""

    def __init__(self, clock: Clock, alive: Callable[[], int], ended: Callable[[], int]) -> None:
        """Of subscriptions: `alive` gives how many there are, `ended` a total that never falls."""
        self._clock = clock
        self._alive = alive
        self._ended = ended
        self._collected_at = 0
        self.collections_total = 0

    def start(self) -> None:
        """Look now and then, for as long as the loop runs."""
        self._clock.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        ended = self._ended()
        if ended - self._collected_at >= max(ENDED_BEFORE_COLLECTING, self._alive()):
            self._collected_at = ended
            self.collections_total += 1
            gc.collect()
        self.start()
