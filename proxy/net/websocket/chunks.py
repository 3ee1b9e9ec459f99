"""Assembles messages from producers' chunks.

All chunks of a message reach one worker, in order. A producer that reconnects may send some twice, and one that dies
leaves an incomplete message. Duplicate chunks, and messages that are incomplete after a minute, are acknowledged and
logged, as by Pulsar's clients; otherwise their keys would wait forever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from proxy.net.websocket.deadlines import Deadlines
from proxy.net.websocket.opening import TooLargeError

if TYPE_CHECKING:
    from proxy.net.ports import Clock
    from proxy.net.websocket.message_position import MessagePosition
    from proxy.net.websocket.opening import Entry

CHUNKED_BYTES_MAX: Final = 64 << 20
"""Of all incomplete messages of one worker: the default memory of a subscription."""
WHOLE_S_MAX: Final = 60.0
"""From the first chunk to the last; the default of Pulsar's clients."""

_Key: TypeAlias = tuple[int, str]
"""Partition and uuid: the latter is unique only within one producer and partition."""


@dataclass(slots=True)
class _Half:
    payload: bytearray = field(default_factory=bytearray)
    positions: list[MessagePosition] = field(default_factory=list)


class Chunks:
    """The incomplete messages of one worker."""

    def __init__(self, clock: Clock, discard: Callable[[list[MessagePosition], str], None]) -> None:
        """`discard` gets chunks of messages that will not be completed, and the reason."""
        self._discard = discard
        self._halves: dict[_Key, _Half] = {}
        self._lonely: set[MessagePosition] = set()
        """Chunks without those before them."""
        self._overdue = Deadlines(clock, WHOLE_S_MAX, self._too_old)
        self._bytes = 0

    def add(self, entry: Entry) -> tuple[bytes, tuple[MessagePosition, ...]] | None:
        """Take a chunk; with the last one, return the message's payload and the positions of the earlier chunks.

        Raises `TooLargeError`.
        """
        metadata, position = entry.metadata, entry.position
        key, number = (entry.partition, metadata.uuid), metadata.chunk_id
        half = self._halves.get(key)
        if half is None and number == 0:
            half = self._halves[key] = _Half()
            self._overdue.add(position)
        if half is None or number > len(half.positions):
            self._lonely.add(position)
            self._overdue.add(position)
            return None
        if number < len(half.positions):
            if half.positions[number] != position:
                self._discard([position], "a chunk that its producer sent twice")
            return None
        self._check_size(metadata.total_chunk_msg_size, len(entry.payload))
        half.payload += entry.payload
        half.positions.append(position)
        self._bytes += len(entry.payload)
        if number < metadata.num_chunks_from_msg - 1:
            return None
        self._drop(key)
        return bytes(half.payload), tuple(half.positions[:-1])

    def forget(self, partition: int) -> None:
        """All of a partition's incomplete messages: they come again."""
        lonely = [position for position in self._lonely if position.partition == partition]
        self._lonely.difference_update(lonely)
        for position in lonely:
            self._overdue.discard(position)
        for key in [key for key in self._halves if key[0] == partition]:
            self._drop(key)

    def stop(self) -> None:
        """The worker has left."""
        self._overdue.stop()

    def _check_size(self, declared: int, more: int) -> None:
        if max(declared, self._bytes + more) > CHUNKED_BYTES_MAX:
            message = f"a chunked message of {max(declared, more):,} bytes; the limit is {CHUNKED_BYTES_MAX:,}"
            raise TooLargeError(message)

    def _drop(self, key: _Key) -> list[MessagePosition]:
        half = self._halves.pop(key)
        self._bytes -= len(half.payload)
        if half.positions:
            self._overdue.discard(half.positions[0])
        return half.positions

    def _too_old(self, positions: list[MessagePosition]) -> None:
        due = set(positions)
        for key in [key for key, half in self._halves.items() if half.positions[0] in due]:
            self._discard(self._drop(key), f"a chunked message that was incomplete after {WHOLE_S_MAX:g} s")
        if lonely := [position for position in positions if position in self._lonely]:
            self._lonely.difference_update(lonely)
            self._discard(lonely, "chunks without the beginning of their message")
