"""The thread that writes the journal: chunks in, files out, one open file for each table and hour.

A file is finished when it is old or large enough, and then goes to the publisher. Disk errors cost rows, which are
counted, and never end the thread: it reports the fault once, continues, and reports the recovery once.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from proxy.journal.fault import Fault
from proxy.journal.partition import by_hour, place_of
from proxy.journal.publisher import Publisher
from proxy.journal.recovery import RunDirectory
from proxy.journal.segment import Segment

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.journal.chunk import Chunk
    from proxy.journal.schema import Table
    from proxy.journal.spool import Spool
    from proxy.journal.store import Store

LOOK_S: Final = 1.0
"""Interval of the check for old files, without new rows."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Where and how."""

    gateway: str
    run_id: str
    directory: Path
    """Directory of all unfinished files of gateways with this name; each run has a directory in it."""
    roll_s: float
    roll_bytes: int
    facts: dict[str, str]
    """Metadata of every file."""


@dataclass(frozen=True, slots=True)
class WriterCounters:
    """Statistics, including the publisher's."""

    rows_written: int
    files_published: int
    failures: int
    rows_recovered: int
    problem: str | None
    """The current fault."""


@dataclass(slots=True)
class _Open:
    segment: Segment
    until: float


class Writer:
    """Runs from `start` until the spool is closed and empty."""

    def __init__(self, settings: WriterSettings, spool: Spool, store: Store) -> None:
        """Nothing is opened yet."""
        self._settings = settings
        self._spool = spool
        self._publisher = Publisher(settings.directory, settings.run_id, store)
        self._fault = Fault()
        self._rows_written = 0
        self._open: dict[tuple[str, str], _Open] = {}
        self._numbers = itertools.count(1)
        self._directory: RunDirectory | None = None
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    @property
    def counters(self) -> WriterCounters:
        """Current statistics; for any thread."""
        publisher = self._publisher
        return WriterCounters(
            self._rows_written,
            publisher.files_published,
            self._fault.failures + publisher.fault.failures,
            publisher.rows_recovered,
            self._fault.problem or publisher.problem,
        )

    def start(self) -> None:
        """Begin."""
        self._publisher.start()
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end, after the spool was closed; False if it takes longer."""
        end = time.monotonic() + timeout_s
        self._thread.join(timeout_s)
        return not self._thread.is_alive() and self._publisher.join(max(0.0, end - time.monotonic()))

    # ---- the thread

    def _run(self) -> None:
        while not self._spool.over:
            chunk = self._spool.take(LOOK_S)
            if chunk is not None:
                self._write(chunk)
                self._spool.done(chunk)
            self._roll(time.monotonic())
        self._roll(None)
        self._publisher.close(self._directory)

    def _write(self, chunk: Chunk) -> None:
        written = 0
        try:
            for hour, batch in by_hour(chunk.batch()):
                self._segment(chunk.table, hour).segment.write(batch)
                written += batch.num_rows
        except Exception as error:  # noqa: BLE001 - a bug in one row must not end the journal
            self._fault.failed("rows cannot be written", error)
            self._spool.lose(chunk)
            self._abandon(chunk.table)
        else:
            self._rows_written += written
            self._fault.over()

    def _segment(self, table: Table, hour: datetime) -> _Open:
        key = table.name, hour.isoformat()
        found = self._open.get(key)
        if found is None:
            settings = self._settings
            if self._directory is None:
                self._directory = RunDirectory(settings.directory / settings.run_id)
            name = f"{settings.run_id}-{next(self._numbers):06d}-{table.name}"
            place = place_of(table, hour, settings.gateway, name)
            segment = Segment(table, self._directory.path, name, place, settings.facts)
            found = self._open[key] = _Open(segment, time.monotonic() + settings.roll_s)
        return found

    def _roll(self, now: float | None) -> None:
        """Finish what is due; everything at the end."""
        for key, opened in list(self._open.items()):
            large = opened.segment.bytes_written >= self._settings.roll_bytes
            if now is None or large or now >= opened.until:
                del self._open[key]
                self._finish(opened.segment)

    def _finish(self, segment: Segment) -> None:
        try:
            self._publisher.publish(segment.finish())
        except (OSError, pa.ArrowException) as error:
            self._fault.failed("a file cannot be finished", error)
            self._publisher.recover(segment.abandon())

    def _abandon(self, table: Table) -> None:
        """After an error the table's files are abandoned; new ones are started."""
        for key in [key for key in self._open if key[0] == table.name]:
            self._publisher.recover(self._open.pop(key).segment.abandon())
