"""What is parked is read back, whatever its producer wrote: the promises of the fuzz target, for any metadata."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import build_tail, is_chunk
from tests.fuzz.parked_target import run
from tests.wire.builders import metadata_of

INT32 = st.one_of(st.integers(-3, 4), st.integers(-(2**31), 2**31 - 1))
UINT64 = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
NAMES = st.one_of(st.text(max_size=4), st.sampled_from([f"keyline.parked.{name}" for name in ("origin", "mark", "x")]))
PAIRS = st.builds(pb.KeyValue, key=NAMES, value=st.one_of(st.none(), st.text(max_size=4)))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "properties": st.lists(PAIRS, max_size=3),
    "replicated_from": st.text(max_size=3),
    "replicate_to": st.lists(st.text(max_size=3), max_size=2),
    "partition_key": st.binary(max_size=300),
    "partition_key_b64_encoded": st.booleans(),
    "ordering_key": st.binary(max_size=5),
    "compression": st.sampled_from([pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]),
    "uncompressed_size": st.integers(0, 2**32 - 1),
    "num_messages_in_batch": INT32,
    "event_time": UINT64,
    "encryption_keys": st.just([pb.EncryptionKeys(key="k", value=b"v")]),
    "encryption_param": st.binary(max_size=3),
    "schema_version": st.binary(max_size=9),
    "deliver_at_time": st.integers(-(2**63), 2**63 - 1),
    "marker_type": INT32,
    "txnid_least_bits": UINT64,
    "txnid_most_bits": UINT64,
    "highest_sequence_id": UINT64,
    "null_value": st.booleans(),
    "null_partition_key": st.booleans(),
    "uuid": st.one_of(st.sampled_from(["", "u"]), st.text(max_size=300)),
    "num_chunks_from_msg": INT32,
    "total_chunk_msg_size": INT32,
    "chunk_id": INT32,
}


@st.composite
def metadata(draw: st.DrawFn) -> pb.MessageMetadata:
    """Any that protobuf can write."""
    chosen = draw(st.sets(st.sampled_from(sorted(FIELDS)), max_size=8))
    return pb.MessageMetadata(
        producer_name=draw(st.binary(max_size=9)),
        sequence_id=draw(UINT64),
        publish_time=draw(UINT64),
        **{name: draw(FIELDS[name]) for name in chosen},
    )


@given(metadata(), st.binary(max_size=20))
def test_any_metadata_is_read_back(fields: pb.MessageMetadata, payload: bytes) -> None:
    """Equal, and as what the dispatcher held it for."""
    run(build_tail(fields, payload))


@given(chunk_id=INT32, total=INT32, named=st.booleans(), batched=st.booleans())
def test_a_chunk_has_a_number_that_there_is(chunk_id: int, total: int, *, named: bool, batched: bool) -> None:
    """Of several, of a message with a name; and a batch is none."""
    fields: dict[str, Any] = {"chunk_id": chunk_id, "num_chunks_from_msg": total}
    if named:
        fields["uuid"] = "u"
    if batched:
        fields["num_messages_in_batch"] = 1
    assert is_chunk(metadata_of(**fields)) == (total > 1 and 0 <= chunk_id < total and named and not batched)
