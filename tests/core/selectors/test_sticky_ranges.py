"""Sticky exclusive ranges: validation, conflicts and holes (facts 2.4)."""

from __future__ import annotations

import re
import time

import pytest

from proxy.core.errors import ConsumerAssignError
from proxy.core.hash_ranges import HashRange, RangeMove
from proxy.core.selectors.sticky_ranges import StickyRanges
from tests.core.selectors.workers import FakeWorker


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
    slots = range(0, 32_768, 2)
    odd = FakeWorker("odd", [(slot + 1, slot + 1) for slot in slots])
    even = FakeWorker("even", [(slot, slot) for slot in slots])
    selector: StickyRanges[FakeWorker] = StickyRanges()
    selector.add(odd)
    began = time.thread_time()
    assert selector.in_the_way(even.sticky_ranges) is None
    selector.add(even)
    assert time.thread_time() - began < 1.5
    assert (selector.select(0), selector.select(1)) == (even, odd)
