"""The in-flight registry of one WebSocket's client: messages sent to it and neither acknowledged nor returned.

A batch can be redelivered only as a whole. So messages are kept by entry, and a returned message takes the
unacknowledged messages of the same entry with it: all of them are redelivered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.net.websocket.message_position import MessagePosition

EntryKey: TypeAlias = tuple[int, int, int]
"""Partition, ledger, entry."""


def entry_key(position: MessagePosition) -> EntryKey:
    """The entry of a message."""
    return position[:3]


class InFlight:
    """Messages at the client, by entry."""

    def __init__(self) -> None:
        """Empty."""
        self._entries: dict[EntryKey, dict[MessagePosition, tuple[MessagePosition, ...]]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Count messages."""
        return self._count

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self._count > 0

    def __contains__(self, position: MessagePosition) -> bool:
        """Whether the client holds it."""
        return position in self._entries.get(entry_key(position), ())

    def sent(self, position: MessagePosition, chunks: Iterable[MessagePosition] = ()) -> bool:
        """The client holds it now; returns whether it did already. `chunks` are entries acknowledged with it."""
        entry = self._entries.setdefault(entry_key(position), {})
        again = position in entry
        if not again:
            self._count += 1
        entry[position] = tuple(chunks)
        return again

    def acknowledged(self, position: MessagePosition) -> tuple[MessagePosition, ...] | None:
        """Remove it; returns the chunks to acknowledge with it, None if the client does not hold it."""
        entry = self._entries.get(entry_key(position))
        chunks = None if entry is None else entry.pop(position, None)
        if chunks is None or entry is None:
            return None
        self._count -= 1
        if not entry:
            del self._entries[entry_key(position)]
        return chunks

    def entries(self, partition: int) -> set[tuple[int, int]]:
        """Ledger and entry of all that the client holds of a partition, chunks included."""
        held = set()
        for (of, ledger, entry), messages in self._entries.items():
            if of == partition:
                held.add((ledger, entry))
                held.update((each.ledger, each.entry) for chunks in messages.values() for each in chunks)
        return held

    def given_back(self, key: EntryKey) -> list[tuple[MessagePosition, tuple[MessagePosition, ...]]]:
        """Remove an entry; returns every message of it that the client held, with its chunks."""
        entry = self._entries.pop(key, {})
        self._count -= len(entry)
        return list(entry.items())
