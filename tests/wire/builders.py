"""Frames, tails and batches for tests, built with protobuf alone, never with the code under test."""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from proxy.wire.frames import FrameSplitter, payload_start
from proxy.wire.pulsar_pb2 import BaseCommand, MessageMetadata, SingleMessageMetadata

GOLDEN = Path(__file__).parent / "golden"
MAX_FRAME_BYTES = 1 << 22

UNKNOWN_FIELD = b"\xf2\x3e\x03new"
"""Field 1006, length-delimited: a field no version of the protocol has."""

MINUS_ONE_PARTITION = b"\x18" + b"\xff" * 9 + b"\x01"


def golden(name: str) -> list[bytes]:
    """The frames of one recording of an official client (see capture.py)."""
    return FrameSplitter(MAX_FRAME_BYTES).feed((GOLDEN / f"{name}.bin").read_bytes())


def tail_of(frame: bytes) -> bytes:
    """What follows a frame's command."""
    return frame[payload_start(frame) :]


def frame_of(command: bytes, tail: bytes = b"") -> bytes:
    """A frame around encoded bytes, which need not be a command."""
    return struct.pack(">II", 4 + len(command) + len(tail), len(command)) + command + tail


def message_command(
    consumer_id: int,
    ledger: int,
    entry: int,
    redelivery_count: int = 0,
    ack_set: Iterable[int] = (),
    partition: int | None = -1,
) -> BaseCommand:
    """A MESSAGE command as a broker sends it."""
    command = BaseCommand(type=BaseCommand.MESSAGE)
    command.message.consumer_id = consumer_id
    command.message.message_id.ledgerId = ledger
    command.message.message_id.entryId = entry
    if partition is not None:
        command.message.message_id.partition = partition
    if redelivery_count:
        command.message.redelivery_count = redelivery_count
    command.message.ack_set.extend(ack_set)
    return command


def metadata_of(**fields: object) -> MessageMetadata:
    """A message's metadata with its required fields."""
    required: dict[str, object] = {"producer_name": b"shop-1", "sequence_id": 7, "publish_time": 1_700_000_000_000}
    return MessageMetadata(**(required | fields))  # type: ignore[arg-type]  # any field of it


class Written(NamedTuple):
    """One message to put into a batch."""

    payload: bytes
    key: bytes | None = None
    ordering_key: bytes | None = None
    sequence_id: int | None = None
    b64: bool | None = None
    event_time: int | None = None


def single_of(message: Written) -> bytes:
    """A message as it stands in a batch."""
    metadata = SingleMessageMetadata(payload_size=len(message.payload))
    if message.key is not None:
        metadata.partition_key = message.key
    if message.ordering_key is not None:
        metadata.ordering_key = message.ordering_key
    if message.sequence_id is not None:
        metadata.sequence_id = message.sequence_id
    if message.b64 is not None:
        metadata.partition_key_b64_encoded = message.b64
    if message.event_time is not None:
        metadata.event_time = message.event_time
    encoded = metadata.SerializeToString()
    return struct.pack(">I", len(encoded)) + encoded + message.payload


def batch_of(messages: Iterable[Written]) -> bytes:
    """An uncompressed batch payload."""
    return b"".join(single_of(message) for message in messages)
