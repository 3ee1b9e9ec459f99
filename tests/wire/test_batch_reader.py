"""Reading a batch by hand finds what protobuf finds, and pieces are cut where the messages are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.batch_reader import BatchReader
from proxy.wire.errors import BatchError
from proxy.wire.metadata import peek, verify_checksum
from tests.wire.batches import Single, index_batch, opened, single_key
from tests.wire.builders import metadata_of

USUAL = {"partition_key": b"key-1", "sequence_id": 7}


def single(payload: bytes, **fields: object) -> bytes:
    """A message of a batch."""
    metadata = pb.SingleMessageMetadata(payload_size=len(payload), **fields)  # type: ignore[arg-type]
    encoded = metadata.SerializeToString()
    return len(encoded).to_bytes(4, "big") + encoded + payload


def read(payload: bytes, count: int) -> tuple[list[Single], BatchReader]:
    """Both ways."""
    reader = BatchReader(metadata_of(), payload, count)
    reader.read(count)
    return index_batch(payload, count), reader


def check(payload: bytes, count: int) -> BatchReader:
    """They agree."""
    singles, reader = read(payload, count)
    assert reader.offsets == [0, *(one.end for one in singles)]
    assert reader.keys == [single_key(one, metadata_of()) for one in singles]
    assert reader.keyed is any(one.has_key for one in singles)
    assert reader.compacted == [index for index, one in enumerate(singles) if one.compacted_out]
    return reader


Message = tuple[dict[str, object], int]
"""A message's fields, and its payload's size."""

fields = st.fixed_dictionaries(
    {},
    optional={
        "partition_key": st.sampled_from([b"", b"k", b"key-17", b"a" * 127, b"a" * 128, b"a" * 300]),
        "partition_key_b64_encoded": st.booleans(),
        "ordering_key": st.binary(max_size=3),
        "sequence_id": st.integers(0, (1 << 64) - 1),
        "event_time": st.integers(0, 9),
        "compacted_out": st.booleans(),
        "null_partition_key": st.booleans(),
    },
)
sizes = st.sampled_from([0, 1, 100, 127, 128, 16_383, 16_384, 20_000])


@given(st.lists(st.tuples(fields, sizes), min_size=1, max_size=6))
def test_every_way_of_writing_a_message_is_read_alike(messages: list[Message]) -> None:
    """Whichever fields a client writes, and however long they are."""
    check(b"".join(single(bytes(size), **written) for written, size in messages), len(messages))


@given(st.lists(st.integers(0, 1 << 28), min_size=2, max_size=6), st.data())
def test_one_byte_another_changes_both_alike(ids: list[int], data: st.DataObject) -> None:
    """Damage is found, or not, by both; what is read of a batch that is damaged is the same."""
    batch = bytearray(b"".join(single(b"abc", partition_key=b"k%d" % one, sequence_id=one) for one in ids))
    batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    payload, count = bytes(batch), len(ids)
    try:
        index_batch(payload, count)
    except BatchError:
        reader = BatchReader(metadata_of(), payload, count)
        with pytest.raises(BatchError):
            reader.read(count)
    else:
        check(payload, count)


def test_what_clients_mostly_write_is_read_by_hand() -> None:
    """Or this file would show nothing: only then are pieces made without protobuf."""
    usual = [
        single(b"x" * 100, **USUAL),
        single(b"", partition_key=b"", sequence_id=0, partition_key_b64_encoded=False),
    ]
    assert check(b"".join(usual), 2).usual
    for other in (
        {"ordering_key": b"o"},
        {"event_time": 5},
        {"partition_key_b64_encoded": True, "partition_key": b"YQ=="},
    ):
        assert not check(b"".join([*usual, single(b"x", **(USUAL | other))]), 3).usual


@given(st.lists(st.tuples(fields, st.sampled_from([0, 5, 200])), min_size=1, max_size=6), st.data())
def test_a_piece_holds_the_chosen_messages_bytes(messages: list[Message], data: st.DataObject) -> None:
    """Its key is the first one's, its numbers are its own, and the rest of the metadata stays."""
    payload = b"".join(single(bytes([number]) * size, **written) for number, (written, size) in enumerate(messages))
    singles = index_batch(payload, len(messages))
    indexes = data.draw(st.lists(st.integers(0, len(messages) - 1), min_size=1, unique=True))
    batch, tail = opened(metadata_of(producer_name=b"p-1", sequence_id=9), payload, len(messages))
    piece = batch.piece(tail, indexes)
    assert verify_checksum(piece)
    metadata, _, start = peek(piece)
    assert piece[start:] == b"".join(payload[singles[index].start : singles[index].end] for index in indexes)
    assert (metadata.num_messages_in_batch, metadata.uncompressed_size) == (len(indexes), len(piece) - start)
    assert (metadata.producer_name, metadata.sequence_id) == (b"p-1", 9)
    first = singles[indexes[0]]
    assert (metadata.partition_key if metadata.HasField("partition_key") else None) == first.partition_key
    assert (metadata.ordering_key if metadata.HasField("ordering_key") else None) == first.ordering_key
    assert metadata.partition_key_b64_encoded is first.partition_key_b64
    assert metadata.null_partition_key is first.null_partition_key
