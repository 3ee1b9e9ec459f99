"""What a worker writes down, one fixed-size record per event, so that SIGKILL loses at most the event in progress.

Every record is one unbuffered `write` of 52 bytes: it is in the kernel before the worker goes on, and a killed process
takes nothing with it. One write costs about a microsecond. Fixed sizes let a reader follow a growing file without
parsing, and a torn last record (never seen, yet allowed) is simply not read.

Times are CLOCK_MONOTONIC, which all processes of one machine share.
"""

from __future__ import annotations

import os
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from pathlib import Path

    from integration.load.payload import Number

_FORMAT: Final = struct.Struct("<BxHIIIiqqqq")
RECORD_BYTES: Final = _FORMAT.size
REDELIVERY_COUNT_MAX: Final = 0xFFFF


class Event(IntEnum):
    """What happened to a worker."""

    JOINED = 1
    """Its subscription stands."""
    RECEIVED = 2
    """The application got a message from the client library."""
    ACKED = 3
    """The application is about to acknowledge; what follows in the client library is invisible."""
    NACKED = 4
    CLOSING = 5
    """It is about to close its consumer on purpose."""
    CLOSED = 6
    CONNECTION_LOST = 7
    """The client library says that it lost its consumer and will reconnect."""
    CONNECTED = 8
    """The client library says that its consumer is subscribed; the first time and after each loss."""
    GARBLED = 9
    """A message whose key is not the one its payload names."""


class Record(NamedTuple):
    """One event. The middle fields are 0 where no message is concerned."""

    event: int
    redelivery_count: int
    producer: int
    key: int
    sequence: int
    batch_index: int
    at_ns: int
    ledger: int
    entry: int
    sent_ns: int = 0
    """When the message was handed to its producer's client."""


class RecordWriter:
    """Appends records to a worker's file."""

    def __init__(self, path: Path) -> None:
        """Open the file; a worker that is started again under its name goes on where it was."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def message(
        self, event: Event, at_ns: int, number: Number, position: tuple[int, int, int], redeliveries: int
    ) -> None:
        """Write an event of a message: what its payload says and its (ledger, entry, batch index)."""
        redeliveries = min(redeliveries, REDELIVERY_COUNT_MAX)
        producer, key, sequence, sent_ns = number
        ledger, entry, index = position
        record = _FORMAT.pack(event, redeliveries, producer, key, sequence, index, at_ns, ledger, entry, sent_ns)
        os.write(self._descriptor, record)

    def life(self, event: Event, at_ns: int) -> None:
        """Write an event of the worker itself. Safe from any thread: one write is one record."""
        os.write(self._descriptor, _FORMAT.pack(event, 0, 0, 0, 0, 0, at_ns, 0, 0, 0))


class RecordReader:
    """Follows a worker's file, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        """Start at the file's beginning."""
        self._path = path
        self._read_bytes = 0

    def new(self) -> list[Record]:
        """Return the whole records that were added since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = len(data) - len(data) % RECORD_BYTES
        self._read_bytes += whole
        return [Record._make(fields) for fields in _FORMAT.iter_unpack(data[:whole])]

    @classmethod
    def all(cls, path: Path) -> list[Record]:
        """Return everything a file holds by now."""
        return cls(path).new()

    def fresh(self) -> Self:
        """Return a reader of the same file from its beginning."""
        return type(self)(self._path)
