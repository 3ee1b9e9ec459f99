"""Builds producers' and workers' records by hand, for tests of the audit: time is in milliseconds here."""

from __future__ import annotations

from typing import Self

from integration.load.lives import WorkerLife
from integration.load.producer import ProducerRecord
from integration.load.records import Event, Record

MS = 1_000_000


def sent(counts: dict[int, int], *, producer: int = 0, connections_lost: int = 0) -> ProducerRecord:
    """A producer that sent so many messages per key, all confirmed."""
    return ProducerRecord(producer, counts, frozenset(), connections_lost)


class Script:
    """One worker's record, event by event. A message is (key, sequence); each has an entry of its own by default."""

    def __init__(self, name: str, connected_at: int = 0) -> None:
        self.name = name
        self.records: list[Record] = []
        self.killed_at: int | None = None
        self.still_since: int | None = None
        self._life(Event.CONNECTED, connected_at)

    def got(
        self, at: int, key: int, sequence: int, *, entry: int | None = None, producer: int = 0, attempt: int = 0
    ) -> Self:
        """Received, with that redelivery count."""
        return self._message(Event.RECEIVED, at, key, sequence, entry, producer, attempt)

    def acked(self, at: int, key: int, sequence: int, *, entry: int | None = None, producer: int = 0) -> Self:
        """Acknowledged."""
        return self._message(Event.ACKED, at, key, sequence, entry, producer)

    def nacked(self, at: int, key: int, sequence: int, *, entry: int | None = None) -> Self:
        """Refused."""
        return self._message(Event.NACKED, at, key, sequence, entry, 0)

    def garbled(self, at: int, key: int, sequence: int) -> Self:
        """Received under another key."""
        return self._message(Event.GARBLED, at, key, sequence, None, 0)

    def did(self, at: int, key: int, sequence: int, *, entry: int | None = None, producer: int = 0) -> Self:
        """Received, and acknowledged a millisecond later."""
        return self.got(at, key, sequence, entry=entry, producer=producer).acked(
            at + 1, key, sequence, entry=entry, producer=producer
        )

    def lost(self, at: int) -> Self:
        """The client lost its connection."""
        return self._life(Event.CONNECTION_LOST, at)

    def connected(self, at: int) -> Self:
        """The client has a connection again."""
        return self._life(Event.CONNECTED, at)

    def left(self, at: int) -> Self:
        """Closed its consumer."""
        return self._life(Event.CLOSING, at)._life(Event.CLOSED, at + 1)

    def killed(self, at: int) -> Self:
        """Killed by the test."""
        self.killed_at = at
        return self

    def frozen(self, at: int) -> Self:
        """Stopped by the test, and not let go on."""
        self.still_since = at
        return self

    @property
    def life(self) -> WorkerLife:
        """What the audit reads."""
        killed_ns = None if self.killed_at is None else self.killed_at * MS
        still_ns = None if self.still_since is None else self.still_since * MS
        return WorkerLife(self.name, self.records, killed_ns, still_ns)

    def _life(self, event: Event, at: int) -> Self:
        self.records.append(Record(event, 0, 0, 0, 0, 0, at * MS, 0, 0))
        return self

    def _message(
        self, event: Event, at: int, key: int, sequence: int, entry: int | None, producer: int, attempt: int = 0
    ) -> Self:
        position = key * 1_000 + sequence if entry is None else entry
        self.records.append(Record(event, attempt, producer, key, sequence, -1, at * MS, 7, position))
        return self
