"""Messages that producers cut into chunks, put together again.

All chunks of a message reach one worker, in order. What is half there is bounded in bytes: the pieces of a message
whose rest never comes are dropped when others need the room, and come again when the worker's connection ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy.net.websocket.opening import Entry
    from proxy.net.websocket.places import Place

CHUNKED_BYTES_MAX: Final = 64 << 20
"""Of all half-received messages of one worker."""


@dataclass(slots=True)
class _Half:
    payload: bytearray = field(default_factory=bytearray)
    places: list[Place] = field(default_factory=list)


class Chunks:
    """Every message of one worker that is partly here."""

    def __init__(self) -> None:
        """None."""
        self._halves: dict[str, _Half] = {}
        self._bytes = 0

    def add(self, entry: Entry) -> tuple[bytes, list[Place]] | None:
        """Take a chunk; with the last one, the message's payload and the places of the chunks before that one.

        Chunks that came already, or whose beginning is unknown, are not taken: whoever redelivers begins anew.
        """
        metadata = entry.metadata
        if metadata.chunk_id == 0:
            self._drop(metadata.uuid)
            self._halves[metadata.uuid] = _Half()
        half = self._halves.get(metadata.uuid)
        if half is None or metadata.chunk_id != len(half.places):
            return None
        half.payload += entry.payload
        self._bytes += len(entry.payload)
        if metadata.chunk_id == metadata.num_chunks_from_msg - 1:
            self._drop(metadata.uuid)
            return bytes(half.payload), half.places
        half.places.append(entry.place)
        while self._bytes > CHUNKED_BYTES_MAX:
            self._drop(next(iter(self._halves)))
        return None

    def _drop(self, uuid: str) -> None:
        half = self._halves.pop(uuid, None)
        if half is not None:
            self._bytes -= len(half.payload)
