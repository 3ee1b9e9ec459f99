"""Which keys most of a subscription's recent messages have, counted in bounded memory and at little cost.

Problem: clients choose keys, so there may be millions of them, and an operator asks for the few with the most messages.
Rule: the Space-Saving algorithm with `KEYS_MAX` counters. A key without a counter takes the smallest one over, and the
count found there is remembered as its possible error. So each key that has more than one message in `KEYS_MAX` is among
those counted, and its true count lies between its count less its error and its count. Counts are halved every
`HALF_LIFE_S`, so that what is shown is the traffic of the last minute.

Why samples: counting every message would cost a tenth of its delivery. About `SAMPLES_PER_S` messages a second are
looked at, all of a slow subscription and few of a fast one, and each stands for those before it. The distances between
them are irregular, because keys often come in turn.

Source: Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005.
"""

from __future__ import annotations

from heapq import heapify, heappush, heapreplace
from math import log
from typing import Final, NamedTuple

KEYS_MAX: Final = 100
"""Counters; at about 250 bytes, and a key, each."""
KEY_BYTES_MAX: Final = 128
"""Of a longer key only so many bytes are kept; such keys of one slot that begin alike are counted as one."""
HALF_LIFE_S: Final = 30.0
SAMPLES_PER_S: Final = 200
GAP_MAX: Final = 1_000
"""Mean number of messages for each that is looked at, at most."""
POINTS_MAX: Final = 16
"""Messages of one batch that are looked at, at most."""
_SECOND: Final = 1.0
_LEAST: Final = 0.1
"""What is left of a count when its counter is free again."""
_MULTIPLIER: Final = 1_103_515_245
_INCREMENT: Final = 12_345
_MASK: Final = 0x7FFFFFFF


class HotKey(NamedTuple):
    """One of the keys with the most messages."""

    key: bytes
    """At most its first `KEY_BYTES_MAX` bytes."""
    shortened: bool
    slot: int
    per_s: float
    """Messages a second at least, as far as samples tell."""


class _Counted:
    """The counter of one key."""

    __slots__ = ("count", "error", "name", "slot")

    def __init__(self, name: bytes, slot: int, count: float, error: float) -> None:
        self.name = name
        self.slot = slot
        self.count = count
        self.error = error


class Sampling:
    """Which messages of one stream of them are looked at."""

    __slots__ = ("_chance", "_gap", "_mean", "_seen", "_since", "left")

    def __init__(self) -> None:
        """The first is looked at."""
        self.left = 1
        """Messages until one is looked at, as `points` has left it."""
        self._gap = 1
        """Messages for which that one stands."""
        self._mean = 1
        self._chance = 1
        self._since = 0.0
        """When the pace was set."""
        self._seen = 0
        """Messages since then."""

    def points(self, messages: int, left: int, now: float) -> list[tuple[int, int]]:
        """Which of an entry's messages are looked at, by index, and how many each stands for.

        `left` is what is left of `self.left` when the entry's messages are subtracted, too; it is 0 or below.
        """
        elapsed = now - self._since
        if elapsed >= _SECOND:
            self._mean = min(max(int(self._seen / elapsed) // SAMPLES_PER_S, 1), GAP_MAX)
            self._since = now
            self._seen = 0
        index, weight = messages - 1 + left, self._gap
        if index < 0:  # it was due before this entry, but could not be looked at then
            index, weight = 0, weight - index
        found = []
        step = max(self._mean, messages // POINTS_MAX)
        while index < messages:
            found.append((index, weight))
            self._seen += weight
            index, weight = index + step, step
        walked = messages - 1 - (index - step)  # messages of the entry behind the last one looked at
        self.left = max(self._next_gap() - walked, 1)
        self._gap = walked + self.left
        return found

    def _next_gap(self) -> int:
        """Irregular, with the mean wanted; a sudden rise of the rate is met within the second."""
        if self._seen > 2 * SAMPLES_PER_S * self._mean:
            self._mean = GAP_MAX
        self._chance = (self._chance * _MULTIPLIER + _INCREMENT) & _MASK
        return 1 + (self._chance >> 8) % (2 * self._mean - 1)


class HotKeys:
    """The counters of one subscription."""

    __slots__ = ("_began_at", "_counted", "_heap", "_since", "_total")

    def __init__(self) -> None:
        """Nothing was counted."""
        self._counted: dict[bytes, _Counted] = {}
        self._heap: list[tuple[float, bytes]] = []
        """A heap of all counters by what they were when they were put there: they grow meanwhile, and never fall."""
        self._total = 0.0
        self._began_at = -1.0
        """When the first was counted."""
        self._since = 0.0
        """When the counts were halved last, in proportion."""

    def add(self, key: bytes, slot: int, messages: int, now: float) -> None:
        """A message with this key was looked at, and stands for so many."""
        if self._began_at < 0:
            self._began_at = self._since = now
        elif now - self._since >= _SECOND:
            self._fade(now)
        name = key if len(key) <= KEY_BYTES_MAX else key[:KEY_BYTES_MAX] + slot.to_bytes(4, "big")
        self._total += messages
        counted = self._counted
        found = counted.get(name)
        if found is not None:
            found.count += messages
        elif len(counted) < KEYS_MAX:
            counted[name] = _Counted(name, slot, messages, 0.0)
            heappush(self._heap, (float(messages), name))
        else:
            least = self._least_count()
            counted[name] = _Counted(name, slot, least + messages, least)
            _, replaced = heapreplace(self._heap, (least + messages, name))
            del counted[replaced]

    def _least_count(self) -> float:
        """Of the counter that has the smallest one, which is first in the heap then."""
        heap = self._heap
        while True:
            then, name = heap[0]
            count = self._counted[name].count
            if count == then:
                return count
            heapreplace(heap, (count, name))

    def top(self, limit: int, now: float) -> list[HotKey]:
        """The keys with the most messages, that with the most first."""
        per_count = self._per_count(now)
        ordered = sorted(self._counted.values(), key=_certain, reverse=True)
        return [
            HotKey(each.name[:KEY_BYTES_MAX], len(each.name) > KEY_BYTES_MAX, each.slot, _certain(each) * per_count)
            for each in ordered[:limit]
        ]

    def per_s(self, now: float) -> float:
        """Messages of all keys a second."""
        return self._total * self._per_count(now)

    def _per_count(self, now: float) -> float:
        """What a count of one is in messages a second: a steady rate comes to so many half lives of it."""
        if self._began_at < 0:
            return 0.0
        age_s = max(now - self._began_at, _SECOND)
        faded = 0.5 ** ((now - self._since) / HALF_LIFE_S)
        return float(faded * log(2) / HALF_LIFE_S / (1.0 - 0.5 ** (age_s / HALF_LIFE_S)))

    def _fade(self, now: float) -> None:
        factor = float(0.5 ** ((now - self._since) / HALF_LIFE_S))
        for each in list(self._counted.values()):
            each.count *= factor
            each.error *= factor
            if each.count < _LEAST:
                del self._counted[each.name]
        self._heap = [(each.count, each.name) for each in self._counted.values()]
        heapify(self._heap)
        self._total *= factor
        self._since = now


def _certain(counted: _Counted) -> float:
    return counted.count - counted.error
