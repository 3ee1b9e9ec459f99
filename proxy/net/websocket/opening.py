"""From an entry to its messages: the work of a Pulsar client between a MESSAGE and its application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy.net.subscription.batch_slots import BATCH_MESSAGES_MAX
from proxy.net.websocket.message import Encryption, SocketMessage
from proxy.net.websocket.message_position import WHOLE, MessagePosition
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.batch import single_sticky_key, walk_batch
from proxy.wire.codecs import decompress
from proxy.wire.errors import WireError
from proxy.wire.metadata import can_peek, is_chunk, peek, sticky_key, verify_checksum
from proxy.wire.pulsar_pb2 import MessageMetadata, SingleMessageMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from proxy.wire.messages import MessageHead

OPENED_BYTES_MAX: Final = 64 << 20
"""Of one payload, uncompressed."""

_WORD_BITS: Final = 64


class Entry(NamedTuple):
    """A MESSAGE with its metadata parsed."""

    head: MessageHead
    metadata: MessageMetadata
    payload: bytes
    topic: str
    partition: int

    @property
    def messages(self) -> int:
        """The permits that it took."""
        return min(max(self.metadata.num_messages_in_batch, 1), BATCH_MESSAGES_MAX)

    @property
    def chunk(self) -> bool:
        """Whether it is one of several that make one message."""
        return is_chunk(self.metadata)

    @property
    def encrypted(self) -> bool:
        """Whether only its consumers can read it."""
        return not can_peek(self.metadata)

    @property
    def position(self) -> MessagePosition:
        """Of the entry as a whole."""
        return MessagePosition(self.partition, self.head.ledger, self.head.entry, WHOLE, 0)


@dataclass(slots=True)
class Reading:
    """How far a batch was read; it may be opened more than once."""

    messages: int = 0
    bytes: int = 0
    """Of the plain payload."""


class UnreadableError(Exception):
    """An entry that no client could read; `why` is the validation error with which Pulsar's clients acknowledge it."""

    def __init__(self, message: str, why: pb.CommandAck.ValidationError) -> None:
        """`message` says what is wrong."""
        super().__init__(message)
        self.why = why


class TooLargeError(Exception):
    """A message that the gateway does not open; another kind of client may."""


def read_entry(head: MessageHead, topic: str, partition: int) -> Entry:
    """Read an entry's metadata. Raises `UnreadableError`."""
    try:
        if not verify_checksum(head.tail):
            raise UnreadableError("the checksum is wrong", pb.CommandAck.ChecksumMismatch)
        metadata, _, start = peek(head.tail)
    except WireError as error:
        raise UnreadableError(str(error), pb.CommandAck.BatchDeSerializeError) from error
    return Entry(head, metadata, head.tail[start:], topic, partition)


def opened_bytes(entry: Entry) -> int:
    """The decompressed size of the payload; 0 if it is not compressed, or claims too much."""
    metadata = entry.metadata
    packed = metadata.compression != pb.NONE and not entry.encrypted
    return metadata.uncompressed_size if packed and metadata.uncompressed_size <= OPENED_BYTES_MAX else 0


def plain_payload(entry: Entry, payload: bytes) -> bytes:
    """The payload that the producer sent; unchanged if it is encrypted.

    `payload` is that of all chunks, if it is one. Raises `UnreadableError` and `TooLargeError`.
    """
    metadata = entry.metadata
    if entry.encrypted:
        return payload
    if metadata.compression != pb.NONE and metadata.uncompressed_size > OPENED_BYTES_MAX:
        message = f"a payload of {metadata.uncompressed_size:,} bytes; the limit is {OPENED_BYTES_MAX:,}"
        raise TooLargeError(message)
    try:
        return decompress(metadata.compression, payload, metadata.uncompressed_size, OPENED_BYTES_MAX)
    except WireError as error:
        raise UnreadableError(str(error), pb.CommandAck.DecompressionError) from error


def open_entry(entry: Entry, plain: bytes, reading: Reading) -> Iterator[SocketMessage | MessagePosition]:
    """Each unacknowledged message of an entry, one by one on demand; of a batch those behind `reading`, which goes on.

    `plain` is its plain payload. A message that was compacted away has only its position. Raises `UnreadableError`,
    possibly after messages that could be read.
    """
    metadata = entry.metadata
    if entry.encrypted:
        return iter((_whole(entry, plain, _encryption(metadata)),))
    if not metadata.HasField("num_messages_in_batch"):
        return iter((_whole(entry, b"" if metadata.null_value else plain, None),))
    return _singles(entry, plain, reading)


def _singles(entry: Entry, plain: bytes, reading: Reading) -> Iterator[SocketMessage | MessagePosition]:
    """The messages of a batch."""
    unacknowledged = _unacknowledged(entry.head.ack_set)
    try:
        for own, start, end in walk_batch(plain, entry.metadata.num_messages_in_batch, reading.messages, reading.bytes):
            index, reading.messages, reading.bytes = reading.messages, reading.messages + 1, end
            if not unacknowledged(index):
                continue
            single = _single(entry, index, own, plain[start:end])
            yield single.position if own.compacted_out else single
    except WireError as error:
        raise UnreadableError(str(error), pb.CommandAck.BatchDeSerializeError) from error


def _unacknowledged(ack_set: tuple[int, ...] | None) -> Callable[[int], bool]:
    """Whether a message of a batch is still to be acknowledged, by its index."""
    if ack_set is None:
        return lambda _: True
    words = ack_set
    return lambda index: index // _WORD_BITS < len(words) and bool(words[index // _WORD_BITS] >> index % _WORD_BITS & 1)


def _whole(entry: Entry, payload: bytes, encryption: Encryption | None) -> SocketMessage:
    metadata = entry.metadata
    return SocketMessage(
        position=entry.position,
        topic=entry.topic,
        payload=payload,
        key=metadata.partition_key if metadata.HasField("partition_key") else None,
        key_base64=metadata.partition_key_b64_encoded,
        ordering_key=metadata.ordering_key if metadata.HasField("ordering_key") else None,
        sticky_key=sticky_key(metadata),
        properties=_properties(metadata.properties),
        publish_time_ms=metadata.publish_time,
        event_time_ms=metadata.event_time,
        producer_name=_text(metadata.producer_name),
        sequence_id=metadata.sequence_id,
        schema_version=metadata.schema_version,
        redelivery_count=entry.head.redelivery_count,
        encryption=encryption,
    )


def _single(entry: Entry, index: int, own: SingleMessageMetadata, payload: bytes) -> SocketMessage:
    outer = entry.metadata
    return SocketMessage(
        position=MessagePosition(
            entry.partition, entry.head.ledger, entry.head.entry, index, outer.num_messages_in_batch
        ),
        topic=entry.topic,
        payload=b"" if own.null_value else payload,
        key=own.partition_key if own.HasField("partition_key") else None,
        key_base64=own.partition_key_b64_encoded,
        ordering_key=own.ordering_key if own.HasField("ordering_key") else None,
        sticky_key=single_sticky_key(own, outer),
        properties=_properties(own.properties),
        publish_time_ms=outer.publish_time,
        event_time_ms=own.event_time or outer.event_time,
        producer_name=_text(outer.producer_name),
        sequence_id=own.sequence_id if own.HasField("sequence_id") else outer.sequence_id,
        schema_version=outer.schema_version,
        redelivery_count=entry.head.redelivery_count,
        encryption=None,
    )


def _encryption(metadata: Any) -> Encryption:
    return Encryption(
        keys={_text(key.key): (key.value, _properties(key.metadata)) for key in metadata.encryption_keys},
        param=metadata.encryption_param,
        algorithm=_text(metadata.encryption_algo),
        compression=pb.CompressionType.Name(metadata.compression),
        uncompressed_bytes=metadata.uncompressed_size,
        batch_size=metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None,
    )


def _properties(pairs: Iterable[Any]) -> dict[str, str]:
    return {_text(pair.key): _text(pair.value) for pair in pairs}


def _text(data: Any) -> str:
    """A field of type string, which protobuf gives as bytes if it is no UTF-8."""
    return data if isinstance(data, str) else data.decode(errors="replace")
