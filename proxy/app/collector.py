"""Garbage collection: rarely for young objects, and completely when subscriptions have ended.

Problem: messages leave no cycles, so the collector finds nothing, and with its usual thresholds spends a twentieth of a
busy gateway's time on walking all pending deliveries. Sessions break their cycles when they end
(`tests/net/test_ended_sessions.py`). A subscription does not: it is a cycle of some 8 KiB that grows old before it
ends, and with raised thresholds alone it would never be collected.
Rule: a full collection runs when as many subscriptions have ended as are alive, or a thousand if that is more, and
never for any other reason. So a collection, whose pause grows with the live objects, costs each ended subscription the
same. Why not on a timer: a gateway with stable clients would pause for nothing, and a gateway with short-lived
subscriptions would grow without bound between two ticks.
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
"""Ended subscriptions, some 8 MB. Walking the objects of 5,000 workers of 2,000 subscriptions takes 0.2 s."""

LOOK_S: Final = 1.0


def spare_the_collector() -> None:
    """Let it run less often, and never over objects that live as long as the gateway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class Collector:
    """Collects ended subscriptions, at the end of a loop turn, when there are enough."""

    def __init__(self, clock: Clock, alive: Callable[[], int], ended: Callable[[], int]) -> None:
        """`alive` gives the number of subscriptions, `ended` the total of ended ones, which never falls."""
        self._clock = clock
        self._alive = alive
        self._ended = ended
        self._collected_at = 0
        self.collections_total = 0

    def start(self) -> None:
        """Check periodically, as long as the loop runs."""
        self._clock.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        ended = self._ended()
        if ended - self._collected_at >= max(ENDED_BEFORE_COLLECTING, self._alive()):
            self._collected_at = ended
            self.collections_total += 1
            gc.collect()
        self.start()
