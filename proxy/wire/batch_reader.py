"""Reading all messages of a batch: where each begins, and the key that the broker would hash for it.

Problem: a batch of many keys must be read message by message, and this is most of what such a batch costs. Rule: a
message as Java's, C++'s and Go's clients write it (partition key, payload size, perhaps a Base64 flag that says no,
sequence id, nothing else) is read from its bytes by hand; any other is left to protobuf, with the same result. What is
found is kept in lists by index, not in an object for each message.

Source: Pulsar's "Binary protocol specification", section "Batch messages"; `SingleMessageMetadata` in `pulsar.proto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.wire.batch import MIN_SINGLE_BYTES, continues, miscounted, single_at, single_sticky_key

if TYPE_CHECKING:
    from proxy.wire.pulsar_pb2 import MessageMetadata

_SIZE_BYTES: Final = 4
_SMALL: Final = b"\0\0\0"
"""The first bytes of a metadata's size below 256."""
_MORE: Final = 0x80
"""Set in every byte of a varint but the last."""
_WIDE: Final = 1 << 14
"""Payload sizes from here on take three bytes or more."""
_ID_BYTES_USUAL: Final = 3
"""Bytes of a sequence id of which the first and the last two tell all."""
_PARTITION_KEY: Final = 0x12
_PAYLOAD_SIZE: Final = 0x18
_BASE64: Final = 0x30
_SEQUENCE_ID: Final = 0x40


class BatchReader:
    """What is known of a batch's messages so far."""

    __slots__ = ("_count", "_metadata", "_payload", "compacted", "keyed", "keys", "offsets", "usual")

    def __init__(self, metadata: MessageMetadata, payload: bytes, count: int) -> None:
        """`count` messages in an uncompressed `payload`. Raises `BatchError` if it is too short for them."""
        if not 0 < count <= len(payload) // MIN_SINGLE_BYTES:
            raise miscounted(payload, count)
        self._metadata = metadata
        self._payload = payload
        self._count = count
        self.offsets = [0]
        """Where each message begins, in bytes, and behind the last one where it ends."""
        self.keys: list[bytes] = []
        """The sticky key of each message."""
        self.keyed = False
        """Whether any message has a key of its own."""
        self.usual = True
        """Whether each has a short partition key and nothing that a batch's metadata would tell besides."""
        self.compacted: list[int] = []
        """Indexes of messages that compaction has removed: nothing but their metadata is left."""

    def read(self, count: int) -> None:
        """Read `count` more messages, or all the rest.

        Raises:
            BatchError: one cannot be read, or the last does not end with the payload.
        """
        keys = self.keys
        end = min(len(keys) + count, self._count)
        while len(keys) < end:
            self._read_usual(end - len(keys))
            if len(keys) < end:
                self._read_one()
        if end == self._count and self.offsets[-1] != len(self._payload):
            raise miscounted(self._payload, self._count)

    def _read_one(self) -> None:
        """By protobuf."""
        self.usual = False
        single, end = single_at(self._payload, self.offsets[-1])
        self.keyed = self.keyed or single.HasField("partition_key") or single.HasField("ordering_key")
        if single.compacted_out:
            self.compacted.append(len(self.keys))
        self.keys.append(single_sticky_key(single, self._metadata))
        self.offsets.append(end)

    def _read_usual(self, count: int) -> None:  # noqa: C901 - a call for each field would cost more than the field
        """By hand, until one is not written as clients mostly do; that one is left."""
        payload, offsets, keys = self._payload, self.offsets, self.keys
        start, total, before = offsets[-1], len(payload), len(keys)
        try:
            for _ in range(count):
                at = start + _SIZE_BYTES
                if payload[start : start + 3] != _SMALL or payload[at] != _PARTITION_KEY:
                    break
                last = at + payload[start + 3] - 1
                key_bytes = payload[at + 1]
                at += 2
                key_end = at + key_bytes
                if key_bytes >= _MORE or payload[key_end] != _PAYLOAD_SIZE:
                    break
                key = payload[at:key_end]
                size = payload[key_end + 1]
                at = key_end + 2
                if size >= _MORE:
                    size += (payload[at] << 7) - _MORE
                    at += 1
                    if size >= _WIDE:
                        break
                if payload[at] == _BASE64 and not payload[at + 1]:
                    at += 2
                if payload[at] != _SEQUENCE_ID or at >= last or payload[last] >= _MORE:
                    break
                id_bytes = last - at
                if id_bytes > 1 and (
                    payload[at + 1] < _MORE
                    or payload[last - 1] < _MORE
                    or (id_bytes > _ID_BYTES_USUAL and not continues(payload, at + 1, last))
                ):
                    break
                start = last + 1 + size
                if start > total:
                    break
                keys.append(key)
                offsets.append(start)
        except IndexError:
            pass
        self.keyed = self.keyed or len(keys) > before
