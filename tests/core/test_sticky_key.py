"""Keys, hashes and slots against the broker's own vectors (facts 1.1 to 1.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.sticky_key import (
    CONSISTENT_SLOT_COUNT,
    RANGE_SLOT_COUNT,
    consistent_slot,
    murmur31,
    range_slot,
)

MURMUR_VECTORS = {
    "k1": 2110152746,
    "k2": 1479966664,
    "key1": 462881061,
    "key2": 1936800180,
    "key01": 39696932,
    "key02": 751761803,
    "testMessageKey": 1623520226,
    "NONE_KEY": 504741539,
    "": 0,
}

SLOT_VECTORS = {
    "key1": (7357, 293),
    "key2": (44326, 14772),
    "k1": (56817, 24618),
    "k2": (55295, 32712),
    "testMessageKey": (21672, 62434),
    "0": (4850, 49279),
    "1": (49322, 44179),
    "2": (58177, 57879),
    "3": (45436, 41396),
    "4": (11707, 52360),
    "5": (35071, 13796),
    "6": (42171, 31936),
    "7": (43539, 34344),
    "8": (15786, 23),
    "9": (2862, 59041),
    "NONE_KEY": (56505, 48803),
    "": (1, 1),
}


@pytest.mark.parametrize(("key", "expected"), MURMUR_VECTORS.items())
def test_a_key_hashes_as_in_the_java_client(key: str, expected: int) -> None:
    """The 31-bit Murmur3 of a key is the number the client's HashTest asserts."""
    assert murmur31(key.encode()) == expected


@pytest.mark.parametrize(("key", "slots"), SLOT_VECTORS.items())
def test_a_key_has_the_brokers_slot_in_both_spaces(key: str, slots: tuple[int, int]) -> None:
    """A key's slot differs between the two spaces and is the broker's in each."""
    murmur = murmur31(key.encode())
    assert (consistent_slot(murmur), range_slot(murmur)) == slots


@given(st.binary())
def test_every_hash_has_31_bits_and_a_slot_other_than_zero(key: bytes) -> None:
    """Slot 0 means "hash not set" in the broker and never holds a key."""
    murmur = murmur31(key)
    assert 0 <= murmur < 1 << 31
    assert 1 <= consistent_slot(murmur) <= CONSISTENT_SLOT_COUNT
    assert 1 <= range_slot(murmur) < RANGE_SLOT_COUNT
