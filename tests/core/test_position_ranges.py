"""The range set against a plain set of positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.position_ranges import PositionRanges
from proxy.core.positions import MAX_ENTRY, Position, pack

MANY = 16_384
"""Ranges: more than any test here has."""

positions = st.builds(pack, st.integers(3, 5), st.integers(0, 12))


def filled(*entries: int, max_ranges: int = 100) -> PositionRanges:
    """Return the entries of ledger 3, added in this order."""
    ranges = PositionRanges(max_ranges)
    for entry in entries:
        ranges.add(pack(3, entry))
    return ranges


def runs(members: set[Position]) -> list[tuple[Position, Position]]:
    """Return the maximal runs of neighbouring members."""
    found: list[tuple[Position, Position]] = []
    for member in sorted(members):
        if found and found[-1][1] + 1 == member:
            found[-1] = (found[-1][0], member)
        else:
            found.append((member, member))
    return found


@given(st.lists(positions, max_size=60))
def test_the_ranges_are_the_runs_of_a_plain_set(added: list[Position]) -> None:
    """After any additions the ranges hold the set's members, merged as far as can be."""
    ranges, model = PositionRanges(MANY), set[Position]()
    for position in added:
        ranges.add(position)
        model.add(position)
        assert list(ranges) == runs(model)
        assert len(ranges) == len(runs(model))
        below = max((member for member in model if member < position), default=None)
        assert ranges.last_below(position) == below
    assert all(
        (pack(ledger, entry) in ranges) == (pack(ledger, entry) in model) for ledger in (3, 5) for entry in range(14)
    )


@given(st.lists(positions, max_size=30), st.lists(positions, max_size=30), st.integers(1, 40))
def test_many_at_once_are_as_one_by_one(before: list[Position], added: list[Position], max_ranges: int) -> None:
    """Whatever was there before, and however few ranges are kept."""
    one_by_one, at_once = PositionRanges(max_ranges), PositionRanges(max_ranges)
    for position in [*before, *sorted(added)]:
        one_by_one.add(position)
    for position in before:
        at_once.add(position)
    at_once.add_each(sorted(added))
    assert list(at_once) == list(one_by_one)


@given(st.lists(positions, max_size=60), st.integers(1, 6))
def test_too_many_ranges_forget_the_lowest(added: list[Position], max_ranges: int) -> None:
    """The bound holds at all times; what is lost is the lowest range."""
    ranges, model = PositionRanges(max_ranges), set[Position]()
    for position in added:
        ranges.add(position)
        model.add(position)
        if len(runs(model)) > max_ranges:
            _, last = runs(model)[0]
            model = {member for member in model if member > last}
        assert len(ranges) <= max_ranges
        assert list(ranges) == runs(model)


def test_many_ranges_are_forgotten_a_64th_at_a_time() -> None:
    """At a large bound the lowest go in a group, so that one addition does not shift the whole list each time."""
    ranges = filled(*range(0, 2 * 641, 2), max_ranges=640)
    assert len(ranges) == 631
    assert pack(3, 18) not in ranges
    assert pack(3, 20) in ranges


def test_the_middle_position_joins_both_neighbours() -> None:
    """The addition that closes a gap leaves one range of two."""
    assert list(filled(1, 3, 2)) == [(pack(3, 1), pack(3, 3))]


def test_positions_of_two_ledgers_are_two_ranges() -> None:
    """The last entry of a ledger and the first of the next are no neighbours."""
    ranges = PositionRanges(MANY)
    ranges.add(pack(3, MAX_ENTRY))
    ranges.add(pack(4, 0))
    assert len(ranges) == 2


def test_clearing_leaves_an_empty_set_that_works() -> None:
    """After `clear` nothing is a member, and positions may be added again."""
    ranges = filled(1, 2, 5)
    ranges.clear()
    assert (len(ranges), list(ranges)) == (0, [])
    assert pack(3, 1) not in ranges
    ranges.add(pack(3, 1))
    assert pack(3, 1) in ranges


def test_a_set_of_no_ranges_is_refused() -> None:
    """A bound below one could hold nothing at all."""
    with pytest.raises(AssertionError):
        PositionRanges(0)


@given(st.lists(positions, max_size=30), st.lists(positions, max_size=30), st.integers(1, 30))
def test_two_sets_are_joined(mine: list[Position], others: list[Position], max_ranges: int) -> None:
    """As if each member of the other were added; the lowest ranges are forgotten where there are too many."""
    ranges, other = PositionRanges(max_ranges), PositionRanges(MANY)
    for position in mine:
        ranges.add(position)
    for position in others:
        other.add(position)
    joined = runs({position for start, end in [*ranges, *other] for position in range(start, end + 1)})
    ranges.update(other)
    assert list(ranges) == joined[-max_ranges:]
