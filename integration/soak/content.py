"""The content of the soak's messages, and how they are packed: unbatched, or several keys in one batch."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.batch import walk_batch
from proxy.wire.frames import encode_message
from proxy.wire.metadata import build_tail, peek

if TYPE_CHECKING:
    from collections.abc import Sequence

_RECORD: Final = struct.Struct(">IIQQ")
_PADDING: Final = bytes(76)
BATCH_MESSAGES: Final = 4


class Content(NamedTuple):
    """One message."""

    topic: int
    key: int
    sequence: int
    """Of its key, without gaps from 0."""
    sent_ns: int
    """By the monotonic clock, which all processes of a machine share."""


def send_frame(producer_id: int, sequence_id: int, messages: Sequence[Content]) -> bytes:
    """SEND of one message, or of a batch."""
    command = pb.BaseCommand(type=pb.BaseCommand.SEND)
    command.send.producer_id, command.send.sequence_id = producer_id, sequence_id
    metadata = pb.MessageMetadata(
        producer_name=b"soak", sequence_id=sequence_id, publish_time=1, partition_key=b"%d" % messages[0].key
    )
    if len(messages) == 1:
        payload = _PADDING + _RECORD.pack(*messages[0])
    else:
        command.send.num_messages = metadata.num_messages_in_batch = len(messages)
        payload = b"".join(_single(message) for message in messages)
        metadata.uncompressed_size = len(payload)
    return encode_message(command.SerializeToString(), build_tail(metadata, payload))


def contents(tail: bytes) -> list[Content]:
    """The messages of an entry, or of a slice of one."""
    metadata, _, start = peek(tail)
    payload = tail[start:]
    if not metadata.HasField("num_messages_in_batch"):
        return [_read(payload)]
    return [_read(payload[:end]) for _, _, end in walk_batch(payload, metadata.num_messages_in_batch)]


def _single(message: Content) -> bytes:
    payload = _PADDING + _RECORD.pack(*message)
    fields = pb.SingleMessageMetadata(payload_size=len(payload), partition_key=b"%d" % message.key)
    encoded = fields.SerializeToString()
    return struct.pack(">I", len(encoded)) + encoded + payload


def _read(payload: bytes) -> Content:
    return Content(*_RECORD.unpack(payload[-_RECORD.size :]))
