"""What holds for every selector, whatever its rule: the contract in `selectors/base.py`."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.selectors.auto_split import AutoSplit
from proxy.core.selectors.base import Selector
from proxy.core.selectors.consistent_hashing import ConsistentHashing
from proxy.core.selectors.sticky_ranges import StickyRanges
from proxy.core.sticky_key import range_slot
from tests.core.selectors.workers import FakeWorker, changed_slots, moved_slots, owners_by_slot, same_owners

NewSelector = Callable[[], Selector[FakeWorker]]

STICKY_WIDTH = 4_000

SELECTORS = {
    "consistent hashing": ConsistentHashing,
    "consistent hashing, few points": lambda: ConsistentHashing(3),
    "consistent hashing, slots of ranges": lambda: ConsistentHashing(slot=range_slot),
    "auto split": AutoSplit,
    "sticky ranges": StickyRanges,
}
every_selector = pytest.mark.parametrize("new_selector", SELECTORS.values(), ids=SELECTORS.keys())

scripts = st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=14)


def worker(number: int) -> FakeWorker:
    """Return a worker with one of three names and two sticky ranges of its own, one of them touching the next's."""
    start = number * STICKY_WIDTH
    return FakeWorker(f"c{number % 3}", [(start + 3_000, start + STICKY_WIDTH - 1), (start + 10, start + 2_000)])


@every_selector
@given(script=scripts)
@settings(max_examples=15, deadline=None)
def test_every_join_and_leave_keeps_the_contract(new_selector: NewSelector, script: list[tuple[bool, int]]) -> None:
    """Moves are the exact difference; select, ranges and assignment agree; all slots are covered unless sticky."""
    selector, present = new_selector(), dict[int, FakeWorker]()
    before = owners_by_slot(selector)
    for joins, number in script:
        if joins and number not in present:
            present[number] = worker(number)
            moves = selector.add(present[number])
        elif not joins and number in present:
            moves = selector.remove(present.pop(number))
        else:
            continue
        after = owners_by_slot(selector)
        assert moved_slots(moves) == changed_slots(before, after)
        assert all(map(is_, map(selector.select, after), after.values()))
        assert list(selector.select_each(after)) == list(after.values())
        if not isinstance(selector, StickyRanges):
            assert len(after) == (selector.range_size if present else 0)
        for member in present.values():
            in_ranges = {slot for start, end in selector.ranges(member) for slot in range(start, end + 1)}
            assert in_ranges - {65_536} == {slot for slot, owner in after.items() if owner is member}
        before = after


@every_selector
@given(numbers=st.lists(st.integers(0, 9), unique=True, min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_a_leave_after_a_join_restores_the_assignment(new_selector: NewSelector, numbers: list[int]) -> None:
    """The last to join may leave, and everything is as before, told by the moves in reverse."""
    selector = new_selector()
    *residents, last = [worker(number) for number in numbers]
    for resident in residents:
        selector.add(resident)
    before = owners_by_slot(selector)
    joined = moved_slots(selector.add(last))
    left = moved_slots(selector.remove(last))
    assert same_owners(owners_by_slot(selector), before)
    assert left == {slot: (after, earlier) for slot, (earlier, after) in joined.items()}


@every_selector
def test_an_empty_selector_has_no_owners(new_selector: NewSelector) -> None:
    """With nobody there, nobody is selected and nothing is assigned."""
    selector = new_selector()
    assert selector.assignment() == []
    assert all(selector.select(slot) is None for slot in (0, 1, 32_768, 65_535))
    assert selector.ranges(worker(0)) == []


@every_selector
def test_a_worker_that_is_not_here_cannot_leave(new_selector: NewSelector) -> None:
    """Removing a stranger moves nothing, even one that shares name and ranges with a member."""
    selector = new_selector()
    selector.add(worker(0))
    before = owners_by_slot(selector)
    assert selector.remove(worker(0)) == []
    assert same_owners(owners_by_slot(selector), before)
    assert selector.ranges(worker(0)) == []


@every_selector
def test_joining_twice_is_a_bug(new_selector: NewSelector) -> None:
    """A worker is a member once; a second join is refused before anything changes."""
    selector, member = new_selector(), worker(0)
    selector.add(member)
    before = owners_by_slot(selector)
    with pytest.raises(AssertionError, match="joined twice"):
        selector.add(member)
    assert same_owners(owners_by_slot(selector), before)


@every_selector
def test_a_copy_previews_a_leave_without_touching_the_original(new_selector: NewSelector) -> None:
    """The copy makes the moves the original would make, and the original stays."""
    selector = new_selector()
    members = [worker(number) for number in range(4)]
    for member in members:
        selector.add(member)
    before = owners_by_slot(selector)
    twin = selector.copy()
    assert same_owners(owners_by_slot(twin), before)
    preview = moved_slots(twin.remove(members[1]))
    twin.add(worker(7))
    assert same_owners(owners_by_slot(selector), before)
    assert moved_slots(selector.remove(members[1])) == preview


@every_selector
def test_slots_of_keys_lie_inside_the_space(new_selector: NewSelector) -> None:
    """Whatever the hash, its slot has a place in the selector's space, and slot 0 is never used."""
    selector = new_selector()
    first_slot = 65_536 - selector.range_size
    for murmur31 in (0, 1, 65_534, 65_535, 65_536, (1 << 31) - 1):
        assert max(first_slot, 1) <= selector.slot(murmur31) <= 65_535
