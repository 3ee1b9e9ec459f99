"""Batches: found messages, one key or several, smaller batches."""

import contextlib
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import batch
from proxy.wire.batch import uniform
from proxy.wire.batch_reader import BatchReader
from proxy.wire.errors import BatchError
from proxy.wire.metadata import peek, verify_checksum
from proxy.wire.pulsar_pb2 import LZ4, MessageMetadata, SingleMessageMetadata
from tests.wire.batches import Single, index_batch, repack, single_key
from tests.wire.builders import UNKNOWN_FIELD, Written, batch_of, metadata_of, single_of

keys = st.one_of(st.none(), st.sampled_from([b"", b"a", b"alice", b"YQ==", b"a" * 200]))
sequence_ids = st.one_of(st.none(), st.integers(0, 300), st.integers(0, 1 << 22), st.integers(0, (1 << 64) - 1))
written = st.builds(
    Written,
    payload=st.binary(max_size=300),
    key=keys,
    ordering_key=st.one_of(st.none(), st.sampled_from([b"", b"o", b"alice"])),
    sequence_id=sequence_ids,
    b64=st.one_of(st.none(), st.booleans()),
    event_time=st.one_of(st.none(), st.integers(0, 1 << 40)),
)
batches = st.lists(written, min_size=1, max_size=12)
METADATA = metadata_of(num_messages_in_batch=3)


def alike(key: dict[str, Any]) -> st.SearchStrategy[list[Written]]:
    """Batches of one key, as one client writes them: of each field all messages have it or none has."""
    payloads = st.one_of(st.binary(max_size=20), st.sampled_from([127, 128, 16_383, 16_384]).map(bytes))
    one = st.tuples(payloads, st.one_of(st.integers(0, 1 << 22), st.integers(0, (1 << 64) - 1)))
    return st.lists(one.map(lambda made: Written(made[0], sequence_id=made[1], **key)), min_size=1, max_size=8)


def alike_by_bytes(payload: bytes, count: int) -> bool:
    """What the quick part of `uniform` says, which is False for whatever it does not know."""
    try:
        first, _ = batch.single_at(payload, 0)
    except BatchError:
        return False
    return batch._alike(payload, count, first)


def own_keys(messages: list[Written]) -> list[bytes | None]:
    """Each message's own key, by the broker's rule."""
    singles = index_batch(batch_of(messages), len(messages))
    return [single_key(single, METADATA) if single.has_key else None for single in singles]


@given(batches)
def test_every_message_is_found_as_it_was_written(messages: list[Written]) -> None:
    """Offsets, keys, flags and sequence ids are those of the messages, present told from absent."""
    payload = batch_of(messages)
    singles = index_batch(payload, len(messages))
    assert [payload[single.start : single.end] for single in singles] == [single_of(message) for message in messages]
    for single, message in zip(singles, messages, strict=True):
        assert payload[single.start : single.end].endswith(message.payload)
        assert single.partition_key == message.key
        assert single.ordering_key == message.ordering_key
        assert single.sequence_id == message.sequence_id
        assert single.partition_key_b64 == bool(message.b64)
        assert single.has_key == (message.key is not None or message.ordering_key is not None)
        assert not single.compacted_out
        assert not single.null_partition_key


@given(batches)
def test_a_batch_is_uniform_exactly_if_all_its_messages_have_the_first_ones_key(messages: list[Written]) -> None:
    """The quick answer is the one a full reading gives, whatever fields the messages have."""
    found = own_keys(messages)
    assert uniform(batch_of(messages), len(messages)) == (len(set(found)) == 1)


@pytest.mark.parametrize(
    "key",
    [
        {},
        {"key": b"alice"},
        {"key": b""},
        {"key": b"k" * 200},
        {"key": b"alice", "b64": False},
        {"key": b"YWxpY2U=", "b64": True},
        {"key": b"alice", "b64": False, "ordering_key": b"o"},
        {"ordering_key": b""},
    ],
)
def test_one_key_is_seen_without_protobuf(key: dict[str, Any]) -> None:
    """In the layout clients write one key is recognized by bytes alone, and another key is noticed at every place."""

    @given(alike(key), st.data())
    def check(messages: list[Written], data: st.DataObject) -> None:
        count = len(messages)
        assert alike_by_bytes(batch_of(messages), count)
        if count > 1:
            at = data.draw(st.integers(0, count - 1))
            messages[at] = messages[at]._replace(key=b"bob", ordering_key=None)
            assert not alike_by_bytes(batch_of(messages), count)
            assert not uniform(batch_of(messages), count)

    check()


@pytest.mark.parametrize(
    "messages", [[Written(b"x", b"a", sequence_id=1)] * 2, [Written(b"x", b"a", event_time=1)] * 2]
)
def test_the_outer_key_must_be_the_messages_key(messages: list[Written]) -> None:
    """A batch of one key in an entry of another is not uniform with it; keyless messages go with any entry."""
    payload = batch_of(messages)
    assert uniform(payload, 2)
    assert uniform(payload, 2, b"a")
    assert not uniform(payload, 2, b"b")
    assert not uniform(payload, 2, b"")
    assert uniform(batch_of([Written(b"x"), Written(b"y")]), 2, b"b")


def test_a_key_hidden_behind_the_sequence_id_is_seen() -> None:
    """Fields in an unusual order do not pass for a layout without them."""
    plain = [Written(b"x", b"alice", sequence_id=5), Written(b"y", b"alice", sequence_id=200)]
    hidden = single_of(plain[1])[4:-1] + SingleMessageMetadata(ordering_key=b"o").SerializePartialToString()
    payload = single_of(plain[0]) + struct.pack(">I", len(hidden)) + hidden + b"y"
    assert index_batch(payload, 2)[1].ordering_key == b"o"
    assert not uniform(payload, 2)


@given(batches, st.data())
def test_a_changed_byte_is_judged_as_protobuf_judges_it(messages: list[Written], data: st.DataObject) -> None:
    """Whatever byte of a batch is changed, uniform says what reading every message says, or both refuse."""
    payload = bytearray(batch_of(messages))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    changed, count = bytes(payload), len(messages)
    try:
        singles = index_batch(changed, count)
    except BatchError:
        assert not alike_by_bytes(changed, count)
        return
    found = {single_key(single, METADATA) if single.has_key else None for single in singles}
    assert uniform(changed, count) == (len(found) == 1)


def of_one_size(key: dict[str, Any]) -> st.SearchStrategy[list[Written]]:
    """Batches of one key with messages of one size, as a producer of fixed records makes them."""
    ids = st.sampled_from([(0, 127), (128, 16_383), (1 << 21, (1 << 28) - 1), (1 << 63, (1 << 64) - 1)])
    some = st.tuples(st.sampled_from([0, 5, 100, 200]), st.integers(16, 40), ids)
    return some.flatmap(
        lambda drawn: st.lists(st.integers(*drawn[2]), min_size=drawn[1], max_size=drawn[1]).map(
            lambda found: [Written(bytes(drawn[0]), sequence_id=one, **key) for one in found]
        )
    )


@pytest.mark.parametrize("key", [{}, {"key": b"alice"}, {"key": b"YQ==", "b64": True}, {"ordering_key": b"o"}])
def test_messages_of_one_size_are_judged_at_once(key: dict[str, Any]) -> None:
    """The quickest part of `uniform` knows them, and falls for no changed byte anywhere."""

    @given(of_one_size(key), st.data())
    def check(messages: list[Written], data: st.DataObject) -> None:
        payload, count = bytearray(batch_of(messages)), len(messages)
        first, head_end = batch.single_at(bytes(payload), 0)
        assert batch._same_size(bytes(payload), count, first)
        size = len(payload) // count
        at = data.draw(st.integers(0, count - 1)) * size
        at += data.draw(st.integers(0, min(size, head_end - first.payload_size + 2) - 1))
        payload[at] = data.draw(st.integers(0, 255))
        changed = bytes(payload)
        try:
            singles = index_batch(changed, count)
        except BatchError:
            with contextlib.suppress(BatchError):
                assert not batch._same_size(changed, count, batch.single_at(changed, 0)[0])
            return
        found = {single_key(single, METADATA) if single.has_key else None for single in singles}
        assert uniform(changed, count) == (len(found) == 1)

    check()


@given(st.lists(written, min_size=1, max_size=4))
def test_no_truncation_is_taken_for_a_batch(messages: list[Written]) -> None:
    """A payload that ends anywhere before its last byte is refused."""
    payload = batch_of(messages)
    for size in range(len(payload)):
        assert not alike_by_bytes(payload[:size], len(messages))
        with pytest.raises(BatchError):
            index_batch(payload[:size], len(messages))


@pytest.mark.parametrize("count", [-1, 0, 1, 2, 4, 1000, 1 << 31])
def test_a_lying_count_is_refused(count: int) -> None:
    """A batch of three messages is one of three, whatever the metadata says."""
    payload = batch_of([Written(b"payload", b"alice", sequence_id=number) for number in range(3)])
    for read in (index_batch, uniform):
        assert read(payload, 3)
        with pytest.raises(BatchError):
            read(payload, count)


def test_bytes_behind_the_last_message_are_refused() -> None:
    """A batch ends with its last message."""
    payload = batch_of([Written(b"a", b"k", sequence_id=1), Written(b"b", b"k", sequence_id=2)])
    for read in (index_batch, uniform):
        with pytest.raises(BatchError, match="fill it exactly"):
            read(payload + b"x", 2)


@pytest.mark.parametrize(
    "metadata",
    [
        SingleMessageMetadata(payload_size=-1).SerializeToString(),
        SingleMessageMetadata(payload_size=-(1 << 31)).SerializeToString(),
        SingleMessageMetadata(payload_size=(1 << 31) - 1).SerializeToString(),
        SingleMessageMetadata(partition_key=b"k").SerializePartialToString(),
        b"\x12\x05k",
        b"\xff\xff\xff",
    ],
)
def test_a_message_that_cannot_be_right_is_refused(metadata: bytes) -> None:
    """Negative, missing and oversized payload sizes and metadata that is no protobuf are refused."""
    payload = struct.pack(">I", len(metadata)) + metadata + b"payload"
    for read in (index_batch, uniform):
        with pytest.raises(BatchError):
            read(payload, 1)


@given(st.binary(max_size=120), st.integers(-2, 20))
def test_random_bytes_give_messages_or_a_batch_error(payload: bytes, count: int) -> None:
    """Whatever a producer sends, reading a batch gives messages or a BatchError."""
    for read in (index_batch, uniform):
        with suppress(BatchError):
            read(payload, count)


@given(batches, st.data())
def test_a_smaller_batch_holds_exactly_the_chosen_messages(messages: list[Written], data: st.DataObject) -> None:
    """Any choice, in any order, reads back as the chosen messages' own bytes behind a right checksum."""
    payload = batch_of(messages)
    singles = index_batch(payload, len(messages))
    chosen = data.draw(st.lists(st.sampled_from(range(len(messages))), min_size=1, unique=True))
    tail = repack(METADATA, payload, [singles[index] for index in chosen])
    assert verify_checksum(tail)
    metadata, _, start = peek(tail)
    assert tail[start:] == b"".join(single_of(messages[index]) for index in chosen)
    assert len(index_batch(tail[start:], metadata.num_messages_in_batch)) == len(chosen)
    assert metadata.uncompressed_size == len(tail) - start
    first = messages[chosen[0]]
    assert (metadata.partition_key if metadata.HasField("partition_key") else None) == first.key
    assert (metadata.ordering_key if metadata.HasField("ordering_key") else None) == first.ordering_key
    assert metadata.partition_key_b64_encoded == bool(first.b64)


def test_everything_else_in_the_metadata_stays() -> None:
    """A smaller batch keeps producer, ids, times, properties, schema, transaction and fields unknown to us."""
    metadata = metadata_of(
        num_messages_in_batch=2,
        partition_key=b"outer",
        partition_key_b64_encoded=True,
        ordering_key=b"outer",
        null_partition_key=True,
        compression=LZ4,
        uncompressed_size=4711,
        compacted_batch_indexes=[0, 2],
        highest_sequence_id=8,
        event_time=9,
        schema_version=b"\x00\x01",
        txnid_least_bits=1,
        txnid_most_bits=2,
        deliver_at_time=3,
        replicated_from="east",
        replicate_to=["west"],
        uuid="u",
    )
    metadata.properties.add(key="k", value="v")
    metadata = MessageMetadata.FromString(metadata.SerializeToString() + UNKNOWN_FIELD)
    before = metadata.SerializeToString()
    payload = batch_of([Written(b"a", b"k"), Written(b"b")])
    singles = index_batch(payload, 2)
    smaller = peek(repack(metadata, payload, singles[1:])).metadata
    assert metadata.SerializeToString() == before
    expected = MessageMetadata.FromString(before)
    for field in ("partition_key", "partition_key_b64_encoded", "ordering_key", "null_partition_key", "compression"):
        assert not smaller.HasField(field)
        expected.ClearField(field)
    expected.ClearField("compacted_batch_indexes")
    expected.num_messages_in_batch = 1
    expected.uncompressed_size = len(single_of(Written(b"b")))
    assert smaller.SerializeToString() == expected.SerializeToString()


def test_a_batch_whose_metadata_lacks_what_only_consumers_read_can_be_cut() -> None:
    """A property without its value, which no client writes: it is still without one in the smaller batch."""
    metadata = metadata_of(num_messages_in_batch=2)
    metadata.properties.add(key="k")
    payload = batch_of([Written(b"a", b"k"), Written(b"b")])
    tail = repack(metadata, payload, index_batch(payload, 2)[:1])
    assert verify_checksum(tail)
    assert peek(tail).metadata.properties == metadata.properties


def test_a_null_key_stays_a_null_key() -> None:
    """The mark of a key that is null, not empty, is the first chosen message's."""
    metadata = SingleMessageMetadata(payload_size=0, null_partition_key=True, compacted_out=True).SerializeToString()
    payload = struct.pack(">I", len(metadata)) + metadata
    (single,) = index_batch(payload, 1)
    assert single.null_partition_key
    assert single.compacted_out
    assert peek(repack(METADATA, payload, [single])).metadata.null_partition_key


def test_a_batch_of_nothing_is_none() -> None:
    """Nor is one that claims more messages than its bytes could hold."""
    for count, payload in ((0, b""), (0, b"12345678"), (2, b"12345678901")):
        with pytest.raises(BatchError, match=f"a batch of {count} messages, in {len(payload)} bytes"):
            BatchReader(METADATA, payload, count)


@pytest.mark.parametrize(
    ("message", "key"),
    [
        (Written(b"", b"p", b"o"), b"o"),
        (Written(b"", b"p", b""), b""),
        (Written(b"", b"cA==", b64=True), b"p"),
        (Written(b"", b"cA=="), b"cA=="),
        (Written(b"", b""), b""),
        (Written(b"", sequence_id=41), b"shop-1-41"),
        (Written(b"", sequence_id=0), b"shop-1-0"),
        (Written(b""), b"shop-1-7"),
    ],
)
def test_a_single_messages_key_is_what_it_would_be_unbatched(message: Written, key: bytes) -> None:
    """The broker's rule, with the message's own fields; a message without a sequence id has the entry's."""
    (single,) = index_batch(batch_of([message]), 1)
    assert isinstance(single, Single)
    assert single_key(single, METADATA) == key
