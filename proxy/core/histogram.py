"""How long things took, as a histogram with fixed bounds: what Prometheus needs to tell quantiles over time.

Why not the metrics library's own: it locks, has labels to look up and costs over a microsecond an observation, on a
path where a whole message costs 18. Here most observations repeat the one before them, because messages that arrive
together leave together and are acknowledged together. So equal ones in a row are only counted, and looked up among the
bounds once; the exporter adds the buckets up to Prometheus's cumulative ones.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import add
from typing import Final

BOUNDS_S: Final[tuple[float, ...]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0,
)  # fmt: skip
"""Upper bounds of the buckets, each inclusive; a last bucket takes what is longer.

From below what a gateway adds to a message up to the drain timeouts and backlogs that people wait for.
"""


@dataclass(frozen=True, slots=True)
class HistogramStatistics:
    """A histogram at some moment."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    """Observations in each bucket alone, one bucket more than there are bounds."""
    sum_s: float

    def __add__(self, other: HistogramStatistics) -> HistogramStatistics:
        """Both together."""
        counts = tuple(map(add, self.counts, other.counts))
        return HistogramStatistics(self.bounds_s, counts, self.sum_s + other.sum_s)


EMPTY: Final = HistogramStatistics(BOUNDS_S, (0,) * (len(BOUNDS_S) + 1), 0.0)


class Histogram:
    """Durations in seconds."""

    __slots__ = ("_counts", "_sum_s", "latest_count", "latest_s")

    def __init__(self) -> None:
        """Nothing observed."""
        self._counts: list[int] = []
        """Of each bucket; empty until there is one: most subscriptions of a large deployment are idle."""
        self._sum_s = 0.0
        self.latest_s = -1.0
        """The duration observed last. Who observes it again on the hot path may raise `latest_count` in place."""
        self.latest_count = 0
        """How often in a row it was; not yet in its bucket."""

    def observe(self, duration_s: float, count: int = 1) -> None:
        """It took so long, `count` times."""
        if duration_s == self.latest_s:
            self.latest_count += count
            return
        self._close_run()
        self.latest_s = duration_s
        self.latest_count = count

    def statistics(self) -> HistogramStatistics:
        """Freeze it."""
        self._close_run()
        return HistogramStatistics(BOUNDS_S, tuple(self._counts), self._sum_s) if self._counts else EMPTY

    def _close_run(self) -> None:
        """Put what was observed last into its bucket."""
        count = self.latest_count
        if count:
            self._counts = self._counts or [0] * (len(BOUNDS_S) + 1)
            self._counts[bisect_left(BOUNDS_S, self.latest_s)] += count
            self._sum_s += self.latest_s * count
            self.latest_count = 0
