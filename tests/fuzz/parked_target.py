"""Fuzzing what a parked message's copy says: it is all that the next gateway knows of the message.

Input: a tail, as of a message that the gateway has accepted. Promises: a copy that can be published can be read again,
and says of its message what the dispatcher was told of it; the message that is restored is the one that came, but for
what belongs to its first publishing. So for each message of a batch that is parked alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from proxy.core.positions import pack
from proxy.core.sticky_key import murmur31
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.batch_reader import BatchReader
from proxy.wire.codecs import opened_payload
from proxy.wire.dead_letters import Published, published_again, tail_of
from proxy.wire.errors import MetadataError, WireError
from proxy.wire.metadata import build_tail, can_peek, is_chunk, peek, peek_key, uuid_of
from proxy.wire.opened_batch import OpenedBatch
from proxy.wire.parked import PREFIX, Parked, keep, mark_of, read, restored_tail
from tests.fuzz.target import Target, golden_frames, promise
from tests.wire.builders import metadata_of
from tests.wire.builders import tail_of as tail_in

PLACE = pack(7, 3)
WHOSE = "persistent://a/b/t-partition-1", "s"
BYTES_MAX = 1 << 16
MESSAGES_MAX = 8
ATTEMPTS = (1 << 32) + 5
"""More than a broker counts."""


def run(data: bytes) -> None:
    """Park the entry whole, and each of its messages alone."""
    try:
        metadata, key, start = peek_key(data)
    except MetadataError:
        return  # it is refused, and waits
    check(data, metadata, None, key, 0)
    for index, piece in pieces(data, metadata, start):
        check(piece, metadata, index, key, metadata.compression)


def pieces(data: bytes, metadata: pb.MessageMetadata, start: int) -> Iterable[tuple[int, bytes]]:
    """Each message of a batch as an entry of its own, if it can be opened."""
    count = metadata.num_messages_in_batch
    if not 1 < count <= MESSAGES_MAX or not can_peek(metadata):
        return
    try:
        payload = opened_payload(data, start, metadata.compression, metadata.uncompressed_size, BYTES_MAX)
        reader = BatchReader(metadata, payload, count)
        reader.read(count)
    except WireError:
        return
    opened = OpenedBatch(metadata, start, payload, reader)
    yield from ((index, opened.piece(data, (index,))) for index in range(count))


def check(tail: bytes, entry: pb.MessageMetadata, index: int | None, key: bytes, compression: int) -> None:
    """Publish and read one message; `entry` is what the metadata of its entry says."""
    try:
        published = published_again(tail, BYTES_MAX, compression)
    except WireError:
        return
    before = pb.MessageMetadata.FromString(published.metadata.SerializePartialToString())
    keep(published.metadata, WHOSE, (PLACE, index), murmur31(key), ATTEMPTS, entry.schema_version)
    copy = tail_of(published, b"gateway", 0, 0)
    parked = read(copy)
    promise(parked is not None, "a copy is read back")
    assert parked is not None
    promise(parked[:3] == (PLACE, index, murmur31(key)), "it stands where the message stood, in its slot")
    promise(
        parked.whose == WHOSE and parked.attempts == ATTEMPTS - 6, "it says whose it is, and how often it came back"
    )
    promise(parked.publish_time_ms == before.publish_time, "it says when it was published")
    promise(mark_of(copy) is None, "no message is taken for a mark")
    _check_chunk(parked, entry, index)
    _check_restored(copy, before, published, entry.schema_version)


def _check_chunk(parked: Parked, entry: pb.MessageMetadata, index: int | None) -> None:
    if index is not None or not is_chunk(entry):
        promise(parked.chunk is None, "what the dispatcher holds for a message is none of several chunks")
        return
    assert parked.chunk is not None
    promise(parked.chunk[1:] == (entry.chunk_id, entry.num_chunks_from_msg), "a chunk has its number")
    promise(parked.chunk[0], "a chunk is of a message with a name")
    promise(parked.chunk[0] == uuid_of(entry), "a chunk is of its message")


def _check_restored(copy: bytes, before: pb.MessageMetadata, published: Published, schema_version: bytes) -> None:
    restored = restored_tail(copy)
    found, _, start = peek(restored)
    kept = [pair for pair in before.properties if not str(pair.key).startswith(PREFIX)]
    del before.properties[:]
    before.properties.extend(kept)
    before.producer_name = before.producer_name.decode(errors="replace").encode()
    if schema_version:
        before.schema_version = schema_version
    promise(found.SerializePartialToString() == before.SerializePartialToString(), "the restored metadata is the old")
    promise(restored[start:] == published.payload, "the restored payload is the old")


def seeds() -> Iterable[bytes]:
    """Tails of the official clients, and numbers that no client writes."""
    yield from islice((tail for frame in golden_frames() if (tail := tail_in(frame))), 200)
    for number in (-(1 << 31), -1, 0, 1, 2, (1 << 31) - 1):
        for field in ("chunk_id", "num_chunks_from_msg", "total_chunk_msg_size", "num_messages_in_batch"):
            fields: dict[str, object] = {"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": 1, "partition_key": b"k"}
            yield build_tail(metadata_of(**(fields | {field: number})), b"payload")
    own = [pb.KeyValue(key=f"{PREFIX}{name}", value="9:9") for name in ("origin", "hash", "mark", "new")]
    yield build_tail(metadata_of(properties=[*own, pb.KeyValue(key="valueless")], schema_version=b"\1"), b"payload")


TARGET = Target("parked", run, seeds)
