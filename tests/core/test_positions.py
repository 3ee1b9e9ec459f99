"""Packed positions order and print as pairs of ledger and entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.positions import (
    MAX_ENTRY,
    MAX_LEDGER,
    entry_of,
    format_position,
    is_packable,
    pack,
    unpack,
)

ledgers = st.one_of(st.integers(0, 5), st.integers(0, MAX_LEDGER))
entries = st.one_of(st.integers(-1, 5), st.integers(MAX_ENTRY - 5, MAX_ENTRY), st.integers(-1, MAX_ENTRY))
pairs = st.tuples(ledgers, entries)


@given(pairs)
def test_unpacking_gives_back_what_was_packed(pair: tuple[int, int]) -> None:
    """Nothing is lost, whatever the ledger and entry."""
    position = pack(*pair)
    assert unpack(position) == pair
    assert entry_of(position) == pair[1]


@given(pairs, pairs)
def test_packed_positions_compare_as_their_pairs(left: tuple[int, int], right: tuple[int, int]) -> None:
    """Order and equality are those of (ledger, entry), entry -1 included."""
    assert (pack(*left) < pack(*right)) == (left < right)
    assert (pack(*left) == pack(*right)) == (left == right)


@given(pairs)
def test_a_position_reads_back_from_its_text(pair: tuple[int, int]) -> None:
    """Ledger and entry stand in it, whatever they are."""
    ledger, entry = format_position(pack(*pair)).split(":")
    assert (int(ledger), int(entry)) == pair


@given(ledgers, st.integers(0, MAX_ENTRY))
def test_the_position_before_is_one_less(ledger: int, entry: int) -> None:
    """Within a ledger the position before an entry is the integer before it, down to entry -1."""
    assert pack(ledger, entry) - 1 == pack(ledger, entry - 1)


def test_before_the_first_entry_lies_above_every_entry_of_the_ledger_before() -> None:
    """4:-1 is above 3:n for every n that may be packed: the one that would coincide is out of bounds."""
    assert pack(3, MAX_ENTRY) < pack(4, -1) < pack(4, 0)


def test_positions_print_as_pulsar_prints_them() -> None:
    """Ledger and entry with a colon, -1 included."""
    assert format_position(pack(3, 5)) == "3:5"
    assert format_position(pack(4, -1)) == "4:-1"
    assert format_position(pack(0, -1)) == "0:-1"


@pytest.mark.parametrize("pair", [(-1, 0), (0, -2), (0, MAX_ENTRY + 1), (MAX_LEDGER + 1, 0)])
def test_numbers_out_of_bounds_are_not_packed(pair: tuple[int, int]) -> None:
    """What cannot keep the order is refused, and can be asked about beforehand."""
    assert not is_packable(*pair)
    with pytest.raises(AssertionError):
        pack(*pair)
