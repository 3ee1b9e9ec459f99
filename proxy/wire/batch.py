"""Reading a batch's messages one by one, and seeing quickly whether all have one key.

Problem: a producer that does not batch by key puts many keys into one entry, and only inside is written whose they are.
Rule: a payload is believed only if its messages, as many as the metadata declares, fill it to the last byte.

    ([size: 4][SingleMessageMetadata][payload])*

Sizes are big endian.
Source: Pulsar's "Binary protocol specification", section "Batch messages"; `Commands` in Pulsar 4.x.
"""

import re
import struct
from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import Final

from google.protobuf.message import DecodeError

from proxy.wire.errors import BatchError
from proxy.wire.metadata import decode_key, keyless
from proxy.wire.pulsar_pb2 import MessageMetadata, SingleMessageMetadata
from proxy.wire.varints import varint

MIN_SINGLE_BYTES: Final = 6
"""A message in a batch holds at least its metadata's size and its payload's."""

_SIZE_BYTES: Final = 4
_MORE: Final = 0x80  # set in every byte of a varint but the last
_MAX_VARINT_BYTES: Final = 10
_STRIDE_COUNT_MIN: Final = 4  # below, walking costs as little
_ENDS_SEEN: Final = 2  # a varint of up to three bytes is known by its first, its last and its last but one

_unpack_size: Final = struct.Struct(">I").unpack_from
_parse: Final = SingleMessageMetadata.FromString
_new: Final = tuple.__new__


def single_sticky_key(single: SingleMessageMetadata, metadata: MessageMetadata) -> bytes:
    """As `single_key`, of a message's own metadata."""
    own = _own_key(single)
    if own is not None:
        return own
    return keyless(metadata, single.sequence_id if single.HasField("sequence_id") else metadata.sequence_id)


def own_sticky_key(metadata: MessageMetadata, payload: bytes) -> bytes:
    """As `single_sticky_key`, of the first message of an uncompressed batch payload. Raises BatchError."""
    return single_sticky_key(single_at(payload, 0)[0], metadata)


def walk_batch(
    payload: bytes, count: int, first: int = 0, start: int = 0
) -> Iterator[tuple[SingleMessageMetadata, int, int]]:
    """Metadata, and start and end of the payload, of each of the `count` messages of an uncompressed batch payload.

    One at a time, for batches that are not split at once, from message `first` on, which begins at byte `start`.
    Raises BatchError, but only where the fault is: where a message cannot be read, or behind the last if they do not
    fill the payload.
    """
    if not 0 < count <= len(payload) // MIN_SINGLE_BYTES:
        raise miscounted(payload, count)
    for _ in range(first, count):
        metadata, end = single_at(payload, start)
        yield metadata, end - metadata.payload_size, end
        start = end
    if start != len(payload):
        raise miscounted(payload, count)


def uniform(payload: bytes, count: int, outer_key: bytes | None = None) -> bool:
    """Whether all `count` messages of an uncompressed batch payload have the first one's key, or all have none.

    A key is what the broker would hash. Given the entry's own (`metadata.sticky_key`), the messages' key must be that
    one: Go's client, for one, does not say the ordering key of a batch outside. False says nothing about the messages
    behind the first one that differs. Raises BatchError where the messages do not fill
    the payload, or one of them cannot be read.
    """
    if not 0 < count <= len(payload) // MIN_SINGLE_BYTES:
        raise miscounted(payload, count)
    first, _ = single_at(payload, 0)
    key = _own_key(first)
    if key is not None and outer_key is not None and key != outer_key:
        return False
    if count >= _STRIDE_COUNT_MIN and _same_size(payload, count, first):
        return True
    if _alike(payload, count, first):
        return True
    return _uniform(payload, count, key)


def uniform_steps(payload: bytes, count: int, outer_key: bytes | None, step: int) -> Generator[None, None, bool]:
    """As `uniform`, but pauses after every `step` messages."""
    if not 0 < count <= len(payload) // MIN_SINGLE_BYTES:
        raise miscounted(payload, count)
    first, _ = single_at(payload, 0)
    key = _own_key(first)
    if key is not None and outer_key is not None and key != outer_key:
        return False
    start = 0
    for done in range(0, count, step):
        found = _uniform_run(payload, start, min(step, count - done), key)
        if found is None:
            return False
        start = found
        yield
    if start != len(payload):
        raise miscounted(payload, count)
    return True


def single_at(payload: bytes, start: int) -> tuple[SingleMessageMetadata, int]:
    """The metadata of the message at `start`, and where the message ends."""
    metadata_start = start + _SIZE_BYTES
    if metadata_start > len(payload):
        raise _past_end("size field", _SIZE_BYTES, start, payload)
    (size,) = _unpack_size(payload, start)
    metadata_end = metadata_start + size
    if metadata_end > len(payload):
        raise _past_end("metadata", size, metadata_start, payload)
    try:
        metadata = _parse(payload[metadata_start:metadata_end])
    except DecodeError:
        where = f"in the {size} bytes from byte {metadata_start} of a batch of {len(payload)}"
        raise BatchError("metadata that is no SingleMessageMetadata", where, "send valid protobuf") from None
    payload_size = metadata.payload_size
    end = metadata_end + payload_size
    if payload_size < 0 or end > len(payload):
        raise _past_end("payload", payload_size, metadata_end, payload)
    if not payload_size and not metadata.HasField("payload_size"):
        where = f"at byte {metadata_start} of a batch of {len(payload)}"
        raise BatchError("a message without payload_size", where, "set payload_size")
    return metadata, end


def _uniform(payload: bytes, count: int, key: bytes | None) -> bool:
    """Whether all messages have this key, by parsing each."""
    end = _uniform_run(payload, 0, count, key)
    if end is None:
        return False
    if end != len(payload):
        raise miscounted(payload, count)
    return True


def _uniform_run(payload: bytes, start: int, count: int, key: bytes | None) -> int | None:
    """Where `count` messages end that begin at `start`; None if one of them has another key."""
    for _ in range(count):
        metadata, start = single_at(payload, start)
        if _own_key(metadata) != key:
            return None
    return start


def _own_key(metadata: SingleMessageMetadata) -> bytes | None:
    if (key := metadata.ordering_key) or metadata.HasField("ordering_key"):
        return key
    if (key := metadata.partition_key) or metadata.HasField("partition_key"):
        return decode_key(key) if metadata.partition_key_b64_encoded else key
    return None


def _alike(payload: bytes, count: int, first: SingleMessageMetadata) -> bool:
    """Whether all messages certainly have the first one's key: by bytes, for the fields every client writes.

    Java's, C++'s and Go's clients write partition key, payload size, the Base64 flag, ordering key and sequence id in
    this order. Between messages of one key only the size and the id differ, so the bytes around them are compared
    whole. Anything else, a property or an event time too, is left to protobuf: False then.
    """
    key, flags = _around_payload_size(first)
    sized_key = payload[:_SIZE_BYTES] + key
    metadata_bytes: int
    (metadata_bytes,) = _unpack_size(payload)
    start = 0
    try:
        for _ in range(count):
            at = start + len(sized_key)
            if payload[start:at] != sized_key:
                if payload[start + _SIZE_BYTES : at] != key:
                    return False
                sized_key = payload[start:at]
                (metadata_bytes,) = _unpack_size(payload, start)
            size = payload[at]
            at += 1
            if size >= _MORE:
                size += (payload[at] << 7) - _MORE
                at += 1
                if size >= _MORE << 7:
                    size, at = _wider(payload, size, at)
            id_start = at + len(flags)
            id_last = start + _SIZE_BYTES + metadata_bytes - 1
            if payload[at:id_start] != flags or payload[id_last] >= _MORE or id_start > id_last:
                return False
            if id_start != id_last and (
                payload[id_start] < _MORE
                or payload[id_last - 1] < _MORE
                or (id_last - id_start > _ENDS_SEEN and not continues(payload, id_start, id_last))
            ):
                return False
            start = id_last + 1 + size
    except IndexError:
        return False
    return start == len(payload)


def _same_size(payload: bytes, count: int, first: SingleMessageMetadata) -> bool:
    """As `_alike`, for messages all of the first one's size: then its head recurs at one distance.

    A regular expression walks them in C: each head says the same size, so the next message begins where it should. A
    twentieth of the cost of walking here.
    """
    size, left = divmod(len(payload), count)
    if left:
        return False
    metadata_bytes: int
    (metadata_bytes,) = _unpack_size(payload)
    before, flags = _around_payload_size(first)
    head = b"".join((payload[:_SIZE_BYTES], before, varint(first.payload_size), flags))
    id_bytes = _SIZE_BYTES + metadata_bytes - len(head)
    if payload[: len(head)] != head or len(head) + id_bytes + first.payload_size != size:
        return False
    if not 0 < id_bytes <= _MAX_VARINT_BYTES:
        return False
    return _recurring(len(head), id_bytes, first.payload_size).fullmatch(payload) is not None


@lru_cache(maxsize=1_024)
def _recurring(head_bytes: int, id_bytes: int, payload_bytes: int) -> re.Pattern[bytes]:
    """Messages with one head, each with a varint and a payload of the given sizes behind it."""
    rest = rb"[\x80-\xff]{%d}[\x00-\x7f].{%d}" % (id_bytes - 1, payload_bytes)
    return re.compile(rb"(.{%d})%b(?:\1%b)*+" % (head_bytes, rest, rest), re.DOTALL)


def _wider(payload: bytes, size: int, at: int) -> tuple[int, int]:
    """A payload size with its third byte, and the offset behind it; past the end for one of more bytes."""
    size += (payload[at] << 14) - (_MORE << 7)
    return (size, at + 1) if size < _MORE << 14 else (0, len(payload))


def continues(payload: bytes, start: int, last: int) -> bool:
    """Whether all bytes of a varint but its last one say that it goes on."""
    return last - start < _MAX_VARINT_BYTES and min(payload[start:last]) >= _MORE


def _around_payload_size(first: SingleMessageMetadata) -> tuple[bytes, bytes]:
    """What stands before the payload's size, behind the metadata's, and between it and the sequence id's value."""
    key = first.partition_key
    before = b"".join((b"\x12", varint(len(key)), key, b"\x18")) if first.HasField("partition_key") else b"\x18"
    flags = b""
    if first.HasField("partition_key_b64_encoded"):
        flags += b"\x30\x01" if first.partition_key_b64_encoded else b"\x30\x00"
    if first.HasField("ordering_key"):
        flags += b"".join((b"\x3a", varint(len(first.ordering_key)), first.ordering_key))
    return before, flags + b"\x40"


def _past_end(name: str, size: int, start: int, payload: bytes) -> BatchError:
    where = f"at byte {start} of a batch of {len(payload)}"
    return BatchError(f"a {name} of {size} bytes", where, f"0 to {len(payload) - start} are left")


def miscounted(payload: bytes, count: int) -> BatchError:
    """What is wrong with a payload that `count` messages do not fill exactly."""
    return BatchError(f"a batch of {count} messages", f"in {len(payload)} bytes", "they must fill it exactly")
