"""Protobuf's integers by hand: held against protobuf's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.wire.pulsar_pb2 import MessageIdData
from proxy.wire.varints import LIMIT, NINE_BYTES, nine_bytes, varint, varint_size

FIELD_BYTES = 1
"""What names the field: its number and its type."""


def by_protobuf(value: int) -> bytes:
    """A field's value without what names the field."""
    return MessageIdData(ledgerId=value).SerializePartialToString()[FIELD_BYTES:]


powers = st.integers(0, 63).map(lambda exponent: 1 << exponent)
values = st.one_of(st.integers(0, LIMIT - 1), powers, powers.map(lambda power: power - 1))


@given(values)
@example(LIMIT - 1)
def test_a_number_is_written_as_protobuf_writes_it_and_its_size_is_known_before(value: int) -> None:
    """Of each size, up to ten bytes."""
    assert varint(value) == by_protobuf(value)
    assert varint_size(value) == len(by_protobuf(value))


@given(st.integers(NINE_BYTES, (LIMIT >> 1) - 1))
def test_nine_bytes_are_written_as_protobuf_writes_them(value: int) -> None:
    """They are what ids of slices take."""
    assert nine_bytes(value) == by_protobuf(value)


@pytest.mark.parametrize("value", [-1, LIMIT, -LIMIT])
@pytest.mark.parametrize("way", [varint, varint_size])
def test_what_fits_no_field_is_refused_with_the_number(way: Callable[[int], object], value: int) -> None:
    """And is not written in part."""
    with pytest.raises(ValueError, match=f"{value} does not fit an unsigned 64-bit integer"):
        way(value)
