"""The garbage collector's leash: what ended is found, without anybody having to allocate for it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from proxy.app.collector import ENDED_BEFORE_COLLECTING, LOOK_S, Collector
from tests.net.fakes import FakeClock


class Ring:
    """A cycle, as ended subscriptions are."""

    def __init__(self) -> None:
        """Refer to oneself."""
        self.me = self


class Bench:
    """A collector whose counts the test sets."""

    def __init__(self) -> None:
        """Nothing has ended."""
        self.clock = FakeClock()
        self.alive = self.ended = 0
        self.collector = Collector(self.clock, lambda: self.alive, lambda: self.ended)
        self.collector.start()

    def looked(self) -> int:
        """Collections after the next look."""
        self.clock.advance(LOOK_S)
        return self.collector.collections_total


@pytest.fixture(autouse=True)
def _by_hand() -> Iterator[None]:
    """No collection but ours."""
    gc.disable()
    yield
    gc.enable()


def test_cycles_that_grew_old_are_found_when_enough_has_ended() -> None:
    """However old they are: a subscription lives longer than the young generations."""
    bench, ring = Bench(), Ring()
    gone = weakref.ref(ring)
    gc.collect()
    del ring
    bench.ended = ENDED_BEFORE_COLLECTING - 1
    assert bench.looked() == 0
    assert gone() is not None
    bench.ended += 1
    assert bench.looked() == 1
    assert gone() is None


def test_nothing_is_walked_while_nothing_ends() -> None:
    """A gateway whose clients stay never pauses for it, and one storm costs one walk for so many that left."""
    bench = Bench()
    assert [bench.looked() for _ in range(100)] == [0] * 100
    bench.ended = 3 * ENDED_BEFORE_COLLECTING
    assert [bench.looked() for _ in range(100)] == [1] * 100


def test_a_larger_gateway_waits_for_more_to_end() -> None:
    """Its walk takes longer: each that ended is worth the same share of one."""
    bench = Bench()
    bench.alive, bench.ended = 3 * ENDED_BEFORE_COLLECTING, 3 * ENDED_BEFORE_COLLECTING - 1
    assert bench.looked() == 0
    bench.ended += 1
    assert bench.looked() == 1
