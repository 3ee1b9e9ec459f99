"""Keys, hashes and slots against the broker's own vectors (facts 1.1 to 1.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.sticky_key import (
    CONSISTENT_SLOT_COUNT,
    NONE_KEY,
    RANGE_SLOT_COUNT,
    consistent_slot,
    murmur31,
    range_slot,
    sticky_key,
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


def key_of(
    *,
    ordering: bytes | None = None,
    partition: str | None = None,
    base64: bool = False,
    producer: str | None = None,
    sequence: int | None = None,
) -> bytes:
    """Return the sticky key of metadata with only these fields set."""
    return sticky_key(ordering, partition, base64, producer, sequence)


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


def test_the_ordering_key_wins_over_the_partition_key() -> None:
    """An ordering key decides even where a partition key exists."""
    assert key_of(ordering=b"\xff\x00", partition="key", producer="producer", sequence=1) == b"\xff\x00"


def test_an_empty_ordering_key_is_a_key() -> None:
    """Present and empty is not the same as absent."""
    assert key_of(ordering=b"", partition="key", producer="producer", sequence=1) == b""


def test_a_plain_partition_key_is_its_utf8_bytes() -> None:
    """Text keys are hashed as UTF-8."""
    assert key_of(partition="ключ") == "ключ".encode()


def test_an_empty_partition_key_is_a_key() -> None:
    """An empty string key hashes zero bytes and is not replaced by producer and sequence."""
    assert key_of(partition="", producer="producer", sequence=1) == b""


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("a2V5", b"key"),
        ("a2U=", b"ke"),
        ("aw==", b"k"),
        ("aw", b"k"),
        ("a2U", b"ke"),
        ("", b""),
        ("+/+/", b"\xfb\xff\xbf"),
    ],
)
def test_a_flagged_partition_key_is_decoded_with_or_without_padding(text: str, decoded: bytes) -> None:
    """Base64 keys are decoded as Java's basic decoder does, which lets padding be left out."""
    assert key_of(partition=text, base64=True) == decoded


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a2V5!",
        "a2 V5",
        "a2V5\n",
        "_-_-",
        "aw=",
        "aw==aw==",
        "=",
        "====",
        "a===",
        "a2V5=",
        "a2V5==",
        "a2V5====",
        "ключ",
    ],
)
def test_a_flagged_key_that_is_not_base64_becomes_none_key(text: str) -> None:
    """The broker catches its decoder's exception and takes the metadata for unreadable."""
    assert key_of(partition=text, base64=True, producer="producer", sequence=1) == NONE_KEY


def test_a_message_without_key_is_keyed_by_producer_and_sequence() -> None:
    """Keyless messages are spread over all workers (apache/pulsar 23219)."""
    assert key_of(producer="testProducer", sequence=1) == b"testProducer-1"


def test_a_sequence_above_63_bits_is_printed_signed() -> None:
    """The wire's unsigned sequence is a signed long in the broker, and its text is what gets hashed."""
    assert key_of(producer="p", sequence=(1 << 64) - 1) == b"p--1"


@pytest.mark.parametrize(("producer", "sequence"), [(None, None), ("p", None), (None, 1)])
def test_a_message_with_nothing_to_tell_it_apart_gets_none_key(producer: str | None, sequence: int | None) -> None:
    """Without key and without complete producer and sequence there is one key for all."""
    assert key_of(base64=True, producer=producer, sequence=sequence) == NONE_KEY == b"NONE_KEY"
