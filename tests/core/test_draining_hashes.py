"""The table of draining hashes against a plain dictionary."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core import draining_hashes
from proxy.core.draining_hashes import CHANGES_MAX, SPARSE_MAX, Change, DrainingHashes

slot_sets = st.sets(st.integers(0, 65_536), max_size=30)


def change_at(number: int) -> Change:
    """A worker's coming at that moment."""
    return Change(float(number), f"w{number}", joined=True)


@given(steps=st.lists(st.tuples(slot_sets, slot_sets), max_size=20))
def test_it_says_which_slots_drain_and_since_when(steps: list[tuple[set[int], set[int]]]) -> None:
    """Slots begin with a membership change and end one by one; the first change of a slot counts."""
    table, since = DrainingHashes(), dict[int, int]()
    for number, (begun, ended) in enumerate(steps):
        change = table.new_change(change_at(number))
        assert table.begin(sorted(begun), change) == len(begun - since.keys())
        for slot in begun:
            since.setdefault(slot, number)
        table.end_of_change(change)
        for slot in ended:
            began = since.pop(slot, None)
            assert table.end(slot) == (None if began is None else change_at(began))
        assert list(table.slots()) == sorted(since)
        assert len(table) == len(since)
        assert all(slot in table and table.since(slot) == began for slot, began in since.items())


@settings(max_examples=20)
@given(gone=st.sets(st.integers(0, 3 * SPARSE_MAX), max_size=50))
def test_the_dense_form_says_the_same(gone: set[int]) -> None:
    """Above the threshold an array takes over, with everything that was in the dictionary."""
    table = DrainingHashes()
    for number in (1, 2, 3):
        change = table.new_change(change_at(number))
        assert table.begin(range(number * SPARSE_MAX), change) == SPARSE_MAX
        assert (table.memory_bytes() > 2 * 65_536) == (number > 1)
    for slot in gone:
        assert table.end(slot) == (change_at(slot // SPARSE_MAX + 1) if slot < 3 * SPARSE_MAX else None)
    assert list(table.slots()) == [slot for slot in range(3 * SPARSE_MAX) if slot not in gone]


def test_when_nothing_drains_nothing_is_kept() -> None:
    """Neither array nor changes stay behind after the last slot ended."""
    table = DrainingHashes()
    table.begin(range(5_000), table.new_change(change_at(0)))
    for slot in range(5_000):
        table.end(slot)
    assert table.memory_bytes() == len(table) == 0
    assert table.end(1) is None
    assert table.since(1) is None


def test_a_change_that_moved_nothing_is_forgotten() -> None:
    """A million joins of an idle subscription leave no trace."""
    table = DrainingHashes()
    for number in range(200_000):
        table.end_of_change(table.new_change(change_at(number)))
    assert not table._changes


def test_more_changes_than_numbers_share_one() -> None:
    """Should 65,535 changes all have slots that drain, one more is taken for one of them: times err, counts do not."""
    table = DrainingHashes()
    slots = draining_hashes.SLOT_COUNT - 2
    for slot in range(slots):
        change = table.new_change(change_at(slot))
        table.begin([slot], change)
        table.end_of_change(change)
        if slot >= CHANGES_MAX - 1:
            break
    extra = table.new_change(change_at(9_000_000_000))
    assert table.begin([slots], extra)
    table.end_of_change(extra)
    count = len(table)
    assert table.end(slots) is not None
    assert len(table) == count - 1
    for slot in list(table.slots()):
        assert table.end(slot) is not None
    assert len(table) == 0
