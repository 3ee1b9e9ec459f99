"""Fuzzing the reading and rewriting of MESSAGE frames, with the layouts they are remembered by.

Input: commands, each behind its size, some made of fields and some of any bytes; all of them are framed rightly and
read in a row, twice. Promise: whatever was read before, `parse_message` says what protobuf says, and a frame written
for another consumer differs in the consumer id and in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from proxy.wire import messages
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.errors import FrameError
from proxy.wire.frames import encode_message, parse_command, payload_start
from proxy.wire.messages import MessageHead, parse_message
from proxy.wire.varints import varint
from tests.fuzz.target import Choices, Target, golden_frames, promise, sized
from tests.wire.message_frames import message_frame

UINT64 = (1 << 64) - 1
ANY_BYTES = 0
FRAMES_MAX = 40


def forget_layouts() -> None:
    """Begin as a fresh process does, so that an input means the same every time."""
    messages._layouts.clear()
    messages._starts.clear()
    messages._common_extras.clear()


def loose_varint(choices: Choices) -> bytes:
    """A number in as few bytes as possible, or in more: protobuf reads both."""
    encoded = bytearray(varint(choices.varint()))
    for _ in range(min(choices.number(4), 9 - len(encoded)) if choices.flag() else 0):
        encoded[-1] |= 0x80
        encoded.append(0)
    return bytes(encoded)


def made_command(choices: Choices) -> bytes:
    """A MESSAGE command field by field, in any order, with fields missing, repeated, padded or unknown."""
    place = b"".join(
        bytes((choices.number(16) << 3,)) + loose_varint(choices)
        if choices.flag()
        else b"\x08" + loose_varint(choices) + b"\x10" + loose_varint(choices)
        for _ in range(1 + choices.number(3))
    )
    pieces = [b"\x08" + loose_varint(choices), b"\x12" + varint(len(place)) + place]
    pieces += [bytes(((1 + choices.number(15)) << 3,)) + loose_varint(choices) for _ in range(choices.number(4))]
    if choices.flag():
        pieces.reverse()
    body = b"".join(pieces)
    return b"\x08\x09\x4a" + varint(len(body)) + body + choices.take(choices.number(4))


def commands_of(data: bytes) -> list[bytes]:
    """The commands an input stands for."""
    choices = Choices(data)
    commands: list[bytes] = []
    while choices and len(commands) < FRAMES_MAX:
        commands.append(choices.sized() if choices.number(2) == ANY_BYTES else made_command(choices))
    return commands


def read(frame: bytes) -> MessageHead | None:
    """What `parse_message` says, or None where it refuses."""
    try:
        return parse_message(frame)
    except FrameError:
        return None


def expected(frame: bytes) -> pb.CommandMessage | None:
    """What protobuf says."""
    try:
        command = parse_command(frame)
    except FrameError:
        return None
    return command.message if command.type == pb.BaseCommand.MESSAGE else None


def check(frame: bytes) -> None:
    """One frame, read, rewritten and read again."""
    head, command = read(frame), expected(frame)
    promise((head is None) == (command is None), "a frame is refused exactly where protobuf refuses it")
    if head is None or command is None:
        return
    place = command.message_id
    numbers = (command.consumer_id, place.ledgerId, place.entryId, command.redelivery_count)
    promise((head.consumer_id, head.ledger, head.entry, head.redelivery_count) == numbers, "the numbers are protobuf's")
    words = {} if head.ack_set is None else dict(enumerate(head.ack_set))
    promise(words == dict(enumerate(command.ack_set)), "the ack set is protobuf's")
    promise(head.tail == frame[payload_start(frame) :], "the tail is all behind the command")
    written = head.ledger, head.entry, head.redelivery_count, head.tail, head.ack_set or (), head.extras
    again = message_frame(head.consumer_id, *written)
    rewritten, other = expected(again), expected(message_frame(77, *written))
    promise(rewritten is not None and other is not None, "what is written can be read")
    if rewritten is not None and other is not None:
        promise(same(rewritten, command), "what is written says what was read")
        promise(other.consumer_id == 77, "a frame for another consumer names it")
        other.consumer_id = command.consumer_id
        promise(same(other, command), "a frame for another consumer says the same otherwise")


def same(left: pb.CommandMessage, right: pb.CommandMessage) -> bool:
    """Whether two commands say the same; a redelivery count of 0 may be said or left out."""
    for message in (left, right):
        if not message.redelivery_count:
            message.ClearField("redelivery_count")
    return left == right


def run(data: bytes) -> None:
    """Read all frames in a row, twice: the second time their layouts are known."""
    forget_layouts()
    frames = [encode_message(command, b"\x0e\x01tail") for command in commands_of(data) if len(command) > 1]
    for frame in frames + frames:
        check(frame)


def seeds() -> Iterable[bytes]:
    """The broker's messages as they came, with the same between, and made ones."""
    commands = [frame[8 : payload_start(frame)] for frame in golden_frames()]
    found = [command for command in commands if command.startswith(b"\x08\x09")]
    yield from (b"\0" + sized(command) for command in found)
    yield b"".join(b"\0" + sized(command) for command in found)
    yield bytes.fromhex("01 00 05 00 07 01 03 02 00 09 00 04") * 3
    yield bytes(range(1, 120)) * 2


TARGET = Target("messages", run, seeds, 2048)
