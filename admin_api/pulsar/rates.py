"""Rates from counters that are read on demand.

A broker computes its consumers' rates once a minute. The gateway only counts, and a rate is a counter's increase since
its last reading: 0.0 at the first reading, and never over less than a second, so that simultaneous readers see no
noise.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    Counters = tuple[int, ...]

TIME_BASE_S: Final = 1.0
READINGS_MAX: Final = 50_000
"""Remembered owners of counters; beyond it the least recently read ones start again."""


@dataclass(slots=True)
class _Reading:
    at: float
    counters: Counters
    per_second: tuple[float, ...]


class Rates:
    """The last reading of each."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._readings: OrderedDict[Hashable, _Reading] = OrderedDict()

    def read(self, owner: Hashable, now: float, counters: Counters) -> tuple[float, ...]:
        """How much each counter of `owner` rises per second; `now` in seconds, on any clock that never goes back."""
        reading = self._readings.get(owner)
        if reading is None:
            reading = self._readings[owner] = _Reading(now, counters, (0.0,) * len(counters))
            if len(self._readings) > READINGS_MAX:
                self._readings.popitem(last=False)
        self._readings.move_to_end(owner)
        passed = now - reading.at
        if passed >= TIME_BASE_S:
            pairs = zip(counters, reading.counters, strict=True)
            # A delivery that was taken back before it had left may lower a counter a little.
            reading.per_second = tuple(max(new - old, 0) / passed for new, old in pairs)
            reading.at, reading.counters = now, counters
        return reading.per_second
