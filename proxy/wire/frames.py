"""Cutting a byte stream into Pulsar's frames, and reading and writing the command in one.

Problem: at tens of thousands of frames a second most frames are only passed on, and their cost is the cost of touching
them.
Rule: a frame stays the very bytes that arrived, its size field included, so that a relay writes it as it is; the
command's type is read from two bytes; protobuf's C runtime (upb) parses a command only where it is used.
Why not a streaming reader per field: one `bytes` per frame is what a socket writes, and slicing is the cheapest copy
there is.

    [total size: 4][command size: 4][BaseCommand]                           a simple command
    [total size: 4][command size: 4][BaseCommand][headers and payload]      SEND and MESSAGE (see `metadata`)

Sizes are big endian; the total size does not count its own four bytes.
Source: Pulsar's "Binary protocol specification", section "Framing".
"""

from collections import deque
from functools import cache
from struct import Struct
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from proxy.wire.errors import FrameError
from proxy.wire.pulsar_pb2 import BaseCommand

SIZE_BYTES: Final = 4
"""Bytes of the total size field; those of the command size field too."""

COMMAND_START: Final = 8
"""Offset in bytes of the command in a frame."""

MIN_COMMAND_BYTES: Final = 2
"""The smallest command holds its type and nothing else."""

MIN_FRAME_BYTES: Final = COMMAND_START + MIN_COMMAND_BYTES

_TYPE_TAG: Final = 0x08  # field 1, varint: protobuf writes fields in order, so a command starts with its type
_BIT_8: Final = 0x80
_WIRE_TYPE: Final = 0x07
_LENGTH_DELIMITED: Final = 2
_SHORT_TAG: Final = _BIT_8 | _WIRE_TYPE
_SHORT_BODY_HEAD_BYTES: Final = 2
"""Tag and length of a body under 128 bytes that fills its command: nearly all are like this, and are seen at once."""

APART_BYTES: Final = 32 << 10
"""Of a MESSAGE that is larger, the tail may be cut apart: to copy it once more would cost more than all else."""
USUAL_MESSAGE_START: Final = b"\x08\x09"
"""How a MESSAGE command begins wherever protobuf's fields are written in order: its type, in two bytes."""

UNCALLED_BYTES_MAX: Final = 1 << 10
"""Of a command beside the body that its type calls for. A reader that keeps the body keeps all of them in memory."""
MESSAGES_WITH_TEXT_MAX: Final = 10_000
"""Properties and the like in one command: each is looked at, and a frame of 5 MiB has room for 900,000 empty ones."""

PIECES_MAX: Final = 256
"""Pieces of a frame that are kept as they came; so many are joined to one. One of 2 bytes takes the memory of 50."""

_unpack_size: Final = Struct(">I").unpack_from
_unpack_sizes: Final = Struct(">II").unpack_from
_unpack_head: Final = Struct(">IIBB").unpack_from
_pack_sizes: Final = Struct(">II").pack


class FrameSplitter:
    """Cuts what arrives on one connection into whole frames.

    Every byte is copied once into its frame, but for the first few bytes of one that tell its size, and once more if
    the frame arrives in very many pieces. At most one frame's bytes, the pieces it began in and the piece being fed
    are held.
    """

    __slots__ = (
        "_apart_bytes",
        "_error",
        "_held_bytes",
        "_max_frame_bytes",
        "_needed_bytes",
        "_pieces",
        "_whole",
        "tails",
    )

    def __init__(self, max_frame_bytes: int, *, apart: bool = False) -> None:
        """`max_frame_bytes` counts a whole frame with its size field: at a broker, `maxMessageSize` plus 10 KiB.

        With `apart`, of a MESSAGE above `APART_BYTES` only what stands before its tail is among the frames (`is_cut`);
        the tails are in `tails`, in the same order.
        """
        if max_frame_bytes < MIN_FRAME_BYTES:
            raise ValueError(f"max_frame_bytes is {max_frame_bytes}; no frame is under {MIN_FRAME_BYTES} bytes")
        self._max_frame_bytes = max_frame_bytes
        self._apart_bytes = APART_BYTES if apart else max_frame_bytes
        self.tails: deque[bytes] = deque()
        """For the reader to take."""
        self._pieces: list[bytes | memoryview] = []
        self._whole = 0
        """How many of these were joined from many, and stand first."""
        self._held_bytes = 0
        self._needed_bytes = 0
        self._error: FrameError | None = None

    def allow(self, max_frame_bytes: int) -> None:
        """Take frames of up to this size from now on."""
        if self._apart_bytes == self._max_frame_bytes:
            self._apart_bytes = max_frame_bytes
        self._max_frame_bytes = max_frame_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream and return the frames they complete, in order, each with its size field.

        Raises FrameError on a size that cannot be right. Frames completed by the same call are lost then, and every
        further call raises the same error: nothing after a wrong size can be trusted, the connection is to be closed.
        """
        if self._error is not None:
            raise self._error
        frames: list[bytes] = []
        start = 0
        if self._held_bytes:
            missing = self._needed_bytes - self._held_bytes
            if missing > len(data):
                self._hold_more(data)
                return []
            if self._needed_bytes > COMMAND_START:  # the frame's sizes have been read, and were right
                frames.append(self._joined(memoryview(data)[:missing]))
                start = missing
            else:
                data = b"".join((*self._pieces, data))
            self._pieces.clear()
            self._held_bytes = 0
        max_size, apart = self._max_frame_bytes - SIZE_BYTES, self._apart_bytes
        end = len(data)
        needed = COMMAND_START
        size: int
        command_size: int
        while end - start >= COMMAND_START:
            size, command_size = _unpack_sizes(data, start)
            if size > max_size or command_size > size - SIZE_BYTES or command_size < MIN_COMMAND_BYTES:
                raise self._refuse(size, command_size)
            frame_end = start + SIZE_BYTES + size
            if frame_end > end:
                needed = SIZE_BYTES + size
                break
            if (
                size > apart
                and command_size < size - SIZE_BYTES
                and data.startswith(USUAL_MESSAGE_START, start + COMMAND_START)
            ):
                tail_start = start + COMMAND_START + command_size
                self.tails.append(data[tail_start:frame_end])
                frames.append(data[start:tail_start])
            else:
                frames.append(data[start:frame_end])
            start = frame_end
        if start < end:
            # Not as data[0:], which is the same object in CPython and a copy where this is compiled.
            rest = memoryview(data)[start:] if needed > apart else data[start:] if start else data
            self._hold(rest, needed)
        return frames

    def leading_run(self, data: bytes, kinds: frozenset[int]) -> tuple[int, int]:
        """How many bytes at the start of `data` are whole frames of these types, and how many frames.

        They are the next of the stream, and may go on as one piece; `feed` takes what comes behind them. None while a
        frame's start is held, nor where the type does not stand first, or perhaps not alone (`type_stands_once`): then
        `feed` takes all.
        """
        start = count = 0
        if self._held_bytes or self._error is not None:
            return start, count
        max_size = self._max_frame_bytes - SIZE_BYTES
        end = len(data)
        size: int
        command_size: int
        tag: int
        kind: int
        while end - start >= MIN_FRAME_BYTES:
            size, command_size, tag, kind = _unpack_head(data, start)
            frame_end = start + SIZE_BYTES + size
            if frame_end > end or tag != _TYPE_TAG or kind not in kinds or kind >= _BIT_8 or size > max_size:
                break
            if not MIN_COMMAND_BYTES <= command_size <= size - SIZE_BYTES:
                break
            body = start + MIN_FRAME_BYTES
            short = command_size - MIN_COMMAND_BYTES - _SHORT_BODY_HEAD_BYTES
            if (
                not 0 <= short < _BIT_8 or data[body + 1] != short or data[body] & _SHORT_TAG != _LENGTH_DELIMITED
            ) and (not type_stands_once(data, start, start + COMMAND_START + command_size)):
                break
            start = frame_end
            count += 1
        return start, count

    def _joined(self, last: memoryview) -> bytes:
        """The frame that was held, with its last piece."""
        first = self._pieces[0]
        if self._needed_bytes > self._apart_bytes and first[COMMAND_START:MIN_FRAME_BYTES] == USUAL_MESSAGE_START:
            tail_start = payload_start(first)
            if tail_start <= len(first) and tail_start < self._needed_bytes:
                self.tails.append(b"".join((memoryview(first)[tail_start:], *self._pieces[1:], last)))
                return bytes(first[:tail_start])
        return b"".join((*self._pieces, last))

    def _hold(self, rest: bytes | memoryview, needed_bytes: int) -> None:
        """Keep the start of a frame. A total size wrong by itself is refused without waiting for four more bytes."""
        if SIZE_BYTES <= len(rest) < COMMAND_START:
            (size,) = _unpack_size(rest)
            if not MIN_FRAME_BYTES - SIZE_BYTES <= size <= self._max_frame_bytes - SIZE_BYTES:
                raise self._refuse(size, None)
        self._pieces.append(rest)
        self._whole = 0
        self._held_bytes = len(rest)
        self._needed_bytes = SIZE_BYTES if len(rest) < SIZE_BYTES else needed_bytes

    def _hold_more(self, piece: bytes) -> None:
        """Keep the next piece of that frame; as an object of its own unless there are many."""
        pieces, whole = self._pieces, self._whole
        pieces.append(piece)
        self._held_bytes += len(piece)
        if len(pieces) - whole >= PIECES_MAX:
            pieces[whole:] = [b"".join(pieces[whole:])]
            self._whole += 1

    def _refuse(self, size: int, command_size: int | None) -> FrameError:
        max_size = self._max_frame_bytes - SIZE_BYTES
        if size > max_size:
            right = f"at most {max_size} is allowed"
            self._error = FrameError(f"a frame of total size {size}", "in its first 4 bytes", right)
        elif size < MIN_FRAME_BYTES - SIZE_BYTES:
            right = f"at least {MIN_FRAME_BYTES - SIZE_BYTES} holds the smallest command"
            self._error = FrameError(f"a frame of total size {size}", "in its first 4 bytes", right)
        else:
            right = f"{MIN_COMMAND_BYTES} to {size - SIZE_BYTES} fits this frame"
            self._error = FrameError(f"a command size of {command_size}", f"in a frame of total size {size}", right)
        return self._error


def is_cut(frame: bytes) -> bool:
    """Whether the frame's tail stands apart."""
    size: int
    (size,) = _unpack_size(frame)
    return SIZE_BYTES + size > len(frame)


def frame_type(frame: bytes) -> int:
    """The command's type (a BaseCommand.Type, or a newer number) of a whole frame.

    Costs two byte comparisons for every known client and broker, and a parse where the type does not stand first.
    Raises FrameError where there is none.
    """
    if frame[COMMAND_START] == _TYPE_TAG and (kind := frame[COMMAND_START + 1]) < _BIT_8:
        return kind
    return _parse(frame).type


def type_stands_once(data: bytes, start: int, end: int) -> bool:
    """Whether a command whose type stands first surely has no other one: the body behind it fills all the rest.

    Of several types readers of protobuf take the last. All known clients write commands like this; others are to be
    parsed. `start` is that of the frame, whose sizes are right, and `end` that of the command.
    """
    at = start + MIN_FRAME_BYTES
    if at == end:
        return True
    if data[at] & _WIRE_TYPE != _LENGTH_DELIMITED:
        return False
    at += 1 if data[at] < _BIT_8 else 2  # no known field has a longer tag
    if at >= end or data[at - 1] >= _BIT_8:
        return False
    if data[at] < _BIT_8:
        return at + 1 + data[at] == end
    return at + 1 < end and data[at + 1] < _BIT_8 and at + 2 + (data[at] & ~_BIT_8 | data[at + 1] << 7) == end


def payload_start(frame: bytes | memoryview) -> int:
    """Offset in bytes of what follows the command: the frame's length where nothing does."""
    command_size: int
    (command_size,) = _unpack_size(frame, SIZE_BYTES)
    return COMMAND_START + command_size


def parse_command(frame: bytes) -> BaseCommand:
    """The command of a whole frame, with every required field and the body its type calls for; unknown fields are kept.

    Raises FrameError where it does not parse, a required field is missing, the type has no body or much besides, a
    text is not UTF-8, or there are too many.
    """
    command = _parse(frame)
    kind = command.type
    body = _BODIES.get(kind)
    if body is None:
        return command
    if not command.HasField(body):
        raise FrameError(f"a command of type {kind} without its body", _where(frame), f"field '{body}' must be present")
    if kind == _ACK_RESPONSE and not command.ackResponse.HasField("message"):
        return command  # nothing was refused; there is one of these for each turn
    if kind in _WITH_TEXT:
        asked: Message = getattr(command, body)
        besides = payload_start(frame) - COMMAND_START - asked.ByteSize()
        if besides > UNCALLED_BYTES_MAX:
            raise FrameError(
                f"a command of type {kind} with {besides} bytes besides '{body}'", _where(frame), "send its body alone"
            )
        _check_text(asked, frame, MESSAGES_WITH_TEXT_MAX)
    return command


def encode_command(command: BaseCommand) -> bytes:
    """The whole frame of a command without payload.

    Raises protobuf's EncodeError where a required field is unset: that is our bug, not a peer's.
    """
    encoded = command.SerializeToString()
    return _pack_sizes(SIZE_BYTES + len(encoded), len(encoded)) + encoded


def encode_message(command_bytes: bytes, tail: bytes) -> bytes:
    """The whole frame of an encoded command and of `tail`, all that follows it: headers, metadata and payload."""
    sizes = _pack_sizes(SIZE_BYTES + len(command_bytes) + len(tail), len(command_bytes))
    return b"".join((sizes, command_bytes, tail))


def _parse(frame: bytes) -> BaseCommand:
    try:
        command = BaseCommand.FromString(frame[COMMAND_START : payload_start(frame)])
    except DecodeError:
        raise FrameError("a command that is no BaseCommand", _where(frame), "send valid protobuf") from None
    try:
        command.SerializeToString()  # checks all required fields in C, at a third of what IsInitialized() costs
    except EncodeError as error:
        missing = str(error).rpartition(": ")[2]
        raise FrameError("a command without all required fields", _where(frame), f"set {missing}") from None
    return command


def _where(frame: bytes) -> str:
    return f"in the {payload_start(frame) - COMMAND_START} bytes from byte {COMMAND_START} of a frame of {len(frame)}"


def _check_text(message: Message, frame: bytes, left: int) -> int:
    """Refuse text that is not UTF-8: upb hands it out as `bytes`, which no reader of a name expects.

    Of `left` messages with text that may be in it, returns how many still may.
    """
    if left == 0:
        what = f"more than {MESSAGES_WITH_TEXT_MAX} properties or the like in a command"
        raise FrameError(what, _where(frame), f"send at most {MESSAGES_WITH_TEXT_MAX}")
    left -= 1
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            for text in value if field.is_repeated else (value,):
                if not isinstance(text, str):
                    raise FrameError(f"a text in '{field.full_name}' that is not UTF-8", _where(frame), "send UTF-8")
        elif field.type == FieldDescriptor.TYPE_MESSAGE and _has_text(field.message_type):
            for inner in value if field.is_repeated else (value,):
                left = _check_text(inner, frame, left)
    return left


@cache
def _has_text(kind: Descriptor) -> bool:
    """Whether messages of this kind may have text in them. Ids and hash ranges, of which there are many, have none."""
    kinds = [kind]
    for inner in kinds:
        if any(field.type == FieldDescriptor.TYPE_STRING for field in inner.fields):
            return True
        kinds += {field.message_type for field in inner.fields if field.message_type}.difference(kinds)
    return False


def _bodies() -> dict[int, str]:
    """Command type to the name of its body. A ping says all by its type, and some clients send no body with it."""
    bare = (BaseCommand.PING, BaseCommand.PONG)
    fields = BaseCommand.DESCRIPTOR.fields_by_number
    return {kind: fields[kind].name for kind in BaseCommand.Type.values() if kind not in bare}


_BODIES: Final = _bodies()
_ACK_RESPONSE: Final = int(BaseCommand.ACK_RESPONSE)

_HOT: Final = (BaseCommand.SEND, BaseCommand.SEND_RECEIPT, BaseCommand.MESSAGE, BaseCommand.ACK, BaseCommand.FLOW)
_WITH_TEXT: Final = frozenset(_BODIES) - frozenset(_HOT)  # the commands of every message have no text that is read
