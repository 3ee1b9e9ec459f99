"""The progress of a run, read from the workers' records while they grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.load.records import Event, RecordReader

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from integration.load.producer import ProducerRecord


class Progress:
    """Follows every record file it was told of."""

    def __init__(self) -> None:
        """Nothing to follow yet."""
        self.deliveries = 0
        self._readers: list[RecordReader] = []
        self._acknowledged: set[tuple[int, int, int]] = set()

    def follow(self, records: Path) -> None:
        """Read this file too, from now on."""
        self._readers.append(RecordReader(records))

    def update(self) -> None:
        """Read what was added."""
        for reader in self._readers:
            for record in reader.new():
                if record.event == Event.RECEIVED:
                    self.deliveries += 1
                elif record.event == Event.ACKED:
                    self._acknowledged.add((record.producer, record.key, record.sequence))

    @property
    def acknowledged(self) -> int:
        """Different messages that a worker acknowledged."""
        return len(self._acknowledged)

    def outstanding(self, producers: Iterable[ProducerRecord]) -> int:
        """Count the confirmed messages that no worker has acknowledged."""
        return sum(
            (record.producer, key, sequence) not in self._acknowledged and (key, sequence) not in record.unconfirmed
            for record in producers
            for key, count in record.sent.items()
            for sequence in range(count)
        )
