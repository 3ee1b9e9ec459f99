"""The two commonest reads by hand, for where this is compiled: the key of a plain entry, and an ACK of whole entries.

Problem: compiled, most of what is left of a message's cost is protobuf's: objects for commands, and a look-up for each
field. Rule: what clients usually write is read byte by byte, and all that is not exactly that (another order, an
unknown field, a number in more bytes than any has, a batch) is None here and protobuf's to read. So nothing is refused
or understood here that protobuf would not; `tests/fuzz` compares them. Interpreted, this costs more than protobuf does,
so callers ask `PAYS` first.

Source: `MessageMetadata` and `CommandAck` in `pulsar.proto`; protobuf's encoding specification.
"""

from __future__ import annotations

from types import FunctionType
from typing import Final

from proxy.wire.varints import varint

PAYS: Final = not isinstance(varint, FunctionType)
"""Whether this is compiled: a function of Python's own type is not."""

_MORE: Final = 0x80
"""Set in every byte of a varint but the last."""
_VARINT_BYTES_USUAL: Final = 9
"""Numbers of ten bytes, which may have bits too many, are left to protobuf."""
_METADATA_START: Final = 10
"""Behind magic, checksum and size."""
_PRODUCER_NAME: Final = 0x0A
_SEQUENCE_ID: Final = 0x10
_PUBLISH_TIME: Final = 0x18
_PARTITION_KEY: Final = 0x32
_COMPRESSION: Final = 0x40
_UNCOMPRESSED_SIZE: Final = 0x48
_EVENT_TIME: Final = 0x60
_SIXTEEN_AND_MORE: Final = 0x01
"""The second byte of the tags of fields 16 to 31; the first ones follow."""
_SCHEMA_VERSION: Final = 0x82
_BASE64: Final = 0x88
_HIGHEST_SEQUENCE_ID: Final = 0xC0
_NULL_VALUE: Final = 0xC8

_ACK_BODY_AT: Final = 11
"""In a frame: behind sizes, the command's type and the body's tag."""
_ACK_START: Final = b"\x08\x0a\x52"
_CONSUMER_ID: Final = 0x08
_ACK_TYPE: Final = 0x10
_MESSAGE_ID: Final = 0x1A
_LEDGER: Final = 0x08
_ENTRY: Final = 0x10
_NUMBERS_IGNORED: Final = (0x18, 0x20, 0x30)
"""Of a message id: partition, index in the batch, size of the batch."""
ACK_BYTES_MAX: Final = 12_000
"""A longer ACK may name more ids than are applied in one go."""


def plain_key(tail: bytes) -> bytes | None:  # noqa: C901, PLR0912 - a call for each field costs more than the field
    """The sticky key of an entry of one message, as `metadata.peek_key` finds it, with a checksum and usual fields.

    None for everything else, and for what is damaged.
    """
    if tail[:2] != b"\x0e\x01":
        return None
    try:
        end = _METADATA_START + (tail[6] << 24 | tail[7] << 16 | tail[8] << 8 | tail[9])
        name_end = 12 + tail[11]
        if tail[10] != _PRODUCER_NAME or tail[11] >= _MORE or tail[name_end] != _SEQUENCE_ID:
            return None
        at = name_end + 1
        sequence_id = shift = 0
        while tail[at] >= _MORE:
            if at - name_end > _VARINT_BYTES_USUAL:
                return None  # or megabytes of it would be added up
            sequence_id |= (tail[at] & ~_MORE) << shift
            shift += 7
            at += 1
        sequence_id |= tail[at] << shift
        if at - name_end > _VARINT_BYTES_USUAL or tail[at + 1] != _PUBLISH_TIME:
            return None
        at = _after_varint(tail, at + 2)
        key: bytes | None = None
        while 0 < at < end:
            tag = tail[at]
            if tag == _PARTITION_KEY:
                start, at = at + 2, at + 2 + tail[at + 1]
                if tail[start - 1] >= _MORE:
                    return None
                key = tail[start:at]
            elif tag in {_COMPRESSION, _UNCOMPRESSED_SIZE, _EVENT_TIME}:
                at = _after_varint(tail, at + 1)
            elif tag < _MORE or tail[at + 1] != _SIXTEEN_AND_MORE:
                return None
            elif tag == _SCHEMA_VERSION and tail[at + 2] < _MORE:
                at += 3 + tail[at + 2]
            elif tag == _BASE64 and tail[at + 2] == 0:
                at += 3
            elif tag in {_HIGHEST_SEQUENCE_ID, _NULL_VALUE}:
                at = _after_varint(tail, at + 2)
            else:
                return None
    except IndexError:
        return None
    # Every byte before `at` was read in order, so none of them stands behind the metadata if it ends there.
    if at != end or end > len(tail):
        return None
    return key if key is not None else b"%b-%d" % (tail[12:name_end], sequence_id)


def plain_ack(frame: bytes) -> tuple[int, list[int]] | None:  # noqa: C901 - likewise
    """Whose an ACK is, and its entries: ledger, entry, ledger, entry, and so on.

    None unless it acknowledges whole entries one by one, wants no answer, and has nothing else in it.
    """
    total = len(frame)
    if total > ACK_BYTES_MAX or frame[8:_ACK_BODY_AT] != _ACK_START:
        return None
    numbers: list[int] = []
    try:
        command_end = 8 + (frame[4] << 24 | frame[5] << 16 | frame[6] << 8 | frame[7])
        size, at = _number(frame, _ACK_BODY_AT)
        if not at or at + size != total or command_end != total or frame[at] != _CONSUMER_ID:
            return None
        consumer_id, at = _number(frame, at + 1)
        if not at or frame[at] != _ACK_TYPE or frame[at + 1]:
            return None
        at += 2
        while at < total:
            if frame[at] != _MESSAGE_ID or frame[at + 1] >= _MORE or frame[at + 2] != _LEDGER:
                return None
            end = at + 2 + frame[at + 1]
            ledger, at = _number(frame, at + 3)
            if not at or frame[at] != _ENTRY:
                return None
            entry, at = _number(frame, at + 1)
            if not at:
                return None
            while at < end:
                if frame[at] not in _NUMBERS_IGNORED:
                    return None
                at = _after_varint(frame, at + 1)
                if not at:
                    return None
            if at != end:
                return None
            numbers.append(ledger)
            numbers.append(entry)
    except IndexError:
        return None
    return (consumer_id, numbers) if numbers else None


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and the offset behind it; that is 0 for one of more bytes than usual."""
    start = at
    value = shift = 0
    while data[at] >= _MORE:
        if at - start >= _VARINT_BYTES_USUAL:
            return 0, 0  # or megabytes of it would be added up
        value |= (data[at] & ~_MORE) << shift
        shift += 7
        at += 1
    value |= data[at] << shift
    return value, at + 1 if at - start < _VARINT_BYTES_USUAL else 0


def _after_varint(data: bytes, at: int) -> int:
    """The offset behind a varint; 0 for one of more bytes than usual, but for a negative number's."""
    start = at
    while data[at] >= _MORE:
        at += 1
    if at - start < _VARINT_BYTES_USUAL or (at - start == _VARINT_BYTES_USUAL and data[at] == 1):
        return at + 1
    return 0
