"""A parked message: what its copy in the parking topic says besides, and the message as it was.

Rule: a worker gets a redriven message with what its producer sent: payload, key, properties, event time, and the
producer's name, sequence id and time of publishing, which the copy keeps among its properties. These have names that no
producer may bring along: what a message has under them is dropped before it is parked.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from proxy.wire.errors import WireError
from proxy.wire.metadata import build_encoded_tail, is_chunk, peek, peek_key, shown_key, uuid_of
from proxy.wire.pulsar_pb2 import KeyValue, MessageMetadata

PREFIX: Final = "keyline.parked."
ORIGIN: Final = PREFIX + "origin"
HASH: Final = PREFIX + "hash"
PRODUCER: Final = PREFIX + "producer"
SEQUENCE: Final = PREFIX + "sequence-id"
TIME: Final = PREFIX + "publish-time"
SCHEMA: Final = PREFIX + "schema-version"
ATTEMPTS: Final = PREFIX + "attempts"
TOPIC: Final = PREFIX + "topic"
SUBSCRIPTION: Final = PREFIX + "subscription"
MARK: Final = PREFIX + "mark"
_SMALL_MAX: Final = (1 << 32) - 1


class Parked(NamedTuple):
    """What is known of one."""

    position: int
    """Packed, of the entry that it was in."""
    place: int | None
    """In its batch; None if it was not in one, or is a whole one."""
    hashed: int
    """Of its key, before it is brought into the range of slots."""
    key: str
    """As `shown_key` gives it."""
    attempts: int
    publish_time_ms: int
    size: int
    messages: int
    whose: tuple[str, str]
    """Topic and subscription that it is parked of."""
    chunk: tuple[str, int, int] | None
    """Of a chunked message: its uuid, or a digest of a long one; which chunk, of how many."""


def keep(
    metadata: MessageMetadata,
    whose: tuple[str, str],
    origin: tuple[int, int | None],
    hashed: int,
    attempts: int,
    schema_version: bytes,
) -> None:
    """Say in a copy's metadata what it is a copy of; before its producer is replaced."""
    others = [pair for pair in metadata.properties if not _is_said(pair)]
    position, index = origin
    said = {
        ORIGIN: f"{position}:{-1 if index is None else index}",
        HASH: str(hashed),
        PRODUCER: metadata.producer_name.decode(errors="replace"),
        SEQUENCE: str(metadata.sequence_id),
        TIME: str(metadata.publish_time),
        SCHEMA: schema_version.hex(),
        ATTEMPTS: str(min(attempts, _SMALL_MAX)),
        TOPIC: whose[0],
        SUBSCRIPTION: whose[1],
    }
    others += [KeyValue(key=name, value=value) for name, value in said.items()]
    del metadata.properties[:]
    metadata.properties.extend(others)


def mark(name: str) -> MessageMetadata:
    """The metadata of a message that only says that its reader has come so far."""
    return MessageMetadata(properties=[KeyValue(key=MARK, value=name)])


def mark_of(tail: bytes) -> str | None:
    """The name, if it is such a message."""
    try:
        return _said(peek(tail).metadata).get(MARK)
    except WireError:
        return None


def read(tail: bytes) -> Parked | None:
    """What a copy says of itself; None for what another publisher wrote there."""
    try:
        metadata, key, start = peek_key(tail)
        said = _said(metadata)
        position, index = map(int, said[ORIGIN].split(":"))
        keyed = metadata.HasField("partition_key") or metadata.HasField("ordering_key")
        chunked = is_chunk(metadata)
        count = max(metadata.num_messages_in_batch, 1)
        if count > 1 and index >= 0:
            return None  # one of a batch is parked alone
        _restore(metadata, said)  # or it could not be redriven
        return Parked(
            position,
            None if index < 0 else index,
            _small(said[HASH]),
            shown_key(key) if keyed else "",
            _small(said[ATTEMPTS]),
            int(said[TIME]),
            len(tail) - start,
            count,
            (said[TOPIC], said[SUBSCRIPTION]),
            (uuid_of(metadata), metadata.chunk_id, metadata.num_chunks_from_msg) if chunked else None,
        )
    except (WireError, KeyError, TypeError, ValueError, AttributeError):  # what is no text, protobuf gives as bytes
        return None


def _small(said: str) -> int:
    """Raises ValueError for what no hash and no number of attempts is."""
    number = int(said)
    if not 0 <= number <= _SMALL_MAX:
        raise ValueError(said)
    return number


def restored_tail(tail: bytes) -> bytes:
    """The message as it was, of a copy that `read` could read."""
    metadata, _, start = peek(tail)
    _restore(metadata, _said(metadata))
    return build_encoded_tail(metadata.SerializePartialToString(), tail[start:])


def _restore(metadata: MessageMetadata, said: dict[str, str]) -> None:
    """Raises KeyError, TypeError or ValueError where something else is said than `keep` says."""
    metadata.producer_name = said[PRODUCER].encode()
    metadata.sequence_id = int(said[SEQUENCE])
    metadata.publish_time = int(said[TIME])
    if said.get(SCHEMA):
        metadata.schema_version = bytes.fromhex(said[SCHEMA])
    others = [pair for pair in metadata.properties if not _is_said(pair)]
    del metadata.properties[:]
    metadata.properties.extend(others)


def _said(metadata: MessageMetadata) -> dict[str, str]:
    return {pair.key: pair.value for pair in metadata.properties if _is_said(pair)}


def _is_said(pair: KeyValue) -> bool:
    """A producer's key may be no text: protobuf gives it as bytes then."""
    return str(pair.key).startswith(PREFIX)
