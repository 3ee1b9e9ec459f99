"""MESSAGE frames on the hot path: the broker's are read, the workers' are written.

Problem: every message passes here twice, and reading or building its command through protobuf objects costs 1 to 2
microseconds each way, most of it Python's access to single fields.
Rule: between two messages of one consumer nothing differs but the entry id. So the bytes around the entry id are
learned once, through upb, and compared or copied whole afterwards; where any byte differs, upb reads the command again.
What the gateway does not interpret (partition, consumer epoch, fields of a newer broker) is carried as `Extras` and
forwarded.
Why not a hand-written parser of the whole command: it is no faster than upb, and a second opinion on protobuf.
Source: CommandMessage in Pulsar's PulsarApi.proto; protobuf's encoding specification.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from proxy.wire.errors import FrameError
from proxy.wire.frames import COMMAND_START, SIZE_BYTES, parse_command, payload_start
from proxy.wire.pulsar_pb2 import BaseCommand, CommandMessage, MessageIdData
from proxy.wire.varints import nine_bytes, varint, varint_size


class Extras(NamedTuple):
    """Encoded fields of a MESSAGE command that are forwarded without a look.

    One object serves all entries of a consumer, however many are pending.
    """

    message_id: bytes
    """Of MessageIdData, all but ledger and entry: in practice the partition, which C++ and Python clients read here."""
    message: bytes
    """Of CommandMessage, all but consumer, message id, redelivery count and ack set: in practice the consumer epoch."""
    command: bytes
    """Of BaseCommand, all but type and message."""


NO_EXTRAS: Final = Extras(b"", b"", b"")


def epoch_mark(epoch: int) -> bytes:
    """How the extras of a MESSAGE end that was sent in this consumer epoch, 1 or more."""
    return b"\x28" + varint(epoch)


def in_epoch(extras: Extras, epoch: int) -> Extras:
    """The same of a MESSAGE sent in a consumer epoch; where a field comes twice, its last value counts."""
    return extras._replace(message=extras.message + epoch_mark(epoch))


class MessageHead(NamedTuple):
    """A MESSAGE frame taken apart."""

    consumer_id: int
    ledger: int
    entry: int
    redelivery_count: int
    ack_set: tuple[int, ...] | None
    """64-bit words, signed, of a batch's messages still to be acknowledged; None where the broker sent none."""
    tail: bytes
    """Headers, metadata and payload (see `metadata`)."""
    extras: Extras


class _Layout(NamedTuple):
    """A command's bytes around an entry id of a known size, and what they mean. Offsets are in bytes, in the frame."""

    before: bytes
    """From the command size up to the entry id."""
    entry_start: int
    entry_end: int
    after: bytes
    """From behind the entry id up to the tail."""
    tail_start: int
    consumer_id: int
    ledger: int
    redelivery_count: int
    extras: Extras


class MessageStart:
    """What stands before the tails in a worker's MESSAGE frames of one ledger, redelivery count and size of entry ids.

    A writer of many keeps the last one: it is right as long as its numbers and `extras` are, for the entry ids from
    `lowest` to below `above`.
    """

    __slots__ = (
        "_after",
        "_before",
        "_command_part",
        "_entry_bytes",
        "_pack",
        "above",
        "consumer_id",
        "extras",
        "ledger",
        "lowest",
        "redeliveries",
    )

    def __init__(self, consumer_id: int, ledger: int, entry_bytes: int, redelivery_count: int, extras: Extras) -> None:
        """Raises ValueError where a number does not fit its field."""
        before, after = _wrap(consumer_id, ledger, entry_bytes, redelivery_count, extras)
        self.consumer_id, self.ledger, self.redeliveries, self.extras = consumer_id, ledger, redelivery_count, extras
        self.lowest = 1 << 7 * (entry_bytes - 1) if entry_bytes > 1 else 0
        self.above = 1 << 7 * entry_bytes
        self._before, self._after, self._entry_bytes = before, after, entry_bytes
        self._command_part = len(before) + entry_bytes + len(after)
        """What the command adds to the total size."""
        self._pack: Callable[..., bytes] = struct.Struct(f">I{len(before)}s{entry_bytes}B{len(after)}s").pack
        """Takes total size, `before`, the entry id byte by byte, `after`."""

    def of(self, entry: int, tail_bytes: int) -> bytes:
        """The start of an entry's frame with a tail of so many bytes. Raises ValueError where the id fits no field."""
        total = self._command_part + tail_bytes
        size = self._entry_bytes
        if size == _SIZE_3:
            low, middle = entry & _MASK | _MORE, entry >> 7 & _MASK | _MORE
            return self._pack(total, self._before, low, middle, entry >> 14, self._after)
        if size == _SIZE_2:
            return self._pack(total, self._before, entry & _MASK | _MORE, entry >> 7, self._after)
        encoded = nine_bytes(entry) if size == _SIZE_9 else varint(entry)
        return b"".join((_pack_size(total), self._before, encoded, self._after))


_MAX_LAYOUTS: Final = 1_024
"""Layouts kept, about 500 bytes each: one for each consumer upstream and size of its numbers."""

_MAX_STARTS: Final = 8_192
"""Starts kept, about 500 bytes each: one for each worker, ledger and redelivery count in use."""

_KEY_END: Final = 16
"""A layout is looked up by its command's first bytes, up to here in the frame: its sizes and its consumer id."""

_FOUR: Final = 1 << 21  # the first entry id that takes four bytes as a varint
_MASK: Final = 0x7F
_MORE: Final = 0x80  # set in every byte of a varint but the last
_SIZE_2: Final = 2
_SIZE_3: Final = 3
_SIZE_9: Final = 9
_UINT64: Final = (1 << 64) - 1

_new: Final = tuple.__new__
_pack_size: Final = struct.Struct(">I").pack
_Head: Final = MessageHead  # compiled, a constant costs less to read than a name
_layouts: Final[dict[bytes, _Layout]] = {}
_common_extras: Final[dict[Extras, Extras]] = {}  # so that entries pending of one partition share one object
_starts: Final[dict[tuple[int, int, int, int, Extras], MessageStart]] = {}


def parse_message(frame: bytes) -> MessageHead:
    """Take a whole MESSAGE frame apart. Raises FrameError where its command does not parse or is no MESSAGE."""
    layout = _layouts.get(frame[COMMAND_START:_KEY_END])
    if layout is None:
        return _parse_and_learn(frame)
    before, start, end, after, tail_start, consumer_id, ledger, redelivery_count, extras = layout
    if frame[SIZE_BYTES:start] != before or frame[end:tail_start] != after:
        return _parse_and_learn(frame)
    entry = frame[start]
    size = end - start
    if size == 1:
        known = entry < _MORE
    elif size == _SIZE_2:
        high = frame[start + 1]
        known = entry >= _MORE > high
        entry += (high << 7) - _MORE
    else:
        middle, high = frame[start + 1], frame[start + 2]
        known = entry >= _MORE and middle >= _MORE > high
        entry += (middle << 7) + (high << 14) - (_MORE + (_MORE << 7))
    if not known:
        return _parse_and_learn(frame)
    return _new(_Head, (consumer_id, ledger, entry, redelivery_count, None, frame[tail_start:], extras))


def message_start(consumer_id: int, ledger: int, entry: int, redelivery_count: int, extras: Extras) -> MessageStart:
    """The start of MESSAGE frames of entry ids that take as many bytes as `entry`.

    `extras` are those of the frame the entry came in.
    Raises ValueError where a number does not fit its field.
    """
    size = varint_size(entry)
    key = consumer_id, ledger, redelivery_count, size, extras
    start = _starts.get(key)
    if start is None:
        if len(_starts) >= _MAX_STARTS:
            _starts.clear()  # cheaper than to know which are still in use: each is made again in a few microseconds
        start = _starts[key] = MessageStart(consumer_id, ledger, size, redelivery_count, extras)
    return start


def _parse_and_learn(frame: bytes) -> MessageHead:
    """Read a command through upb, and remember its layout if its bytes are those we would write ourselves."""
    command = parse_command(frame)
    if command.type != BaseCommand.MESSAGE:
        where = f"in a frame of {len(frame)} bytes"
        raise FrameError(f"a command of type {command.type}", where, f"a MESSAGE has type {BaseCommand.MESSAGE}")
    message = command.message
    extras = _partition_alone(message.message_id)
    layout = _layout(message, extras, frame)
    if layout is None:
        extras = _all_extras(command)
        layout = _layout(message, extras, frame)
    entry, ack_set = message.message_id.entryId, tuple(message.ack_set)
    if layout is not None and not ack_set and entry < _FOUR:
        if len(_layouts) >= _MAX_LAYOUTS:
            _layouts.clear()
        _layouts[frame[COMMAND_START:_KEY_END]] = layout
    numbers = (message.consumer_id, message.message_id.ledgerId, entry, message.redelivery_count)
    return MessageHead(*numbers, ack_set or None, frame[payload_start(frame) :], extras)


def _layout(message: CommandMessage, extras: Extras, frame: bytes) -> _Layout | None:
    """The layout of a command read through upb, if its numbers and extras, written by us, give the very same bytes."""
    consumer_id, ledger, count = message.consumer_id, message.message_id.ledgerId, message.redelivery_count
    entry = varint(message.message_id.entryId)
    before, after = _wrap(consumer_id, ledger, len(entry), count, extras, message.ack_set)
    tail_start = payload_start(frame)
    if b"".join((before, entry, after)) != frame[SIZE_BYTES:tail_start]:
        return None
    start = SIZE_BYTES + len(before)
    return _Layout(before, start, start + len(entry), after, tail_start, consumer_id, ledger, count, extras)


def _partition_alone(message_id: MessageIdData) -> Extras:
    """The extras of what brokers send today: the partition, which is -1 for a topic without partitions."""
    if not message_id.HasField("partition"):
        return NO_EXTRAS
    extras = Extras(b"\x18" + varint(message_id.partition & _UINT64), b"", b"")
    return _common_extras.setdefault(extras, extras) if len(_common_extras) < _MAX_LAYOUTS else extras


def _all_extras(command: BaseCommand) -> Extras:
    """What is left of a MESSAGE command without the fields that MessageHead has."""
    message_id = MessageIdData()
    message_id.CopyFrom(command.message.message_id)
    message_id.ClearField("ledgerId")
    message_id.ClearField("entryId")
    message = CommandMessage()
    message.CopyFrom(command.message)
    for field in ("consumer_id", "message_id", "redelivery_count", "ack_set"):
        message.ClearField(field)
    rest = BaseCommand()
    rest.CopyFrom(command)
    rest.ClearField("type")
    rest.ClearField("message")
    return Extras(*(part.SerializePartialToString() for part in (message_id, message, rest)))


def _wrap(
    consumer_id: int, ledger: int, entry_bytes: int, redelivery_count: int, extras: Extras, ack_set: Sequence[int] = ()
) -> tuple[bytes, bytes]:
    """The bytes of a frame from its command size to its tail, before and after an entry id of `entry_bytes` bytes."""
    ids = b"".join((b"\x08", varint(ledger), b"\x10"))
    id_size = len(ids) + entry_bytes + len(extras.message_id)
    message = b"".join((b"\x08", varint(consumer_id), b"\x12", varint(id_size), ids))
    rest = [extras.message_id]
    if redelivery_count:
        rest += b"\x18", varint(redelivery_count)
    for word in ack_set:
        rest += b"\x20", varint(word & _UINT64)
    rest.append(extras.message)
    after = b"".join(rest)
    message_size = varint(len(message) + entry_bytes + len(after))
    command = b"".join((b"\x08\x09\x4a", message_size, message))
    after += extras.command
    return _pack_size(len(command) + entry_bytes + len(after)) + command, after
