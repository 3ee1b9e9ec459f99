"""A message as it is published once more, to the topic of those that have failed.

Rule: an ordinary client reads there what it would have read here: the same key, properties, event time and payload. A
message of a batch is published alone, since its neighbours are not meant; it is compressed as its batch was. What is
encrypted stays so, with its keys: the gateway cannot open it, and a batch of it goes whole. What belongs to the first
publishing is left out: its transaction, its delay, its schema version, which counts that topic's schemas.

The names of the properties that tell where a message came from are the Java client's, so that tools know them.
Source: `RetryMessageUtil` and `ConsumerImpl.getPropertiesMap` in Pulsar's Java client.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from proxy.wire.batch import single_at
from proxy.wire.codecs import compress, opened_payload
from proxy.wire.errors import WireError
from proxy.wire.metadata import build_encoded_tail, peek
from proxy.wire.pulsar_pb2 import NONE, KeyValue, MessageMetadata, SingleMessageMetadata

PLACE_BYTES: Final = 8 << 10
"""By so much a copy may be larger than the broker's limit, since it says more: a broker has room for 10 KiB beyond."""

_OF_THE_FIRST: Final = (
    "compacted_batch_indexes",
    "deliver_at_time",
    "highest_sequence_id",
    "marker_type",
    "replicate_to",
    "replicated_from",
    "schema_id",
    "schema_version",
    "txnid_least_bits",
    "txnid_most_bits",
)
_OF_A_MESSAGE: Final = (
    "event_time",
    "null_partition_key",
    "null_value",
    "ordering_key",
    "partition_key",
    "partition_key_b64_encoded",
)
_OF_A_CHUNK: Final = ("chunk_id", "num_chunks_from_msg", "total_chunk_msg_size", "uuid")
"""A batch is none, whatever it says, and a message of it would be."""
_OF_A_BATCH: Final = (
    "compression",
    "num_messages_in_batch",
    "properties",
    "uncompressed_size",
    *_OF_A_CHUNK,
    *_OF_A_MESSAGE,
)


class Published(NamedTuple):
    """What goes into a SEND, but for its producer, sequence id and time."""

    metadata: MessageMetadata
    payload: bytes

    @property
    def size(self) -> int:
        """In bytes, as far as they are known here. `ByteSize` insists on required fields, which a producer may omit."""
        return len(self.metadata.SerializePartialToString()) + len(self.payload)


def origin_properties(topic: str, subscription: str, origin: str) -> dict[str, str]:
    """Where a message came from; `origin` is its id, as Java's client prints it."""
    return {
        "REAL_TOPIC": topic,
        "REAL_SUBSCRIPTION": subscription,
        "ORIGIN_MESSAGE_ID": origin,
        "ORIGIN_MESSAGE_IDY_TIME": origin,  # Java's client sets both
    }


def with_properties(metadata: MessageMetadata, added: dict[str, str]) -> None:
    """Add properties, but for those that the message has: they are of an earlier time that it went this way."""
    present = {pair.key for pair in metadata.properties}
    metadata.properties.extend(KeyValue(key=key, value=value) for key, value in added.items() if key not in present)


def published_again(tail: bytes, bytes_max: int, compression: int = NONE) -> Published:
    """The one message of an entry's or slice's tail, or the entry whole if it is another or cannot be opened.

    `bytes_max` bounds what it may take uncompressed. `compression` is that of the batch that a slice was cut from: it
    is not compressed itself.

    Raises:
        WireError: its metadata cannot be read.
    """
    metadata, _, start = peek(tail)
    published = _alone(metadata, tail, start, bytes_max, compression) or Published(metadata, tail[start:])
    for field in _OF_THE_FIRST:
        published.metadata.ClearField(field)
    return published


def tail_of(published: Published, producer_name: bytes, sequence_id: int, publish_time_ms: int) -> bytes:
    """What is sent of it."""
    metadata = published.metadata
    metadata.producer_name = producer_name
    metadata.sequence_id = sequence_id
    metadata.publish_time = publish_time_ms
    return build_encoded_tail(metadata.SerializePartialToString(), published.payload)


def _alone(metadata: MessageMetadata, tail: bytes, start: int, bytes_max: int, compression: int) -> Published | None:
    """The message of a batch of one; None if it is none, or cannot be opened."""
    if metadata.encryption_keys or not metadata.HasField("num_messages_in_batch") or metadata.num_messages_in_batch > 1:
        return None
    try:
        payload = opened_payload(tail, start, metadata.compression, metadata.uncompressed_size, bytes_max)
        single, end = single_at(payload, 0)
        if end != len(payload):
            return None
        own = payload[end - single.payload_size :]
        made = _own_metadata(metadata, single)
        if compression := compression or metadata.compression:
            made.compression, made.uncompressed_size = compression, len(own)  # type: ignore[assignment]
            own = compress(compression, own)
    except WireError:
        return None
    return Published(made, own)


def _own_metadata(batch: MessageMetadata, single: SingleMessageMetadata) -> MessageMetadata:
    made = MessageMetadata()
    made.CopyFrom(batch)
    for field in _OF_A_BATCH:
        made.ClearField(field)
    for field in _OF_A_MESSAGE:
        if single.HasField(field):
            setattr(made, field, getattr(single, field))
    made.properties.extend(single.properties)
    return made
