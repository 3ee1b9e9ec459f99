"""Latencies as counts in a few hundred classes, so that those of several processes can be added."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

_RATIO_LOG: Final = math.log(1.05)
"""Classes are 5 % wide."""


class Histogram:
    """Counts by class."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        """Empty, or as `to_json` said."""
        self._counts: Counter[int] = Counter({int(name): count for name, count in (counts or {}).items()})

    def add(self, microseconds: float) -> None:
        """One latency."""
        self._counts[math.ceil(math.log(max(microseconds, 1.0)) / _RATIO_LOG)] += 1

    def merge(self, other: Histogram) -> None:
        """All of another's."""
        self._counts += other._counts

    def __len__(self) -> int:
        """How many latencies there are."""
        return self._counts.total()

    def quantile_ms(self, share: float) -> float:
        """Upper end of the class in which this share of all is reached; 0 for none."""
        left = share * len(self)
        for number in sorted(self._counts):
            left -= self._counts[number]
            if left <= 0:
                return math.exp(number * _RATIO_LOG) / 1e3
        return 0.0

    def to_json(self) -> dict[str, int]:
        """For a line of a report."""
        return {str(number): count for number, count in self._counts.items()}
