"""What one WebSocket's client holds: every message sent to it that it has neither acknowledged nor got taken back.

A batch can be asked for again only as a whole. So messages are kept under their entry, and one that is given back takes
those with it that came in the same entry and are unacknowledged: they will all come again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.net.websocket.places import Place

EntryKey: TypeAlias = tuple[int, int, int]
"""Partition, ledger, entry."""


def entry_key(place: Place) -> EntryKey:
    """The entry a message came in."""
    return place[:3]


class Books:
    """Messages at the client, by entry."""

    def __init__(self) -> None:
        """None."""
        self._entries: dict[EntryKey, dict[Place, tuple[Place, ...]]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Count messages."""
        return self._count

    def __contains__(self, place: Place) -> bool:
        """Whether the client holds it."""
        return place in self._entries.get(entry_key(place), ())

    def sent(self, place: Place, chunks: Iterable[Place] = ()) -> None:
        """It is the client's now; `chunks` are entries that are acknowledged with it."""
        entry = self._entries.setdefault(entry_key(place), {})
        if place not in entry:
            self._count += 1
        entry[place] = tuple(chunks)

    def acknowledged(self, place: Place) -> tuple[Place, ...] | None:
        """It is done with: the chunks to acknowledge with it; None if the client does not hold it."""
        entry = self._entries.get(entry_key(place))
        chunks = None if entry is None else entry.pop(place, None)
        if chunks is None or entry is None:
            return None
        self._count -= 1
        if not entry:
            del self._entries[entry_key(place)]
        return chunks

    def given_back(self, key: EntryKey) -> list[tuple[Place, tuple[Place, ...]]]:
        """All of an entry goes back: every message of it that the client held, with its chunks."""
        entry = self._entries.pop(key, {})
        self._count -= len(entry)
        return list(entry.items())
