"""Fuzzing what is read by hand: an entry's key, and an ACK.

Input: a tail, or an ACK behind its first bytes, by the first byte of the input. Promise: what is read by hand is what
protobuf reads, and nothing is that protobuf refuses, or that means more than was read.
"""

from __future__ import annotations

from collections.abc import Iterable

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.by_hand import plain_ack, plain_key
from proxy.wire.errors import FrameError, MetadataError
from proxy.wire.frames import encode_message, frame_type, parse_command
from proxy.wire.metadata import peek_key
from tests.fuzz.target import Target, golden_frames, promise
from tests.wire.builders import tail_of

HEADERS = b"\x0e\x01sum!"
ACK_START = b"\x08\x0a\x52"
IDS_ALONE = {"ledgerId", "entryId", "partition", "batch_index", "batch_size"}


def check_tail(tail: bytes) -> None:
    """A key by hand, and protobuf's."""
    key = plain_key(tail)
    if key is None:
        return
    try:
        metadata, expected, _ = peek_key(tail)
    except MetadataError:
        promise(False, "a key is read only where protobuf reads one")
        return
    promise(key == expected, "the key is protobuf's")
    promise(metadata.num_messages_in_batch <= 1 and not metadata.num_chunks_from_msg, "the entry is one message")


def check_ack(frame: bytes) -> None:
    """An ACK by hand, and protobuf's."""
    read = plain_ack(frame)
    if read is None:
        return
    try:
        command = parse_command(frame)
    except FrameError:
        promise(False, "an ACK is read only where protobuf reads one")
        return
    promise(frame_type(frame) == command.type == pb.BaseCommand.ACK, "it is an ACK")
    body = command.ack
    ids = [number for place in body.message_id for number in (place.ledgerId, place.entryId)]
    promise(read == (body.consumer_id, ids), "the numbers are protobuf's")
    promise({field.name for field, _ in body.ListFields()} <= {"consumer_id", "ack_type", "message_id"}, "no more")
    promise(not body.ack_type, "it acknowledges one by one")
    for place in body.message_id:
        promise({field.name for field, _ in place.ListFields()} <= IDS_ALONE, "it acknowledges whole entries")


def run(data: bytes) -> None:
    """Read an input as a tail, its metadata alone as one, or the inside of an ACK, with and without its size."""
    kind, data = data[:1], data[1:]
    if kind in {b"\0", b""}:
        check_tail(data)
    elif kind == b"\1":
        check_tail(HEADERS + len(data).to_bytes(4, "big") + data + b"payload")
    elif kind == b"\2":
        check_ack(encode_message(ACK_START + bytes((len(data) % 128,)) + data, b""))
    elif len(data) > 1:
        check_ack(encode_message(data, b""))


def seeds() -> Iterable[bytes]:
    """Tails and ACKs of official clients."""
    for frame in golden_frames():
        if tail := tail_of(frame):
            yield b"\0" + tail
            yield b"\1" + tail[10 : 10 + int.from_bytes(tail[6:10], "big")]
        elif frame_type(frame) == pb.BaseCommand.ACK:
            yield b"\2" + frame[12:]
            yield b"\3" + frame[8:]


TARGET = Target("by_hand", run, seeds)
