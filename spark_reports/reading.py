"""Reads a journal: which files there are, which of them can be read, and their rows as Spark has them.

A file that cannot be read (cut off, no Parquet, another program's) is left out, counted and named: a report on the
rest is worth more than none, and one that does not say so would lie. A journal without any readable file is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from proxy.journal.schema import KILLED_KEY, METADATA_PREFIX, OPEN_DIRECTORY, PARTITIONS, TABLES
from spark_reports.place import JournalError, Place, first_line, place_at
from spark_reports.schemas import arrow_schema, columns_that_differ, spark_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

TABLE_KEY: Final = f"{METADATA_PREFIX}table".encode()
LIFE_KEY: Final = f"{METADATA_PREFIX}life".encode()
SMALL_BYTES: Final = 8 << 20
"""Of a small journal's files, at most."""
_HOUR: Final = re.compile(r"/date=(\d{4}-\d{2}-\d{2})/hour=(\d{2})/")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not in the report."""

    table: str
    file: str
    reason: str


@dataclass(slots=True)
class Journal:
    """What was found at a place."""

    place: Place
    files: dict[str, list[str]] = field(default_factory=dict)
    """Readable ones, by table."""
    skipped: list[Skipped] = field(default_factory=list)
    size_bytes: int = 0
    """Of the readable ones."""
    killed: set[str] = field(default_factory=set)
    """Lives of which a file says that they were."""

    @property
    def is_small(self) -> bool:
        """Whether Spark's time goes into preparing its work, not into doing it."""
        return self.size_bytes <= SMALL_BYTES

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """All rows of a table: its columns and those of the path; none if there is no file."""
        files = self.files.get(table, [])
        if not files:  # as a table of Arrow's: for an empty list Spark would start Python's workers
            return spark.createDataFrame(arrow_schema(TABLES[table]).empty_table())
        reader = spark.read.schema(spark_schema(TABLES[table])).option("basePath", self.place.table(table))
        rows = reader.parquet(*files)
        # All in one place, few rows need no shuffle, which would be a job of its own each time.
        return rows.coalesce(1) if self.is_small else rows


@dataclass(frozen=True, slots=True)
class Listed:
    """An existing file, with any contents."""

    table: str
    path: str
    size_bytes: int


def hour_of(path: str) -> datetime | None:
    """The hour that a file's path names, in UTC; None if it names none."""
    found = _HOUR.search(path)
    return None if found is None else datetime.fromisoformat(f"{found[1]}T{found[2]}:00").replace(tzinfo=UTC)


def list_files(place: Place) -> list[Listed]:
    """All published files of a journal, by table and path.

    Raises:
        JournalError: there is no such place.
    """
    if _kind(place) is not fs.FileType.Directory:
        raise JournalError(f"{place.root}: no such directory; it should be what the gateway's setting `journal` names")
    return [file for table in TABLES for file in files_of(place, table)]


def open_journal(root: str, wanted: Callable[[str], bool] = lambda _: True) -> Journal:
    """Look at the end of every file whose path is `wanted`.

    Raises:
        JournalError: there is no such place, or no file of a journal in it.
    """
    journal = Journal(place := place_at(root))
    for file in list_files(place):
        if not wanted(file.path):
            continue
        try:
            said = _metadata(place.filesystem, file.path, file.table)
        except _UnreadableError as error:
            journal.skipped.append(Skipped(file.table, file.path, str(error)))
            continue
        journal.files.setdefault(file.table, []).append(place.spark_name(file.path))
        journal.size_bytes += file.size_bytes
        if KILLED_KEY.encode() in said:
            journal.killed.add(said[LIFE_KEY].decode(errors="replace"))
    if not journal.files:
        skipped = "".join(
            f"; {len(journal.skipped)} cannot be read, the first: {first.file}: {first.reason}"
            for first in journal.skipped[:1]
        )
        tables = ", ".join(TABLES)
        raise JournalError(f"{root}: no file of a journal; there should be some below {tables}{skipped}")
    return journal


def _kind(place: Place) -> fs.FileType:
    try:
        return place.filesystem.get_file_info(place.path).type
    except OSError as error:  # no store, no bucket, no credentials
        raise JournalError(f"{place.root}: {first_line(error)}") from error


def files_of(place: Place, table: str) -> Iterator[Listed]:
    """Published ones: what begins with an underscore or a dot is being written, or is not a journal's."""
    path = f"{place.path}/{table}"
    for info in sorted(_below(place.filesystem, path), key=lambda found: found.path):
        names = info.path[len(path) :].split("/")
        hidden = any(name.startswith(("_", ".")) for name in names) or OPEN_DIRECTORY in names
        if info.type is fs.FileType.File and not hidden:
            yield Listed(table, info.path, info.size or 0)


def _below(filesystem: fs.FileSystem, path: str) -> list[fs.FileInfo]:
    """All that is there. On a disk only as deep as files lie: a link may lead round in circles, which Arrow follows."""
    if not isinstance(filesystem, fs.LocalFileSystem):
        return filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
    found: list[fs.FileInfo] = []
    directories = [path]
    for _ in range(len(PARTITIONS) + 1):
        level = [
            info for at in directories for info in filesystem.get_file_info(fs.FileSelector(at, allow_not_found=True))
        ]
        directories = [info.path for info in level if info.type is fs.FileType.Directory]
        found += level
    return found


class _UnreadableError(Exception):
    """Why a file is left out."""


def _metadata(filesystem: fs.FileSystem, path: str, table: str) -> dict[bytes, bytes]:
    """What a file of the table says of itself."""
    try:
        with filesystem.open_input_file(path) as file:
            schema = pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise _UnreadableError(f"it is no whole Parquet file: {error}".splitlines()[0]) from error
    said = schema.metadata or {}
    if TABLE_KEY not in said:
        raise _UnreadableError("it is no file of a journal: its metadata name no table")
    if LIFE_KEY not in said:
        raise _UnreadableError("it is not a file of a journal: its metadata name no run of a gateway")
    if (named := said[TABLE_KEY].decode(errors="replace")) != table:
        raise _UnreadableError(f"it is of the table {named} and lies below {table}")
    missing = [field.name for field in TABLES[table].fields if not field.optional and field.name not in schema.names]
    if missing:
        raise _UnreadableError(f"it lacks the columns {', '.join(missing)}")
    if differing := columns_that_differ(schema, TABLES[table]):
        raise _UnreadableError(f"other values than the table's are in its columns {', '.join(differing)}")
    return said
