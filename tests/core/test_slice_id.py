"""Ids of slices: content, order, and never the same for two that are out together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.delivery_key import delivery_key, slice_key, wire_id
from proxy.core.positions import pack
from proxy.core.slice_id import (
    ENTRY_BITS,
    SLICED_MESSAGES_MAX,
    original_entry,
    slice_id,
    sliceable,
)

entries = st.integers(0, (1 << ENTRY_BITS) - 1)
indexes = st.sets(st.integers(0, SLICED_MESSAGES_MAX - 1), min_size=1, max_size=20).map(lambda s: tuple(sorted(s)))
JAVA_LONG_MAX = (1 << 63) - 1


@given(entry=entries, wanted=indexes)
def test_an_id_is_made_of_its_content_and_fits_a_clients_number(entry: int, wanted: tuple[int, ...]) -> None:
    """The same messages always have the same id; it is positive in 64 bits, and tells its entry."""
    made = slice_id(entry, wanted)
    assert made == slice_id(entry, list(wanted))
    assert 0 < made <= JAVA_LONG_MAX
    assert original_entry(made) == entry


@given(entry=entries)
def test_a_real_entry_is_no_slice(entry: int) -> None:
    """Its id is its own."""
    assert original_entry(entry) == entry


@given(entry=entries, first=indexes, second=indexes)
def test_slices_that_share_no_message_have_different_ids(
    entry: int, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    """Not merely in all likelihood: whatever is out at the same time can be told apart."""
    if set(first).isdisjoint(second):
        assert slice_id(entry, first) != slice_id(entry, second)


def test_every_message_of_the_longest_batch_has_its_own_id() -> None:
    """Cut into single messages, a batch gives as many ids as messages, ascending."""
    ids = [slice_id(7, (index,)) for index in range(SLICED_MESSAGES_MAX)]
    assert ids == sorted(set(ids))


def test_slices_that_begin_alike_differ_by_their_digest() -> None:
    """A slice that was cut anew, longer or shorter, is called otherwise."""
    ids = {slice_id(7, tuple(range(size))) for size in range(1, 1_001)}
    assert len(ids) == 1_000


@given(ledger=st.integers(0, (1 << 62) - 1), entry=entries, wanted=indexes)
def test_a_key_and_what_the_client_says_are_the_same(ledger: int, entry: int, wanted: tuple[int, ...]) -> None:
    """The pending key of a slice, sent to a client as (ledger, entry), comes back as the same key."""
    key = slice_key(pack(ledger, entry), wanted)
    assert key < 0
    assert delivery_key(*wire_id(key), position=-1) == key
    whole = slice_key(pack(ledger, entry), None)
    assert wire_id(whole) == (ledger, entry)
    assert delivery_key(ledger, entry, whole) == whole


@pytest.mark.parametrize(
    ("entry", "messages", "possible"),
    [
        (0, 1, True),
        ((1 << ENTRY_BITS) - 1, SLICED_MESSAGES_MAX, True),
        (1 << ENTRY_BITS, 1, False),
        (0, SLICED_MESSAGES_MAX + 1, False),
        (-1, 1, False),
    ],
)
def test_what_has_no_room_is_said_to_have_none(entry: int, messages: int, possible: bool) -> None:  # noqa: FBT001 - expected
    """Too high an entry, or too long a batch."""
    assert sliceable(entry, messages) == possible


def test_an_id_that_has_no_room_is_never_made() -> None:
    """An id that could be another's would be worse than none."""
    for entry, wanted in ((1 << ENTRY_BITS, (0,)), (1, (SLICED_MESSAGES_MAX,)), (1, ())):
        with pytest.raises(AssertionError):
            slice_id(entry, wanted)
