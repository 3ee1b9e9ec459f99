"""The in-flight registry of one WebSocket's client: messages sent to it and neither acknowledged nor returned.

A batch can be redelivered only as a whole. So messages are kept by entry, and a returned message takes the
unacknowledged messages of the same entry with it: all of them are redelivered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.net.websocket.places import Place

EntryKey: TypeAlias = tuple[int, int, int]
"""Partition, ledger, entry."""


def entry_key(place: Place) -> EntryKey:
    """The entry of a message."""
    return place[:3]


class InFlight:
    """Messages at the client, by entry."""

    def __init__(self) -> None:
        """Empty."""
        self._entries: dict[EntryKey, dict[Place, tuple[Place, ...]]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Count messages."""
        return self._count

    def __contains__(self, place: Place) -> bool:
        """Whether the client holds it."""
        return place in self._entries.get(entry_key(place), ())

    def sent(self, place: Place, chunks: Iterable[Place] = ()) -> None:
        """The client holds it now; `chunks` are entries that are acknowledged with it."""
        entry = self._entries.setdefault(entry_key(place), {})
        if place not in entry:
            self._count += 1
        entry[place] = tuple(chunks)

    def acknowledged(self, place: Place) -> tuple[Place, ...] | None:
        """Remove it; returns the chunks to acknowledge with it, None if the client does not hold it."""
        entry = self._entries.get(entry_key(place))
        chunks = None if entry is None else entry.pop(place, None)
        if chunks is None or entry is None:
            return None
        self._count -= 1
        if not entry:
            del self._entries[entry_key(place)]
        return chunks

    def given_back(self, key: EntryKey) -> list[tuple[Place, tuple[Place, ...]]]:
        """Remove an entry; returns every message of it that the client held, with its chunks."""
        entry = self._entries.pop(key, {})
        self._count -= len(entry)
        return list(entry.items())
