"""Auto-split ranges as the broker splits and merges them (facts 2.3)."""

from __future__ import annotations

import pytest

from proxy.core.errors import ConsumerAssignError
from proxy.core.hash_ranges import HashRange, RangeMove
from proxy.core.selectors.auto_split import AutoSplit
from tests.core.selectors.workers import FakeWorker


def joined(*names: str) -> tuple[AutoSplit[FakeWorker], dict[str, FakeWorker]]:
    """Return a selector with workers of these names, joined in this order."""
    selector: AutoSplit[FakeWorker] = AutoSplit()
    workers = {name: FakeWorker(name) for name in names}
    for worker in workers.values():
        selector.add(worker)
    return selector, workers


def shown(selector: AutoSplit[FakeWorker], workers: dict[str, FakeWorker]) -> dict[str, list[HashRange]]:
    """Return what stats show."""
    return {name: selector.ranges(worker) for name, worker in workers.items()}


def test_the_first_worker_is_shown_with_the_brokers_upper_bound() -> None:
    """One worker owns [0, 65536] in stats, as in the broker, and slots 0 to 65535 in the assignment."""
    selector, workers = joined("a")
    assert shown(selector, workers) == {"a": [HashRange(0, 65_536)]}
    assert selector.assignment() == [(HashRange(0, 65_535), workers["a"])]


def test_a_newcomer_takes_the_lower_half_of_the_widest_range() -> None:
    """The lowest of equally wide ranges is split, and the newcomer is below the one it splits."""
    selector, workers = joined("a", "b", "c", "d", "e")
    assert shown(selector, workers) == {
        "a": [HashRange(49_153, 65_536)],
        "b": [HashRange(16_385, 32_768)],
        "c": [HashRange(8_193, 16_384)],
        "d": [HashRange(32_769, 49_152)],
        "e": [HashRange(0, 8_192)],
    }


def test_a_leavers_range_goes_to_its_upper_neighbour() -> None:
    """With the upper bound gone the next higher range reaches down."""
    selector, workers = joined("a", "b", "c")
    moves = selector.remove(workers["c"])
    assert moves == [RangeMove(0, 16_384, workers["c"], workers["b"])]
    assert moves[0].after is workers["b"]
    assert selector.ranges(workers["b"]) == [HashRange(0, 32_768)]


def test_the_topmost_range_goes_to_its_lower_neighbour() -> None:
    """There is no upper neighbour, so the lower one reaches up."""
    selector, workers = joined("a", "b", "c")
    moves = selector.remove(workers["a"])
    assert [(move.start, move.end) for move in moves] == [(32_769, 65_535)]
    assert moves[0].after is workers["b"]
    assert selector.ranges(workers["b"]) == [HashRange(16_385, 65_536)]


def test_the_last_worker_leaves_nothing() -> None:
    """After it nobody owns a slot, and the next one owns all."""
    selector, workers = joined("a")
    assert selector.remove(workers["a"]) == [RangeMove(0, 65_535, workers["a"], None)]
    assert selector.select(1) is None
    selector.add(workers["a"])
    assert selector.ranges(workers["a"]) == [HashRange(0, 65_536)]


def test_a_range_of_one_slot_is_not_split() -> None:
    """When the widest range is one wide a newcomer is refused with the broker's words, and nothing changes."""
    selector: AutoSplit[FakeWorker] = AutoSplit(4)
    for number in range(4):
        selector.add(FakeWorker(f"w{number}"))
    before = selector.assignment()
    with pytest.raises(ConsumerAssignError, match="No more range can assigned to new consumer, assigned consumers 4"):
        selector.add(FakeWorker("late"))
    assert [piece for piece, _ in selector.assignment()] == [piece for piece, _ in before]


@pytest.mark.parametrize("range_size", [0, 1, 3, 65_535])
def test_the_space_is_a_power_of_two(range_size: int) -> None:
    """Halving needs it, so anything else is a bug."""
    with pytest.raises(AssertionError):
        AutoSplit(range_size)
