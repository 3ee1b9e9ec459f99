"""What stands between a MESSAGE command and the payload."""

import struct
from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.errors import MetadataError
from proxy.wire.metadata import (
    NONE_KEY,
    build_tail,
    can_peek,
    decode_key,
    keyless,
    peek,
    peek_key,
    sticky_key,
    strip_broker_entry_metadata,
    verify_checksum,
)
from proxy.wire.pulsar_pb2 import BrokerEntryMetadata, MessageMetadata
from tests.wire.builders import UNKNOWN_FIELD, metadata_of

METADATA = metadata_of(partition_key=b"alice", num_messages_in_batch=3)
ENCODED = METADATA.SerializeToString()
PLAIN = struct.pack(">I", len(ENCODED)) + ENCODED + b"payload"
WITH_CHECKSUM = b"\x0e\x01" + struct.pack(">I", crc32c(PLAIN)) + PLAIN
BROKER_ENTRY = BrokerEntryMetadata(broker_timestamp=5, index=9).SerializeToString()
BROKER_HEADER = b"\x0e\x02" + struct.pack(">I", len(BROKER_ENTRY)) + BROKER_ENTRY
TAILS = [PLAIN, WITH_CHECKSUM, BROKER_HEADER + PLAIN, BROKER_HEADER + WITH_CHECKSUM]


@pytest.mark.parametrize("tail", TAILS)
def test_metadata_is_found_behind_any_headers(tail: bytes) -> None:
    """Metadata and payload are found with and without a checksum, with and without broker entry metadata."""
    metadata, start, payload_start = peek(tail)
    assert metadata == METADATA
    assert tail[start:payload_start] == ENCODED
    assert tail[payload_start:] == b"payload"


@pytest.mark.parametrize("tail", TAILS)
def test_no_truncated_headers_are_believed(tail: bytes) -> None:
    """Every prefix that ends before the payload is refused by every reader that needs more, with a MetadataError."""
    _, _, payload_start = peek(tail)
    for size in range(payload_start):
        with pytest.raises(MetadataError):
            peek(tail[:size])
        for read in (verify_checksum, strip_broker_entry_metadata):
            with suppress(MetadataError):
                read(tail[:size])


@pytest.mark.parametrize("tail", TAILS)
def test_a_size_past_the_end_is_refused(tail: bytes) -> None:
    """A metadata size or broker header size that goes past the tail is refused, up to the largest there is."""
    at = len(tail) - len(PLAIN)
    for size in (len(PLAIN) - 3, 1 << 31, (1 << 32) - 1):
        with pytest.raises(MetadataError, match="at most"):
            peek(tail[:at] + struct.pack(">I", size) + tail[at + 4 :])
        if tail.startswith(BROKER_HEADER):
            lying = tail[:2] + struct.pack(">I", max(size, len(tail) - 5)) + tail[6:]
            for read in (peek, verify_checksum, strip_broker_entry_metadata):
                with pytest.raises(MetadataError, match="at most"):
                    read(lying)


@given(st.binary(max_size=80), st.sampled_from([b"", b"\x0e\x01", b"\x0e\x02", b"\x0e\x02\x00\x00\x00\x00\x0e\x01"]))
def test_random_bytes_give_metadata_or_a_metadata_error(data: bytes, magic: bytes) -> None:
    """Whatever stands in a tail, its readers give a value or a MetadataError."""
    for read in (peek, verify_checksum, strip_broker_entry_metadata):
        with suppress(MetadataError):
            read(magic + data)


def read_in_two_steps(tail: bytes) -> tuple[MessageMetadata, bytes, int] | str:
    """What `peek_key` is to say, from the parts it puts together; the words of the error if there is one."""
    try:
        metadata, _, payload_start = peek(tail)
    except MetadataError as error:
        return str(error)
    return metadata, sticky_key(metadata), payload_start


def read_at_once(tail: bytes) -> tuple[MessageMetadata, bytes, int] | str:
    """What `peek_key` says."""
    try:
        return peek_key(tail)
    except MetadataError as error:
        return str(error)


@given(
    st.sampled_from([None, b"", b"key", b"a2V5", b"not base64"]),
    st.sampled_from([None, b"", b"ordering"]),
    st.sampled_from([None, False, True]),
    st.sampled_from([0, 1, (1 << 64) - 1]),
    st.sampled_from([b"", BROKER_HEADER, None]),
    st.data(),
)
def test_reading_at_once_says_what_reading_in_steps_says(
    key: bytes | None,
    ordering: bytes | None,
    b64: bool | None,  # noqa: FBT001 - drawn
    sequence: int,
    headers: bytes | None,
    data: st.DataObject,
) -> None:
    """Metadata, key and payload, or the same error, for every layout, whole or cut anywhere or with a byte changed."""
    fields = {"partition_key": key, "ordering_key": ordering, "partition_key_b64_encoded": b64}
    metadata = metadata_of(sequence_id=sequence, **{name: one for name, one in fields.items() if one is not None})
    whole = build_tail(metadata, b"payload")
    whole = whole[6:] if headers is None else headers + whole  # very old producers write no checksum
    assert read_at_once(whole) == read_in_two_steps(whole)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    assert read_at_once(cut) == read_in_two_steps(cut)
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    assert read_at_once(bytes(changed)) == read_in_two_steps(bytes(changed))


@pytest.mark.parametrize("field", ["producer_name", "sequence_id", "publish_time"])
def test_metadata_without_a_required_field_is_refused(field: str) -> None:
    """A missing field is refused by name, a zero or empty one that is present is not."""
    zero = metadata_of(producer_name=b"", sequence_id=0, publish_time=0)
    assert peek(build_tail(zero, b"")).metadata == zero
    zero.ClearField(field)
    encoded = zero.SerializePartialToString()
    with pytest.raises(MetadataError, match=field):
        peek(struct.pack(">I", len(encoded)) + encoded)


def test_a_checksum_covers_metadata_and_payload_and_nothing_before() -> None:
    """Any changed bit behind the checksum is noticed; the broker's own header is not covered; none at all is right."""
    for tail in (WITH_CHECKSUM, BROKER_HEADER + WITH_CHECKSUM):
        assert verify_checksum(tail)
        for at in range(len(tail) - len(PLAIN) - 4, len(tail)):
            assert not verify_checksum(tail[:at] + bytes((tail[at] ^ 1,)) + tail[at + 1 :])
    assert verify_checksum(PLAIN)
    assert verify_checksum(BROKER_HEADER + PLAIN)


def test_broker_entry_metadata_is_cut_off_and_nothing_else() -> None:
    """For a client that did not ask for it the rest of the tail stays as it is, and a tail without it is not copied."""
    assert strip_broker_entry_metadata(BROKER_HEADER + WITH_CHECKSUM) == WITH_CHECKSUM
    assert strip_broker_entry_metadata(WITH_CHECKSUM) is WITH_CHECKSUM
    assert strip_broker_entry_metadata(PLAIN) is PLAIN


@given(st.binary(max_size=100))
def test_a_built_tail_reads_back(payload: bytes) -> None:
    """A tail made here has a right checksum and the metadata and payload it was made of, unknown fields included."""
    metadata = MessageMetadata.FromString(ENCODED + UNKNOWN_FIELD)
    tail = build_tail(metadata, payload)
    assert verify_checksum(tail)
    found, start, payload_start = peek(tail)
    assert found == metadata
    assert UNKNOWN_FIELD in tail[start:payload_start]
    assert tail[payload_start:] == payload


def test_encrypted_entries_cannot_be_peeked() -> None:
    """An entry with encryption keys is closed to the gateway, any other is open."""
    metadata = metadata_of()
    assert can_peek(metadata)
    metadata.encryption_keys.add(key="k", value=b"v")
    assert not can_peek(metadata)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"ordering_key": b"o", "partition_key": b"p"}, b"o"),
        ({"ordering_key": b"", "partition_key": b"p"}, b""),
        ({"partition_key": b"p"}, b"p"),
        ({"partition_key": b""}, b""),
        ({"partition_key": b"\xff"}, b"\xff"),
        ({"partition_key": b"cA==", "partition_key_b64_encoded": True}, b"p"),
        ({"partition_key": b"cA==", "partition_key_b64_encoded": False}, b"cA=="),
        ({"partition_key": b"c", "partition_key_b64_encoded": True}, NONE_KEY),
        ({}, b"shop-1-7"),
        ({"sequence_id": 0}, b"shop-1-0"),
        ({"sequence_id": (1 << 64) - 1}, b"shop-1--1"),
        ({"producer_name": b""}, b"-7"),
    ],
)
def test_the_sticky_key_is_the_brokers(fields: dict[str, object], key: bytes) -> None:
    """Ordering key, else partition key, else producer and sequence id: what is present decides, as at the broker."""
    assert sticky_key(metadata_of(**fields)) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (b"", b""),
        (b"cHA=", b"pp"),
        (b"cHA", b"pp"),
        (b"cA", b"p"),
        (b"cA=", NONE_KEY),
        (b"cHBw=", NONE_KEY),
        (b"cHBw==", NONE_KEY),
        (b"cHBw===", NONE_KEY),
        (b"cHBw====", NONE_KEY),
        (b"c H A=", NONE_KEY),
        (b"cHA=\n", NONE_KEY),
        (b"c-_w", NONE_KEY),
        (b"\xff\xff\xff\xff", NONE_KEY),
        (b"====", NONE_KEY),
    ],
)
def test_base64_is_read_as_java_reads_it(text: bytes, key: bytes) -> None:
    """Padding may be left out but not be wrong, no other alphabet and no white space is taken."""
    assert decode_key(text) == key


def test_a_keyless_message_of_a_batch_is_hashed_by_its_own_sequence_id() -> None:
    """The producer's name and the id given, not the entry's, make its key."""
    assert keyless(METADATA, 41) == b"shop-1-41"
