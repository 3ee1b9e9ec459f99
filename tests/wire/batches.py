"""Batches read the long way, message by message through protobuf, and pieces of them as the gateway cuts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from proxy.wire.batch import MIN_SINGLE_BYTES, miscounted, single_at
from proxy.wire.batch_reader import BatchReader
from proxy.wire.metadata import build_tail, decode_key, keyless, peek
from proxy.wire.opened_batch import OpenedBatch
from proxy.wire.pulsar_pb2 import MessageMetadata


class Single(NamedTuple):
    """One message of a batch. Offsets are in bytes, in the uncompressed payload."""

    start: int
    """Of its metadata's size."""
    end: int
    """Behind its payload."""
    ordering_key: bytes | None
    partition_key: bytes | None
    partition_key_b64: bool
    sequence_id: int | None
    null_partition_key: bool
    compacted_out: bool

    @property
    def has_key(self) -> bool:
        """Whether it has a key of its own; an empty key is one."""
        return self.ordering_key is not None or self.partition_key is not None


def single_key(single: Single, metadata: MessageMetadata) -> bytes:
    """The bytes the broker would hash for this message if it were an entry of its own (see `metadata.sticky_key`)."""
    if single.ordering_key is not None:
        return single.ordering_key
    if single.partition_key is not None:
        return decode_key(single.partition_key) if single.partition_key_b64 else single.partition_key
    return keyless(metadata, metadata.sequence_id if single.sequence_id is None else single.sequence_id)


def index_batch(payload: bytes, count: int) -> list[Single]:
    """Find the `count` messages of an uncompressed batch payload. Raises `BatchError` as `BatchReader` does."""
    if not 0 < count <= len(payload) // MIN_SINGLE_BYTES:
        raise miscounted(payload, count)
    singles: list[Single] = []
    start = 0
    for _ in range(count):
        metadata, end = single_at(payload, start)
        singles.append(
            Single(
                start,
                end,
                metadata.ordering_key if metadata.HasField("ordering_key") else None,
                metadata.partition_key if metadata.HasField("partition_key") else None,
                metadata.partition_key_b64_encoded,
                metadata.sequence_id if metadata.HasField("sequence_id") else None,
                metadata.null_partition_key,
                metadata.compacted_out,
            )
        )
        start = end
    if start != len(payload):
        raise miscounted(payload, count)
    return singles


def opened(metadata: MessageMetadata, payload: bytes, count: int) -> tuple[OpenedBatch, bytes]:
    """A batch as the gateway opens it, and the tail that it came in; `payload` is uncompressed."""
    copy = MessageMetadata()
    copy.CopyFrom(metadata)
    tail = build_tail(copy, payload)
    reader = BatchReader(copy, payload, count)
    reader.read(count)
    return OpenedBatch(copy, peek(tail)[2], payload, reader), tail


def repack(metadata: MessageMetadata, payload: bytes, singles: Sequence[Single]) -> bytes:
    """The piece that the gateway cuts out of a batch: of these messages, in the given order."""
    known = {each.start: index for index, each in enumerate(index_batch(payload, _count(payload)))}
    batch, tail = opened(metadata, payload, len(known))
    return batch.piece(tail, [known[single.start] for single in singles])


def _count(payload: bytes) -> int:
    """How many messages fill the payload."""
    count = start = 0
    while start < len(payload):
        start = single_at(payload, start)[1]
        count += 1
    return count
