"""What is read by hand is what protobuf reads, or is left to it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.by_hand import plain_ack, plain_key
from proxy.wire.frames import encode_command, parse_command
from proxy.wire.metadata import build_tail, peek_key

UINT64 = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "partition_key": st.binary(max_size=200),
    "partition_key_b64_encoded": st.booleans(),
    "ordering_key": st.binary(max_size=5),
    "event_time": UINT64,
    "highest_sequence_id": UINT64,
    "compression": st.sampled_from([pb.NONE, pb.LZ4]),
    "uncompressed_size": st.integers(0, 2**32 - 1),
    "schema_version": st.binary(max_size=9),
    "num_messages_in_batch": st.integers(0, 3),
    "num_chunks_from_msg": st.integers(0, 3),
    "null_value": st.booleans(),
    "null_partition_key": st.booleans(),
    "uuid": st.text(max_size=3),
}


@st.composite
def metadata(draw: st.DrawFn) -> pb.MessageMetadata:
    """Any of one message, or of a batch."""
    chosen = draw(st.sets(st.sampled_from(sorted(FIELDS)), max_size=4))
    return pb.MessageMetadata(
        producer_name=draw(st.binary(max_size=140)),
        sequence_id=draw(UINT64),
        publish_time=draw(UINT64),
        **{name: draw(FIELDS[name]) for name in chosen},
    )


@given(metadata(), st.binary(max_size=20))
def test_a_key_is_protobufs(fields: pb.MessageMetadata, payload: bytes) -> None:
    """If there is one, the entry has one message, and is no chunk."""
    tail = build_tail(fields, payload)
    key = plain_key(tail)
    if key is not None:
        found, expected, _ = peek_key(tail)
        assert key == expected
        assert found.num_messages_in_batch <= 1
        assert not found.num_chunks_from_msg


def test_what_clients_write_is_read_by_hand() -> None:
    """With a key and without."""
    fields = pb.MessageMetadata(producer_name=b"orders-1", sequence_id=1_000, publish_time=1_700_000_000_000)
    assert plain_key(build_tail(fields, b"payload")) == b"orders-1-1000"
    fields.partition_key = b"customer"
    fields.uncompressed_size = 7
    assert plain_key(build_tail(fields, b"payload")) == b"customer"
    ids = [(12, 1), (12, 1 << 62), (1 << 40, 300)]
    assert plain_ack(commands.ack(7, ids)) == (7, [number for place in ids for number in place])


@st.composite
def acks(draw: st.DrawFn) -> bytes:
    """Any of a few ids."""
    body = pb.CommandAck(consumer_id=draw(UINT64), ack_type=draw(st.sampled_from([0, 0, 0, 1])))  # type: ignore[arg-type]
    for _ in range(draw(st.integers(0, 4))):
        place = body.message_id.add(ledgerId=draw(UINT64), entryId=draw(UINT64))
        for name in draw(st.sets(st.sampled_from(["partition", "batch_index", "batch_size"]))):
            setattr(place, name, draw(st.integers(-(2**31), 2**31 - 1)))
        place.ack_set.extend(draw(st.lists(st.integers(-3, 3), max_size=1)))
    for name in draw(st.sets(st.sampled_from(["request_id", "txnid_least_bits"]), max_size=1)):
        setattr(body, name, draw(UINT64))
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.ACK, ack=body))


@given(acks())
def test_an_ack_is_protobufs(frame: bytes) -> None:
    """If it is read by hand, it acknowledges whole entries, one by one, and nothing more."""
    read = plain_ack(frame)
    if read is not None:
        body = parse_command(frame).ack
        assert read == (
            body.consumer_id,
            [number for each in body.message_id for number in (each.ledgerId, each.entryId)],
        )
        assert not body.ack_type
        assert not any(each.ack_set for each in body.message_id)
        assert not body.HasField("request_id")
        assert not body.HasField("txnid_least_bits")
