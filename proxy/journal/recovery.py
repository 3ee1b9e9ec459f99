"""Recovers the files of killed processes from their logs.

A log is complete up to its last batch; data behind it was being written and is reported as lost. A process holds a lock
on its directory until it ends in any way, so that files of a running process are not taken.

A log names its table and the place of its file, and other programs may be able to write in its directory. So only
values that a gateway would write are accepted: the table's own columns, and a valid place for the table's files. Links
are not followed, because recovered files are deleted; other files are kept and reported.
"""

from __future__ import annotations

import fcntl
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import structlog

from proxy.journal.arrow import arrow_schema
from proxy.journal.partition import is_place
from proxy.journal.schema import KILLED_KEY, METADATA_PREFIX, TABLES
from proxy.journal.segment import FILE_SUFFIX, LOG_SUFFIX, PLACE_KEY, parquet_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy.journal.schema import Table
    from proxy.journal.store import Store

LOCK_NAME: Final = "lock"
TABLE_KEY: Final = f"{METADATA_PREFIX}table".encode()
END_OF_STREAM: Final = bytes.fromhex("ffffffff00000000")
"""Arrow's mark behind the last batch."""

log = structlog.get_logger("keyline.journal")


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result for one log."""

    log: Path
    rows: int
    torn_bytes: int
    """Behind the last whole batch."""
    problem: str | None = None
    """The reason why it could not be recovered; it is kept then."""


class RunDirectory:
    """The directory of a process's unfinished files."""

    def __init__(self, path: Path) -> None:
        """Make and lock it. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        self.path = path
        self._lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Release it; remaining files are left for recovery."""
        if not any(item.name != LOCK_NAME for item in self.path.iterdir()):
            (self.path / LOCK_NAME).unlink()
            self.path.rmdir()
        os.close(self._lock)


def abandoned(directory: Path, own: Path | None = None) -> Iterator[RunDirectory]:
    """Directories of ended processes, locked; the caller closes each."""
    if not directory.is_dir():
        return
    for path in sorted(directory.iterdir()):
        if path == own or path.is_symlink() or not path.is_dir():
            continue
        try:
            run = RunDirectory(path)
        except BlockingIOError:
            continue  # it is running: two gateways with one name
        except OSError as error:
            log.warning("unfinished journal files skipped", directory=str(path), reason=str(error))
            continue
        yield run


def recover_directory(run: RunDirectory, store: Store) -> Iterator[Recovered]:
    """Publish the contents of its logs, and remove it."""
    for path in sorted(run.path.glob(f"*{LOG_SUFFIX}")):
        yield recover(path, store, killed=True)
    for unfinished in run.path.glob(f"*{FILE_SUFFIX}"):
        if not unfinished.with_suffix(LOG_SUFFIX).exists():
            unfinished.unlink()


def recover(path: Path, store: Store, *, killed: bool = False) -> Recovered:
    """Make one log a file and delete it; the file says whether its process was `killed`."""
    try:
        rows, torn_bytes = _publish(path, store, killed=killed)
    except (OSError, ValueError, pa.ArrowException) as error:
        return Recovered(path, 0, 0, str(error) or type(error).__name__)
    path.unlink()
    return Recovered(path, rows, torn_bytes)


def _publish(path: Path, store: Store, *, killed: bool) -> tuple[int, int]:
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError(f"{path.name}: it is not a regular file")
    unfinished = path.with_suffix(FILE_SUFFIX)
    unfinished.unlink(missing_ok=True)  # the result of an earlier recovery, or a link
    with pa.memory_map(str(path)) as data:
        try:
            stream = pa.ipc.open_stream(data)
        except (pa.ArrowInvalid, EOFError):  # not even its schema was written
            return 0, data.size()
        table, place = _word_of(path.name, stream.schema)
        facts = dict(stream.schema.metadata)
        del facts[PLACE_KEY]
        if killed:
            facts[KILLED_KEY.encode()] = b"true"
        rows, whole = 0, data.tell()
        with parquet_writer(unfinished, stream.schema.with_metadata(facts), table) as file:
            for batch in _whole_batches(stream):
                file.write_batch(batch)
                rows += batch.num_rows
                whole = data.tell()
        torn_bytes = data.size() - whole
        if torn_bytes <= len(END_OF_STREAM):  # it was closed in order, and could not be published
            torn_bytes = 0
    if rows:
        store.publish(unfinished, place)
    else:
        unfinished.unlink()
    return rows, torn_bytes


def _word_of(name: str, schema: pa.Schema) -> tuple[Table, str]:
    """The table and the place that a log names. Raises ValueError if a gateway would not write such a log."""
    facts = schema.metadata or {}
    table = TABLES.get(facts.get(TABLE_KEY, b"").decode(errors="replace"))
    place = facts.get(PLACE_KEY, b"").decode(errors="replace")
    if table is None:
        raise ValueError(f"{name}: it is not a log of a table of this release")
    if not is_place(table, place):
        raise ValueError(f"{name}: it names {place!r}, where no file of the table {table.name} belongs")
    wanted = {field.name: field for field in arrow_schema(table)}
    if found := [field.name for field in schema if field.name not in wanted or field.type != wanted[field.name].type]:
        raise ValueError(f"{name}: it has other columns than the table {table.name}: {', '.join(found)}")
    if lacking := [field.name for field in wanted.values() if not field.nullable and field.name not in schema.names]:
        raise ValueError(f"{name}: it lacks columns of the table {table.name}: {', '.join(lacking)}")
    return table, place


def _whole_batches(stream: pa.ipc.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            yield stream.read_next_batch()
        except (StopIteration, pa.ArrowInvalid, OSError):
            return
