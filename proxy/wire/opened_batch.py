"""A batch that was opened once, and the smaller batches that are made of it.

Problem: a batch of many keys leaves in one piece for each worker, and to open it, read its messages and copy its
metadata for every piece cost more than all else. Rule: where its messages begin is kept in an array of four bytes a
message, what all pieces share of the metadata is encoded once, and a piece is that, the few fields that differ, and
the chosen messages' own bytes. An uncompressed payload is not kept twice: pieces are cut out of the entry. A compressed
one can be let go of and is decompressed again for the next piece.

A piece holds the chosen messages' own bytes in a metadata that differs from the original's in what describes the
payload and its key, and in nothing else. Why not `ack_set` on the whole entry: default clients acknowledge such an
entry only after every message in it, the masked ones too (see the design, section 3).

Source: Pulsar's "Binary protocol specification", section "Batch messages"; protobuf merges fields in any order.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from proxy.wire.batch import single_at
from proxy.wire.codecs import opened_payload
from proxy.wire.metadata import build_encoded_tail
from proxy.wire.pulsar_pb2 import MessageMetadata
from proxy.wire.varints import varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.wire.batch_reader import BatchReader

OPENED_BYTES: Final = 310
"""What one costs beside its offsets, its encoded metadata and the bytes of a payload that it keeps: itself, an array,
two bytes objects and two numbers (measured, 64-bit: up to 304 with a payload of its own, 270 without)."""

_REPLACED: Final = (
    "partition_key",
    "partition_key_b64_encoded",
    "ordering_key",
    "null_partition_key",
    "compression",
    "compacted_batch_indexes",  # counts the original's messages
    "num_messages_in_batch",
    "uncompressed_size",
)
"""What a piece says itself, or what does not hold for it."""
_KEY_SIZE_AT: Final = 5
"""Where the size of a partition key stands behind a message's start, if it comes first."""
_MESSAGES: Final = b"\x58"
_UNCOMPRESSED_SIZE: Final = b"\x48"
_PARTITION_KEY: Final = b"\x32"
"""Tags of `MessageMetadata`: num_messages_in_batch, uncompressed_size, partition_key."""


class OpenedBatch:
    """One batch; all its pieces are cut here."""

    __slots__ = (
        "_common",
        "_compression",
        "_offsets",
        "_payload",
        "_payload_start",
        "_uncompressed_bytes",
        "_usual",
        "compressed",
    )

    def __init__(self, metadata: MessageMetadata, payload_start: int, payload: bytes, reader: BatchReader) -> None:
        """`payload` is uncompressed, and begins at `payload_start` of the entry's tail if the entry is, too.

        `reader` has read it whole. The metadata is not of use any more: fields of it are taken out here.
        """
        self._offsets = array("I", reader.offsets)
        self._usual = reader.usual
        self._compression = metadata.compression
        self.compressed = bool(metadata.compression)
        """Only then is there anything to open and close: pieces of any other are cut out of the entry."""
        self._uncompressed_bytes = metadata.uncompressed_size
        self._payload = payload if metadata.compression else None
        self._payload_start = payload_start
        for field in _REPLACED:
            metadata.ClearField(field)
        self._common = metadata.SerializePartialToString()

    @property
    def bytes_held(self) -> int:
        """What it costs at present beside the entry."""
        payload_bytes = 0 if self._payload is None else len(self._payload)
        return OPENED_BYTES + 4 * len(self._offsets) + len(self._common) + payload_bytes

    @property
    def payload_bytes(self) -> int:
        """What a compressed one costs more while it is open; 0 for any other."""
        return self._uncompressed_bytes if self.compressed else 0

    @property
    def is_open(self) -> bool:
        """Whether a piece can be cut without decompressing."""
        return not self.compressed or self._payload is not None

    def open(self, tail: bytes, bytes_max: int) -> None:
        """Decompress again what was closed. It was decompressed before, so it can be."""
        self._payload = opened_payload(
            tail, self._payload_start, self._compression, self._uncompressed_bytes, bytes_max
        )

    def close(self) -> None:
        """Let the payload of a compressed one go."""
        self._payload = None

    def piece(self, tail: bytes, indexes: Sequence[int]) -> bytes:
        """The tail of a batch of these messages only, at least one, uncompressed; `tail` is the entry's own.

        The outer key is the first message's. There is no broker entry metadata: its index counts the original's.
        """
        offsets = self._offsets
        payload, base = self._payload, 0
        if payload is None:
            assert not self.compressed, "a piece of a closed batch"
            payload, base = tail, self._payload_start
        chosen = b"".join([payload[base + offsets[index] : base + offsets[index + 1]] for index in indexes])
        first = base + offsets[indexes[0]]
        if not self._usual:
            return build_encoded_tail(self._common + _own(payload, first, chosen, len(indexes)), chosen)
        # As `_own`, by hand: the first message begins with the size of its metadata and a short partition key.
        at = first + _KEY_SIZE_AT
        key = payload[at : at + 1 + payload[at]]
        count, size = varint(len(indexes)), varint(len(chosen))
        own = b"".join((self._common, _MESSAGES, count, _UNCOMPRESSED_SIZE, size, _PARTITION_KEY, key))
        return build_encoded_tail(own, chosen)


def _own(payload: bytes, first: int, chosen: bytes, count: int) -> bytes:
    """What a piece's metadata says otherwise than the others': its counts, and the first message's key."""
    single, _ = single_at(payload, first)
    own = MessageMetadata(num_messages_in_batch=count, uncompressed_size=len(chosen))
    if single.HasField("partition_key"):
        own.partition_key = single.partition_key
    if single.partition_key_b64_encoded:
        own.partition_key_b64_encoded = True
    if single.HasField("ordering_key"):
        own.ordering_key = single.ordering_key
    if single.null_partition_key:
        own.null_partition_key = True
    return own.SerializePartialToString()
