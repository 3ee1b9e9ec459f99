"""What of the broker's entries is news, and what of our acks it has taken."""

from __future__ import annotations

from proxy.core.entry import PART_BYTES, Batch, Part
from proxy.core.outstanding import CONFIRMED_FOLD_AT, Outstanding, size_of


def entry(position: int) -> Part:
    """An unbatched message of ten bytes."""
    return Part(position, 1, 1, b"x" * 10, 0, 0.0)


def add(outstanding: Outstanding, *positions: int) -> None:
    """Entries arrive."""
    for position in positions:
        part = entry(position)
        outstanding.add(position, part, size_of(part))


def complete(outstanding: Outstanding, *positions: int) -> None:
    """Entries are acknowledged."""
    for position in positions:
        outstanding.complete(position, size_of(outstanding.entries[position]))


def test_a_position_is_in_one_of_four_places() -> None:
    """Unknown, outstanding, acknowledged but unconfirmed, confirmed: only the first is news."""
    outstanding = Outstanding()
    assert not outstanding.is_repeat(5, 0)
    add(outstanding, 5)
    assert outstanding.is_repeat(5, 0)
    complete(outstanding, 5)
    assert outstanding.unconfirmed == {5}
    assert outstanding.is_repeat(5, 0)
    outstanding.confirmed([5])
    assert outstanding.unconfirmed == set()
    assert outstanding.was_confirmed(5)
    assert outstanding.is_repeat(5, 0)
    assert outstanding.repeated == 3


def test_a_repeat_of_what_is_acknowledged_is_acknowledged_again() -> None:
    """Once as unconfirmed and once as confirmed; it counts as unconfirmed afterwards."""
    outstanding = Outstanding()
    add(outstanding, 5)
    complete(outstanding, 5)
    outstanding.acks.clear()
    outstanding.confirmed([5])
    outstanding.is_repeat(5, 0)
    assert outstanding.acks == [5]
    assert outstanding.unconfirmed == {5}


def test_a_repeat_of_what_is_held_is_not_acknowledged() -> None:
    """It raises the redelivery count to the broker's and does nothing else."""
    outstanding = Outstanding()
    part = entry(5)
    part.redeliveries = 2
    outstanding.add(5, part, 1)
    outstanding.is_repeat(5, 1)
    assert part.redeliveries == 2
    outstanding.is_repeat(5, 7)
    assert part.redeliveries == 7
    assert outstanding.acks == []


def test_bytes_held_go_up_and_down_with_the_entries() -> None:
    """Each entry costs its bytes and a part's overhead, and gives both back."""
    outstanding = Outstanding()
    add(outstanding, 1, 2)
    assert outstanding.bytes_held == 2 * (10 + PART_BYTES)
    complete(outstanding, 1)
    outstanding.discard(2, 10 + PART_BYTES)
    assert outstanding.bytes_held == 0


def test_a_discarded_entry_is_neither_acknowledged_nor_remembered() -> None:
    """Nor are acks of single messages of it; should the broker send it after all, it is news."""
    outstanding = Outstanding()
    add(outstanding, 5)
    outstanding.index_acks[5] = Batch(5, b"", 2)
    outstanding.discard(5, 10 + PART_BYTES)
    assert outstanding.acks == []
    assert outstanding.index_acks == {}
    assert not outstanding.is_repeat(5, 0)


def test_confirmations_of_what_we_never_acknowledged_are_ignored() -> None:
    """A late answer after a reset must not make entries look acknowledged."""
    outstanding = Outstanding()
    outstanding.confirmed([1, 2, 3])
    assert not outstanding.was_confirmed(2)
    assert not outstanding.is_repeat(2, 0)


def test_confirmed_positions_are_remembered_when_they_are_folded() -> None:
    """Many of them, confirmed in any order, before and after they were gathered into ranges."""
    outstanding = Outstanding()
    positions = [*range(CONFIRMED_FOLD_AT * 2, 0, -2), *range(1, 1_000, 2)]
    add(outstanding, *positions)
    complete(outstanding, *positions)
    for start in range(0, len(positions), 1_000):
        outstanding.confirmed(positions[start : start + 1_000])
    assert all(outstanding.was_confirmed(position) for position in positions)
    assert not outstanding.was_confirmed(1_001)


def test_what_the_broker_closed_us_for_is_forgotten() -> None:
    """Confirmed positions are news again; unconfirmed ones are not."""
    outstanding = Outstanding()
    add(outstanding, 1, 2)
    complete(outstanding, 1, 2)
    outstanding.confirmed([1])
    outstanding.forget_confirmed()
    assert not outstanding.is_repeat(1, 0)
    assert outstanding.is_repeat(2, 0)


def test_what_was_shelved_comes_back_if_it_was_lost() -> None:
    """With what was confirmed since; what was moved is gone for good."""
    outstanding = Outstanding()
    add(outstanding, *range(1, 7))
    complete(outstanding, *range(1, 7))
    outstanding.confirmed([1, 2, 5])
    outstanding.shelve_confirmed()
    outstanding.confirmed([4])
    outstanding.shelve_confirmed()
    assert not any(outstanding.was_confirmed(position) for position in range(7))
    outstanding.confirmed([3])
    outstanding.unshelve_confirmed()
    assert [position for position in range(8) if outstanding.was_confirmed(position)] == [1, 2, 3, 4, 5]
    outstanding.shelve_confirmed()
    outstanding.forget_shelved()
    outstanding.unshelve_confirmed()
    assert not any(outstanding.was_confirmed(position) for position in range(7))


def test_a_reset_leaves_nothing() -> None:
    """Not even the highest position."""
    outstanding = Outstanding()
    add(outstanding, 1, 2)
    complete(outstanding, 1)
    outstanding.reset()
    assert outstanding.highest == -1
    assert outstanding.bytes_held == 0
    assert not outstanding.entries
    assert not outstanding.acks
    assert not outstanding.unconfirmed
    assert not outstanding.is_repeat(1, 0)
