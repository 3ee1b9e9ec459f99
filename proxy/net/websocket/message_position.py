"""Which message an acknowledgement means: ids as clients get them, and what they stand for.

An id is the Base64 of the `MessageIdData` that Pulsar's clients serialize, so that it can be logged, compared and
handed on to them. For the worker's books it is a `MessagePosition`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import NamedTuple

from google.protobuf.message import DecodeError, EncodeError

from proxy.net.subscription.batch_slots import BATCH_MESSAGES_MAX
from proxy.wire import pulsar_pb2 as pb

WHOLE = -1
"""Index of a message that is an entry of its own."""
_WORD_BITS = 64
_SIGN_BIT = 1 << (_WORD_BITS - 1)


class MessagePosition(NamedTuple):
    """One message of a worker."""

    partition: int
    """Its number; -1 if the topic has none."""
    ledger: int
    entry: int
    batch_index: int
    """In its batch; `WHOLE` without one."""
    batch_size: int
    """Messages of the batch; 0 without one."""

    @property
    def message_id(self) -> str:
        """For the client."""
        position = pb.MessageIdData(ledgerId=self.ledger, entryId=self.entry)
        if self.partition >= 0:
            position.partition = self.partition
        if self.batch_index != WHOLE:
            position.batch_index = self.batch_index
        position.batch_size = self.batch_size
        return b64encode(position.SerializeToString()).decode()

    def to_acknowledge(self) -> pb.MessageIdData:
        """Name this message, and of a batch no other, in an ACK."""
        position = pb.MessageIdData(ledgerId=self.ledger, entryId=self.entry)
        if self.batch_index != WHOLE:
            position.ack_set.extend(_all_but(self.batch_index, self.batch_size))
        return position


def read_message_position(message_id: str) -> MessagePosition:
    """Read an id that a client sent. Raises ValueError that says what is wrong with it."""
    try:
        read = pb.MessageIdData.FromString(b64decode(message_id, validate=True))
        read.SerializeToString()
    except (Base64Error, DecodeError, EncodeError, ValueError) as error:
        message = f"{message_id[:100]!r} is not a messageId as it was delivered: {error}"
        raise ValueError(message) from error
    if not read.HasField("batch_index") or read.batch_index < 0:
        return MessagePosition(read.partition, read.ledgerId, read.entryId, WHOLE, 0)
    if not read.batch_index < read.batch_size <= BATCH_MESSAGES_MAX:
        message = f"{message_id[:100]!r}: index {read.batch_index} in a batch of {read.batch_size}"
        raise ValueError(message)
    return MessagePosition(read.partition, read.ledgerId, read.entryId, read.batch_index, read.batch_size)


def _all_but(index: int, size: int) -> list[int]:
    """The words of an ack set that leaves all messages of a batch unacknowledged except one; signed, as on the wire."""
    words = [-1] * (size // _WORD_BITS)
    if rest := size % _WORD_BITS:
        words.append((1 << rest) - 1)
    word, bit = divmod(index, _WORD_BITS)
    cleared = (words[word] ^ (1 << bit)) % (1 << _WORD_BITS)
    words[word] = cleared - (1 << _WORD_BITS) if cleared & _SIGN_BIT else cleared
    return words
