"""What stands between a MESSAGE command and the payload: headers, checksum and the message's metadata.

Problem: the gateway has to know an entry's key before it can say who gets it, at every message, and must forward the
same bytes.
Rule: `peek` reads and changes nothing, copies the metadata and nothing else, and lets upb parse it. The checksum is not
verified on the way: the broker and the client both do, and it covers the payload, so it would cost more than everything
else here.

    [0x0e02][size: 4][BrokerEntryMetadata]   only if the client asked for it when it connected
    [0x0e01][CRC-32C of all that follows: 4] absent from very old producers
    [size: 4][MessageMetadata][payload]

Together they are a MESSAGE frame's "tail" in this package. Sizes are big endian.
Source: Pulsar's "Binary protocol specification", sections "Framing" and "Broker entry metadata" (PIP-70).
"""

import struct
from binascii import Error as Base64Error
from binascii import a2b_base64
from hashlib import sha256
from operator import attrgetter
from typing import Final, NamedTuple

from crc32c import crc32c
from google.protobuf.message import DecodeError

from proxy.wire.errors import MetadataError
from proxy.wire.pulsar_pb2 import MessageMetadata

MAGIC_BYTE: Final = 0x0E
CHECKSUM_BYTE: Final = 0x01
BROKER_ENTRY_BYTE: Final = 0x02
CHECKSUM_HEADER_BYTES: Final = 6
"""Magic and CRC-32C."""

SHOWN_KEY_BYTES_MAX: Final = 128
"""Of a key that is shown to people."""

UUID_CHARACTERS_MAX: Final = 256
"""Of a chunked message; longer ones are not kept."""

NONE_KEY: Final = b"NONE_KEY"
"""What the broker hashes where it can read neither a key nor a producer."""

_SIZE_BYTES: Final = 4
_BROKER_ENTRY_HEADER_BYTES: Final = 6  # magic and size

_CHECKSUM_MAGIC: Final = bytes((MAGIC_BYTE, CHECKSUM_BYTE))
_METADATA_START: Final = CHECKSUM_HEADER_BYTES + _SIZE_BYTES

_SIGN_BIT: Final = 1 << 63

_REQUIRED: Final = ("producer_name", "sequence_id", "publish_time")

_unpack_size: Final = struct.Struct(">I").unpack_from
_unpack_checksum: Final = struct.Struct(">2xI").unpack_from
_pack_size: Final = struct.Struct(">I").pack
_parse: Final = MessageMetadata.FromString
_new: Final = tuple.__new__
_uuid: Final = attrgetter("uuid")


class Peeked(NamedTuple):
    """A message's metadata and where its parts stand in the tail."""

    metadata: MessageMetadata
    metadata_start: int
    """Offset in bytes of the encoded metadata."""
    payload_start: int
    """Offset in bytes of the payload, which ends with the tail."""


def peek(tail: bytes) -> Peeked:
    """Parse the metadata of a MESSAGE or SEND frame's tail. The payload is neither copied nor checked.

    Raises MetadataError where a size goes past the end, the metadata does not parse or lacks a required field.
    """
    try:
        start = 0
        if tail[0] == MAGIC_BYTE:
            if tail[1] == BROKER_ENTRY_BYTE:
                start = _after_broker_entry(tail)
            if tail[start] == MAGIC_BYTE and tail[start + 1] == CHECKSUM_BYTE:
                start += CHECKSUM_HEADER_BYTES
        (size,) = _unpack_size(tail, start)
    except (IndexError, struct.error):
        right = f"a metadata size of {_SIZE_BYTES} bytes must stand behind the headers"
        raise MetadataError("headers that end too early", f"in a tail of {len(tail)} bytes", right) from None
    start += _SIZE_BYTES
    end = start + size
    if end > len(tail):
        raise _past_end("metadata", size, start, tail)
    try:
        metadata = _parse(tail[start:end])
    except DecodeError:
        where = f"in the {size} bytes from byte {start} of a tail of {len(tail)}"
        raise MetadataError("metadata that is no MessageMetadata", where, "send valid protobuf") from None
    # Those that are read here, one by one: asking protobuf for all of them costs as much as the parse.
    if not (metadata.sequence_id and metadata.publish_time and metadata.producer_name):
        _check_required(metadata, start)
    return _new(Peeked, (metadata, start, end))


def peek_key(tail: bytes) -> tuple[MessageMetadata, bytes, int]:
    """`peek` and `sticky_key` in one: metadata, sticky key, offset of the payload. Raises MetadataError as `peek` does.

    The layout every client of today writes (checksum, no broker entry metadata) is read in place; all others go the
    long way.
    """
    if tail[:2] == _CHECKSUM_MAGIC:
        try:
            (size,) = _unpack_size(tail, CHECKSUM_HEADER_BYTES)
            end = _METADATA_START + size
            metadata = _parse(tail[_METADATA_START:end])
        except (struct.error, DecodeError):
            pass  # `peek` says what is wrong
        else:
            complete = metadata.sequence_id and metadata.publish_time and metadata.producer_name
            if complete and end <= len(tail):
                return metadata, sticky_key(metadata), end
    metadata, _, end = peek(tail)
    return metadata, sticky_key(metadata), end


def uuid_of(metadata: MessageMetadata) -> str:
    """A chunked message's uuid, or a digest of a long one: its producer may make it as long as a message may be.

    What is no UTF-8 protobuf gives as bytes, which compiled code takes for no text.
    """
    uuid = _uuid(metadata)
    if not isinstance(uuid, str):
        uuid = repr(uuid)
    return uuid if len(uuid) <= UUID_CHARACTERS_MAX else sha256(uuid.encode()).hexdigest()


def is_chunk(metadata: MessageMetadata) -> bool:
    """Whether an entry is a piece of a larger message: one of several, by a number that there is, of one with a uuid.

    Any other that says so is a message like all: a producer may write what it likes, and no client reads that.
    A batch is none either, as for Java's and C++'s clients.
    """
    total = metadata.num_chunks_from_msg
    numbered = total > 1 and 0 <= metadata.chunk_id < total
    return numbered and bool(uuid_of(metadata)) and not metadata.HasField("num_messages_in_batch")


def shown_key(key: bytes) -> str:
    """A key as text, as much of it as people read: a key may have megabytes, and an answer a thousand of them."""
    cut = key[:SHOWN_KEY_BYTES_MAX].decode(errors="replace")
    return cut if len(key) <= SHOWN_KEY_BYTES_MAX else f"{cut}…"


def can_peek(metadata: MessageMetadata) -> bool:
    """Whether the payload can be read here: not if the producer encrypted it, since only consumers have the keys."""
    return not metadata.encryption_keys


def sticky_key(metadata: MessageMetadata) -> bytes:
    """The bytes the broker hashes to place an entry: ordering key, else partition key, else producer and sequence id.

    A key that is present and empty counts. A partition key said to be Base64 that is not gives NONE_KEY, as at the
    broker.
    Source: `Commands.resolveStickyKey` in Pulsar 4.x.
    """
    if (key := metadata.ordering_key) or metadata.HasField("ordering_key"):
        return key
    if (key := metadata.partition_key) or metadata.HasField("partition_key"):
        return decode_key(key) if metadata.partition_key_b64_encoded else key
    return keyless(metadata, metadata.sequence_id)


def keyless(metadata: MessageMetadata, sequence_id: int) -> bytes:
    """What the broker hashes for a message without a key, since apache/pulsar 23219: the id is printed as signed."""
    signed = sequence_id if sequence_id < _SIGN_BIT else sequence_id - (_SIGN_BIT << 1)
    return b"%b-%d" % (metadata.producer_name, signed)


def decode_key(key: bytes) -> bytes:
    """The bytes of a partition key sent as Base64, or NONE_KEY where Java's basic decoder would refuse it.

    That one takes no white space, and padding either complete or left out.
    """
    if b"=" not in key:
        key += b"=" * (-len(key) % 4)
    if len(key) % 4 or key.endswith(b"==="):
        return NONE_KEY  # Python's strict mode lets padding after a complete group pass
    try:
        return a2b_base64(key, strict_mode=True)
    except Base64Error:
        return NONE_KEY


def verify_checksum(tail: bytes) -> bool:
    """Whether the tail's CRC-32C is right. A tail without one is right: there is nothing to hold against it.

    Raises MetadataError where the headers end too early.
    """
    start = _after_broker_entry(tail) if tail[:2] == bytes((MAGIC_BYTE, BROKER_ENTRY_BYTE)) else 0
    if tail[start : start + 2] != bytes((MAGIC_BYTE, CHECKSUM_BYTE)):
        return True
    content = start + CHECKSUM_HEADER_BYTES
    if content > len(tail):
        where = f"at byte {start} of a tail of {len(tail)}"
        raise MetadataError("a checksum that ends too early", where, f"{CHECKSUM_HEADER_BYTES} bytes are needed")
    expected: int
    (expected,) = _unpack_checksum(tail, start)
    return crc32c(memoryview(tail)[content:]) == expected


def strip_broker_entry_metadata(tail: bytes) -> bytes:
    """The tail without its broker entry metadata; the same object where there is none.

    For a client that did not ask for it when it connected. The checksum does not cover that header, so it stays right.
    Raises MetadataError where the header goes past the end.
    """
    if tail[:2] != bytes((MAGIC_BYTE, BROKER_ENTRY_BYTE)):
        return tail
    return tail[_after_broker_entry(tail) :]


def build_tail(metadata: MessageMetadata, payload: bytes) -> bytes:
    """A tail with a right checksum and no broker entry metadata.

    Nothing is asked of the metadata: `peek` looks at the fields that are read here, so a producer's may lack one that
    only its consumers would miss, the value of a property for instance. They are told so by their own client.
    """
    return build_encoded_tail(metadata.SerializePartialToString(), payload)


def build_encoded_tail(encoded: bytes, payload: bytes) -> bytes:
    """As `build_tail`, of metadata that is encoded already."""
    sized = _pack_size(len(encoded)) + encoded
    return b"".join((_CHECKSUM_MAGIC, _pack_size(crc32c(payload, crc32c(sized))), sized, payload))


def _check_required(metadata: MessageMetadata, start: int) -> None:
    """Not those inside of it: a message whose property lacks its value is read here whatever its number is."""
    missing = [name for name in _REQUIRED if not metadata.HasField(name)]
    if missing:
        where = f"at byte {start} of a tail"
        raise MetadataError("metadata without all required fields", where, f"set {','.join(missing)}")


def _after_broker_entry(tail: bytes) -> int:
    """Offset in bytes of what follows the broker entry metadata at the start of `tail`."""
    if len(tail) < _BROKER_ENTRY_HEADER_BYTES:
        right = f"{_BROKER_ENTRY_HEADER_BYTES} bytes are needed"
        raise MetadataError("a broker entry header that ends too early", f"in a tail of {len(tail)} bytes", right)
    size: int
    (size,) = _unpack_size(tail, 2)
    end = _BROKER_ENTRY_HEADER_BYTES + size
    if end > len(tail):
        raise _past_end("broker entry metadata", size, _BROKER_ENTRY_HEADER_BYTES, tail)
    return end


def _past_end(name: str, size: int, start: int, tail: bytes) -> MetadataError:
    where = f"at byte {start} of a tail of {len(tail)}"
    return MetadataError(f"a {name} size of {size}", where, f"at most {len(tail) - start} bytes are left")
