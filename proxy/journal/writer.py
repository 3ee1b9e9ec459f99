"""The thread that writes the journal: chunks in, files out, one open file for each table and hour.

A file is published when it is old or large enough. Whatever goes wrong with the disk or the
store costs rows, which are counted, and never the thread: it says once what is wrong, goes on trying, and says once
when it is over. Files that could be written but not published stay where they are and are tried again.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import structlog

from proxy.journal.partition import by_hour, place_of
from proxy.journal.recovery import LifeDirectory, Recovered, abandoned, recover, recover_directory
from proxy.journal.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy.journal.chunk import Chunk
    from proxy.journal.schema import Table
    from proxy.journal.spool import Spool
    from proxy.journal.store import Store

LOOK_S: Final = 1.0
"""How often it is looked whether a file is old enough, if nothing comes."""
AGAIN_S: Final = 10.0
"""After so long files that could not be published are tried again."""

log = structlog.get_logger("keyline.journal")


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Where and how."""

    gateway: str
    life: str
    directory: Path
    """Of all open files of gateways of this name; below it each life has a directory of its own."""
    roll_s: float
    roll_bytes: int
    facts: dict[str, str]
    """What every file says of itself."""


@dataclass(slots=True)
class WriterCounters:
    """Written on the thread, read by anybody."""

    rows_written: int = 0
    files_published: int = 0
    failures: int = 0
    rows_recovered: int = 0
    problem: str | None = None
    """What is wrong now."""


@dataclass(slots=True)
class _Open:
    segment: Segment
    until: float


class Writer:
    """Runs from `start` until the spool is closed and empty."""

    def __init__(self, settings: WriterSettings, spool: Spool, store: Store) -> None:
        """Nothing is opened yet."""
        self.counters = WriterCounters()
        self._settings = settings
        self._spool = spool
        self._store = store
        self._open: dict[tuple[str, str], _Open] = {}
        self._left: list[Path] = []
        """Logs of this life that could not be made files yet."""
        self._again_at = 0.0
        self._numbers = itertools.count(1)
        self._life: LifeDirectory | None = None
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end, after the spool was closed; False if it takes longer."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # ---- the thread

    def _run(self) -> None:
        self._recover_others()
        while not self._spool.over:
            chunk = self._spool.take(LOOK_S)
            if chunk is not None:
                self._write(chunk)
                self._spool.done(chunk)
            self._roll(time.monotonic())
        self._roll(None)
        if self._life is not None:
            self._life.close()

    def _write(self, chunk: Chunk) -> None:
        written = 0
        try:
            for hour, batch in by_hour(chunk.batch()):
                self._segment(chunk.table, hour).segment.write(batch)
                written += batch.num_rows
        except Exception as error:  # noqa: BLE001 - a fault of ours in one row must not end the journal
            self._failed("rows cannot be written", error)
            self._spool.lose(chunk)
            self._abandon(chunk.table)
        else:
            self.counters.rows_written += written
            self._well()

    def _segment(self, table: Table, hour: datetime) -> _Open:
        key = table.name, hour.isoformat()
        found = self._open.get(key)
        if found is None:
            settings = self._settings
            if self._life is None:
                self._life = LifeDirectory(settings.directory / settings.life)
            name = f"{settings.life}-{next(self._numbers):06d}-{table.name}"
            place = place_of(table, hour, settings.gateway, name)
            segment = Segment(table, self._life.path, name, place, settings.facts)
            found = self._open[key] = _Open(segment, time.monotonic() + settings.roll_s)
        return found

    def _roll(self, now: float | None) -> None:
        """Publish what is due; everything at the end."""
        for key, opened in list(self._open.items()):
            large = opened.segment.bytes_written >= self._settings.roll_bytes
            if now is None or large or now >= opened.until:
                del self._open[key]
                self._publish(opened.segment)
        if self._left and (now is None or now >= self._again_at):
            self._again_at = time.monotonic() + AGAIN_S
            left, self._left = self._left, []
            for path in left:
                self._tell(recover(path, self._store))
            self._well()

    def _publish(self, segment: Segment) -> None:
        try:
            segment.publish(self._store)
        except (OSError, pa.ArrowException) as error:
            self._failed("a file cannot be published", error)
            self._left.append(segment.abandon())
        else:
            self.counters.files_published += 1
            self._well()

    def _abandon(self, table: Table) -> None:
        """After an error the table's files are as they are; new ones are begun."""
        for key in [key for key in self._open if key[0] == table.name]:
            self._left.append(self._open.pop(key).segment.abandon())

    # ---- what others left

    def _recover_others(self) -> None:
        """Of lives of this gateway that were killed."""
        try:
            for life in self._abandoned():
                for recovered in recover_directory(life, self._store):
                    self._tell(recovered)
                life.close()
        except OSError as error:
            self._failed("files of an earlier life cannot be read", error)

    def _abandoned(self) -> Iterator[LifeDirectory]:
        directory = self._settings.directory
        return abandoned(directory, directory / self._settings.life)

    def _tell(self, recovered: Recovered) -> None:
        own = recovered.log.parent.name == self._settings.life
        if recovered.problem is not None:
            self._failed("an unfinished file cannot be recovered", OSError(recovered.problem))
            if own:
                self._left.append(recovered.log)
            return
        if own:
            self.counters.files_published += 1
            return
        self.counters.rows_recovered += recovered.rows
        log.info(
            "an unfinished journal file was recovered",
            file=recovered.log.name,
            rows=recovered.rows,
            torn_bytes=recovered.torn_bytes,
        )

    # ---- troubles

    def _failed(self, what: str, error: Exception) -> None:
        self.counters.failures += 1
        problem = f"{what}: {str(error) or type(error).__name__}"
        if self.counters.problem is None:
            known = isinstance(error, (OSError, pa.ArrowException))
            told = "the journal is in trouble; rows are lost and counted, deliveries go on"
            log.error(told, problem=problem, exc_info=None if known else error)
        self.counters.problem = problem

    def _well(self) -> None:
        if self.counters.problem is not None and not self._left:
            log.info("the journal is well again")
            self.counters.problem = None
