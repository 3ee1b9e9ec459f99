"""The slot table against a plain dictionary, in both of its forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proxy.core.slots import DENSE_THRESHOLD, MAX_HOLDER, NO_HOLDER, SLOT_COUNT, SlotTable

if TYPE_CHECKING:
    import random

PIP_379_BYTES = 5_000_000
ALLOWED_BYTES = PIP_379_BYTES // 4
slots = st.one_of(st.integers(0, 9), st.integers(SLOT_COUNT - 9, SLOT_COUNT - 1))


def dense_table() -> SlotTable:
    """Return a table that has just turned into arrays, with one unit of holder 7 in each slot from 10 up."""
    table = SlotTable()
    for slot in range(10, 10 + DENSE_THRESHOLD + 1):
        table.hold(slot, 7)
    return table


class TableAgainstDictionary(RuleBasedStateMachine):
    """Random holds and releases of a quiet table."""

    def __init__(self) -> None:
        """Start both empty."""
        super().__init__()
        self.table = self.new_table()
        self.model: dict[int, list[int]] = {
            slot: [holder, count] for slot, holder, count in self.table.in_range(0, SLOT_COUNT - 1)
        }

    def new_table(self) -> SlotTable:
        """Give the table to exercise."""
        return SlotTable()

    @rule(slot=slots, holder=st.sampled_from([1, 2, MAX_HOLDER]))
    def hold(self, slot: int, holder: int) -> None:
        """Hold for the present holder, or for the drawn one if the slot is free."""
        entry = self.model.setdefault(slot, [holder, 0])
        entry[1] += 1
        self.table.hold(slot, entry[0])

    @rule(slot=slots, holder=st.sampled_from([1, 2, MAX_HOLDER]), count=st.integers(1, 3))
    def take(self, slot: int, holder: int, count: int) -> None:
        """Only a slot that is free, or the holder's already, is taken."""
        entry = self.model.get(slot, [holder, 0])
        may = entry[0] == holder
        assert self.table.take(slot, holder, count) is may
        if may:
            self.model[slot] = [holder, entry[1] + count]

    @precondition(lambda self: self.model)
    @rule(choice=st.randoms(use_true_random=False))
    def release(self, choice: random.Random) -> None:
        """Release some slot that is held."""
        slot = choice.choice(sorted(self.model))
        self.model[slot][1] -= 1
        assert self.table.release(slot) == self.model[slot][1]
        if not self.model[slot][1]:
            del self.model[slot]

    @rule(start=slots, end=slots)
    def walk(self, start: int, end: int) -> None:
        """Walk some range, empty or not."""
        expected = [(slot, *self.model[slot]) for slot in sorted(self.model) if start <= slot <= end]
        assert list(self.table.in_range(start, end)) == expected

    @invariant()
    def agree(self) -> None:
        """Compare number of slots, holders and counts."""
        assert len(self.table) == len(self.model)
        for slot in (*range(12), *range(SLOT_COUNT - 10, SLOT_COUNT)):
            expected = self.model.get(slot, [NO_HOLDER, 0])
            assert [self.table.holder(slot), self.table.count(slot)] == expected


class ArraysAgainstDictionary(TableAgainstDictionary):
    """The same on a busy table."""

    def new_table(self) -> SlotTable:
        """Give a table that uses arrays."""
        return dense_table()


SHORT = settings(max_examples=40, stateful_step_count=40, deadline=None)
TableAgainstDictionary.TestCase.settings = SHORT
ArraysAgainstDictionary.TestCase.settings = SHORT
TestTableAgainstDictionary = TableAgainstDictionary.TestCase
TestArraysAgainstDictionary = ArraysAgainstDictionary.TestCase


@given(held=st.sets(st.integers(0, SLOT_COUNT - 1), max_size=50), busy_before=st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_table_keeps_what_it_holds_when_it_grows(held: set[int], *, busy_before: bool) -> None:
    """Turning into arrays, before or after, changes no answer."""
    table = dense_table() if busy_before else SlotTable()
    held -= set(range(10, 11 + DENSE_THRESHOLD))
    for slot in held:
        table.hold(slot, 1 + slot % MAX_HOLDER)
    if not busy_before:
        for slot in range(10, 11 + DENSE_THRESHOLD):
            table.hold(slot, 7)
    assert len(table) == len(held) + DENSE_THRESHOLD + 1
    assert all((table.holder(slot), table.count(slot)) == (1 + slot % MAX_HOLDER, 1) for slot in held)


def test_a_table_gives_its_arrays_back_when_nothing_is_in_flight() -> None:
    """The last release of a busy table returns it to its quiet form, which works as before."""
    table = dense_table()
    busy_bytes = table.memory_bytes()
    for slot in range(10, 11 + DENSE_THRESHOLD):
        assert table.release(slot) == 0
    assert len(table) == 0
    assert table.memory_bytes() < 1_000 < busy_bytes
    table.hold(10, 3)
    assert list(table.in_range(0, SLOT_COUNT - 1)) == [(10, 3, 1)]


def test_every_slot_may_drain_within_a_quarter_of_what_pip_379_allows() -> None:
    """With something in flight in every slot the table stays under 1.25 MB."""
    table = SlotTable()
    for slot in range(SLOT_COUNT):
        table.hold(slot, MAX_HOLDER)
    assert len(table) == SLOT_COUNT
    assert table.memory_bytes() <= ALLOWED_BYTES


def test_a_quiet_table_costs_less_than_the_arrays() -> None:
    """Up to the threshold the dictionary, estimated from above, is about as small as the arrays or smaller."""
    table = SlotTable()
    for slot in range(DENSE_THRESHOLD):
        table.hold(slot, 1)
    quiet_bytes = table.memory_bytes()
    table.hold(DENSE_THRESHOLD, 1)
    assert quiet_bytes < table.memory_bytes() * 1.1


def test_a_count_exceeds_sixteen_bits_in_both_forms() -> None:
    """A hot slot may have more units in flight than a 16-bit counter holds."""
    for table in (SlotTable(), dense_table()):
        for _ in range(70_000):
            table.hold(5, MAX_HOLDER)
        assert (table.holder(5), table.count(5)) == (MAX_HOLDER, 70_000)
        assert table.release(5) == 69_999


def test_a_walk_shows_the_state_at_its_start() -> None:
    """Slots may be held and released while a range is walked."""
    for table in (SlotTable(), dense_table()):
        table.hold(1, 1)
        table.hold(2, 1)
        walk = table.in_range(1, 3)
        table.release(2)
        table.hold(3, 1)
        assert list(walk) == [(1, 1, 1), (2, 1, 1)]


def test_a_second_holder_is_a_bug() -> None:
    """The contract of PIP-379: a slot in flight is at one worker only."""
    for table in (SlotTable(), dense_table()):
        table.hold(1, 1)
        with pytest.raises(AssertionError, match="slot 1 is held by 1, not by 2"):
            table.hold(1, 2)
        assert (table.holder(1), table.count(1)) == (1, 1)


def test_releasing_a_free_slot_is_a_bug() -> None:
    """Nothing is counted below zero."""
    for table in (SlotTable(), dense_table()):
        with pytest.raises(AssertionError, match="slot 1 is free"):
            table.release(1)
        assert table.count(1) == 0


def test_the_holder_is_a_worker() -> None:
    """Index 0 means nobody and holds nothing."""
    for table in (SlotTable(), dense_table()):
        with pytest.raises(AssertionError):
            table.hold(1, NO_HOLDER)
