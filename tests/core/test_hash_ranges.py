"""Merging of ranges, and the difference between two assignments."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.hash_ranges import Assignment, HashRange, RangeMove, diff, merge, merge_assignment, merge_moves

SLOT_COUNT = 24
owners_by_slot = st.lists(st.sampled_from(["a", "b", None]), min_size=SLOT_COUNT, max_size=SLOT_COUNT)


def assignment_of(owners: list[str | None]) -> Assignment[str]:
    """Turn an owner per slot into merged ranges."""
    return merge_assignment((HashRange(slot, slot), owner) for slot, owner in enumerate(owners) if owner is not None)


@given(owners_by_slot, owners_by_slot)
def test_the_difference_names_exactly_the_slots_whose_owner_changed(
    before: list[str | None], after: list[str | None]
) -> None:
    """Every changed slot is in one move with both owners, and no other slot is in any."""
    moves = diff(assignment_of(before), assignment_of(after))
    listed = {slot: (move.before, move.after) for move in moves for slot in range(move.start, move.end + 1)}
    changed = {slot: pair for slot, pair in enumerate(zip(before, after, strict=True)) if pair[0] is not pair[1]}
    assert listed == changed


@given(owners_by_slot, owners_by_slot)
def test_moves_are_sorted_and_merged(before: list[str | None], after: list[str | None]) -> None:
    """Neighbouring moves with the same owners on both sides are one move."""
    moves = diff(assignment_of(before), assignment_of(after))
    for move, following in pairwise(moves):
        assert move.end < following.start
        same_owners = (move.before, move.after) == (following.before, following.after)
        assert not (same_owners and move.end + 1 == following.start)


@given(st.sets(st.integers(0, SLOT_COUNT)))
def test_merged_ranges_hold_the_same_slots_with_gaps_between(slots: set[int]) -> None:
    """Merging loses no slot, adds none, and leaves no two neighbours."""
    merged = merge(HashRange(slot, slot) for slot in sorted(slots))
    assert {slot for start, end in merged for slot in range(start, end + 1)} == slots
    assert sum(piece.slot_count for piece in merged) == len(slots)
    assert all(left.end + 1 < right.start for left, right in pairwise(merged))


def test_overlapping_ranges_merge_to_their_union() -> None:
    """A range inside another one vanishes; one that reaches further extends it."""
    ranges = [HashRange(0, 9), HashRange(2, 3), HashRange(9, 12), HashRange(14, 15)]
    assert merge(ranges) == [HashRange(0, 12), HashRange(14, 15)]


def test_ranges_overlap_when_they_share_a_slot() -> None:
    """Bounds are inclusive on both sides."""
    assert HashRange(0, 9).overlaps(HashRange(9, 20))
    assert HashRange(9, 20).overlaps(HashRange(0, 9))
    assert not HashRange(0, 9).overlaps(HashRange(10, 20))


def test_adjacent_ranges_of_two_namesakes_stay_apart() -> None:
    """Owners are told apart by identity, whatever they compare equal to."""
    first, second = ["same"], ["same"]
    pieces = [(HashRange(0, 4), first), (HashRange(5, 9), second)]
    assert merge_assignment(pieces) == pieces
    assert diff([(HashRange(0, 4), first)], [(HashRange(0, 4), second)]) == [RangeMove(0, 4, first, second)]


def test_a_move_that_changes_nothing_is_dropped() -> None:
    """A range whose owner stays is no move."""
    assert merge_moves([RangeMove(0, 4, "a", "a"), RangeMove(5, 9, "a", None)]) == [RangeMove(5, 9, "a", None)]


def test_a_range_turns_into_the_brokers_json() -> None:
    """`keyHashRangeArrays` holds arrays of two numbers, and error messages show the same."""
    assert json.dumps([HashRange(1, 1031)]) == "[[1, 1031]]"
    assert str(HashRange(1, 1031)) == "[1, 1031]"
