"""Sticky exclusive ranges: validation, conflicts and holes (facts 2.4)."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from proxy.core.errors import ConsumerAssignError
from proxy.core.hash_ranges import HashRange, RangeMove
from proxy.core.selectors import sticky_ranges
from proxy.core.selectors.sticky_ranges import StickyRanges
from proxy.core.sticky_key import RANGE_SLOT_COUNT
from tests.core.selectors.workers import FakeWorker
from tests.growth import growth

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_worker_gets_exactly_what_it_named() -> None:
    """The gaps between its ranges belong to nobody (apache/pulsar 24730)."""
    worker = FakeWorker("a", [(0, 9_999), (40_000, 49_999), (20_000, 29_999)])
    selector: StickyRanges[FakeWorker] = StickyRanges()
    selector.add(worker)
    assert selector.ranges(worker) == [HashRange(0, 9_999), HashRange(20_000, 29_999), HashRange(40_000, 49_999)]
    assert [selector.select(slot) for slot in (0, 9_999, 20_000, 29_999, 49_999)] == [worker] * 5
    assert [selector.select(slot) for slot in (10_000, 19_999, 30_000, 50_000, 65_535)] == [None] * 5


def test_a_worker_may_take_a_gap_of_another() -> None:
    """Ranges of two workers may interleave as long as they share no slot (apache/pulsar 7217)."""
    outer, inner = FakeWorker("outer", [(0, 99), (400, 65_535)]), FakeWorker("inner", [(100, 399)])
    selector: StickyRanges[FakeWorker] = StickyRanges()
    selector.add(outer)
    assert selector.add(inner) == [RangeMove(100, 399, None, inner)]
    assert selector.select(100) is inner
    assert selector.select(400) is outer


def test_adjacent_ranges_of_one_worker_are_shown_as_one() -> None:
    """What stats show is merged, as the broker's."""
    worker = FakeWorker("a", [(10, 19), (0, 9)])
    selector: StickyRanges[FakeWorker] = StickyRanges()
    assert selector.add(worker) == [RangeMove(0, 19, None, worker)]
    assert selector.ranges(worker) == [HashRange(0, 19)]


@pytest.mark.parametrize("wanted", [(0, 50), (150, 300), (100, 100), (120, 130), (0, 65_535), (200, 200)])
def test_a_range_that_is_taken_is_refused_with_the_taker_and_both_ranges(wanted: tuple[int, int]) -> None:
    """Who is in the way is told, so that the caller can look whether it still lives; nothing changes."""
    taker = FakeWorker("taker", [(100, 200), (0, 5)])
    selector: StickyRanges[FakeWorker] = StickyRanges()
    selector.add(taker)
    late = FakeWorker("late", [(5_000, 5_001), wanted] if wanted[1] < 5_000 else [wanted])
    with pytest.raises(
        ConsumerAssignError, match=r"Range conflict with consumer taker: \[.*\] overlaps its \["
    ) as caught:
        selector.add(late)
    assert selector.in_the_way(late.sticky_ranges or ()) is taker
    assert str(HashRange(*wanted)) in str(caught.value)
    assert selector.assignment() == [(HashRange(0, 5), taker), (HashRange(100, 200), taker)]
    assert selector.ranges(late) == []


def test_a_range_is_free_once_its_worker_left() -> None:
    """After the conflicting worker is removed the same request is granted."""
    first, second = FakeWorker("first", [(0, 99)]), FakeWorker("second", [(50, 149)])
    selector: StickyRanges[FakeWorker] = StickyRanges()
    selector.add(first)
    with pytest.raises(ConsumerAssignError):
        selector.add(second)
    assert selector.remove(first) == [RangeMove(0, 99, first, None)]
    assert selector.add(second) == [RangeMove(50, 149, None, second)]


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([], "Ranges for KeyShared policy must not be empty."),
        ([(0, 9), (30, 20)], "Fixed hash range start > end for range: [30, 20]"),
        ([(-1, 9)], "Ranges must be [0, 65535] but provided range is [-1, 9]"),
        ([(0, 65_536)], "Ranges must be [0, 65535] but provided range is [0, 65536]"),
        ([(10, 20), (0, 10)], "Consumer's own ranges conflict: [0, 10] overlaps with [10, 20]"),
        ([(5, 5), (5, 5)], "Consumer's own ranges conflict: [5, 5] overlaps with [5, 5]"),
        ([(5, 5)] * 65_537, "Consumer's own ranges conflict: 65537 ranges of 65536 slots"),
    ],
)
def test_ranges_that_are_wrong_in_themselves_are_refused(ranges: list[tuple[int, int]], words: str) -> None:
    """The message says which range is wrong and why; nobody is in the way, and nothing changes."""
    selector: StickyRanges[FakeWorker] = StickyRanges()
    with pytest.raises(ConsumerAssignError, match=re.escape(words)):
        selector.add(FakeWorker("a", ranges))
    assert selector.in_the_way(ranges) is None
    assert selector.assignment() == []


def test_who_is_in_the_way_is_the_one_that_a_refusal_would_name() -> None:
    """The lowest; and no one is for ranges that are refused for themselves."""
    low, high = FakeWorker("low", [(0, 99)]), FakeWorker("high", [(200, 299)])
    selector: StickyRanges[FakeWorker] = StickyRanges()
    selector.add(high)
    selector.add(low)
    assert selector.in_the_way([(250, 400), (99, 100)]) is low
    assert selector.in_the_way([(299, 400), (100, 199)]) is high
    assert selector.in_the_way([(100, 199), (300, 400)]) is None
    assert selector.in_the_way([(0, 9), (0, 9)]) is None


def test_slots_that_are_named_one_by_one_are_not_compared_with_each_other() -> None:
    """Two workers may interleave as finely as they like: what a client may ask for costs no one a minute."""

    def ready(count: int) -> Callable[[], None]:
        odd = FakeWorker("odd", [(slot + 1, slot + 1) for slot in range(0, 2 * count, 2)])
        even = FakeWorker("even", [(slot, slot) for slot in range(0, 2 * count, 2)])
        selector: StickyRanges[FakeWorker] = StickyRanges()
        selector.add(odd)

        def add() -> None:
            assert selector.in_the_way(even.sticky_ranges) is None
            selector.add(even)
            assert (selector.select(0), selector.select(1)) == (even, odd)

        return add

    assert growth(ready, 500, 4_000) < 32  # 64, if each were compared with all


class CountedBound(int):
    """A bound of a range that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        """One comparison."""
        CountedBound.compared += 1
        return int.__lt__(self, other)

    def __le__(self, other: int) -> bool:
        """One comparison."""
        CountedBound.compared += 1
        return int.__le__(self, other)

    def __gt__(self, other: int) -> bool:
        """One comparison."""
        CountedBound.compared += 1
        return int.__gt__(self, other)


def compared_beside(ranges: int) -> int:
    """Comparisons for a worker of one range that comes and goes beside one of so many."""
    many = FakeWorker("many", [(CountedBound(2 * slot), CountedBound(2 * slot)) for slot in range(ranges)])
    one = FakeWorker("one", [(2 * ranges, 2 * ranges + 5)])
    selector: StickyRanges[FakeWorker] = StickyRanges()
    selector.add(many)
    CountedBound.compared = 0
    assert selector.add(one) == [RangeMove(2 * ranges, 2 * ranges + 5, None, one)]
    assert selector.ranges(one) == [HashRange(2 * ranges, 2 * ranges + 5)]
    assert selector.remove(one) == [RangeMove(2 * ranges, 2 * ranges + 5, one, None)]
    return CountedBound.compared


def test_one_that_comes_and_goes_costs_what_it_names() -> None:
    """And not what others have named: a client may name half of all slots one by one, and another come and go."""
    few = compared_beside(1_000)
    assert compared_beside(2_000) <= few + 10


@pytest.mark.parametrize("spliced_max", [0, 2, 1_000])
def test_however_ranges_are_put_in_they_are_the_same(monkeypatch: pytest.MonkeyPatch, spliced_max: int) -> None:
    """One by one, or all written anew: owners of all slots, moves, and what is shown."""
    monkeypatch.setattr(sticky_ranges, "SPLICED_MAX", spliced_max)
    dice = random.Random(7)  # noqa: S311 - a test's dice
    selector: StickyRanges[FakeWorker] = StickyRanges()
    owners: list[FakeWorker | None] = [None] * RANGE_SLOT_COUNT
    here: list[FakeWorker] = []
    for number in range(120):
        if here and dice.random() < 0.45:
            worker = here.pop(dice.randrange(len(here)))
            moves = selector.remove(worker)
            assert all((move.before, move.after) == (worker, None) for move in moves)
        else:
            starts = sorted(dice.sample(range(0, 64, 2), dice.randrange(1, 5)))
            worker = FakeWorker(str(number), [(start, start + dice.randrange(2)) for start in starts])
            free = all(owners[slot] is None for start, end in worker.sticky_ranges for slot in range(start, end + 1))
            if not free:
                with pytest.raises(ConsumerAssignError):
                    selector.add(worker)
                continue
            here.append(worker)
            moves = selector.add(worker)
            assert all((move.before, move.after) == (None, worker) for move in moves)
        for move in moves:
            for slot in range(move.start, move.end + 1):
                assert owners[slot] is move.before
                owners[slot] = move.after
        assert [selector.select(slot) for slot in range(70)] == owners[:70]
        assert selector.select(RANGE_SLOT_COUNT - 1) is None
        twin = selector.copy()
        assert [twin.select(slot) for slot in range(70)] == owners[:70]
        shown = [(piece, owner) for owner in here for piece in selector.ranges(owner)]
        assert sorted(shown, key=lambda each: each[0]) == selector.assignment()
        assert not any(left is None and right is None for left, right in pairwise(selector._owners))
