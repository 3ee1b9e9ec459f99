"""Reads a journal: which files there are, which of them can be read, and their rows as Spark has them.

A file that cannot be read (cut off, no Parquet, another program's) is left out, counted and named: a report on the
rest is worth more than none, and one that does not say so would lie. A journal without any readable file is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from proxy.journal.schema import METADATA_PREFIX, OPEN_DIRECTORY, PARTITIONS, TABLES
from spark_reports.schemas import spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, SparkSession

TABLE_KEY: Final = f"{METADATA_PREFIX}table".encode()


class JournalError(Exception):
    """There is nothing to report on; the text says what was looked for, where, and what would be right."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not in the report."""

    file: str
    reason: str


@dataclass(slots=True)
class Journal:
    """What was found below a root."""

    root: str
    files: dict[str, list[str]] = field(default_factory=dict)
    """Readable ones, by table."""
    skipped: list[Skipped] = field(default_factory=list)

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """All rows of a table: its columns and those of the path; none if there is no file."""
        schema = spark_schema(TABLES[table])
        files = self.files.get(table, [])
        if not files:
            return spark.createDataFrame([], schema)
        base = f"{self.root.rstrip('/')}/{table}"
        return spark.read.schema(schema).option("basePath", base).parquet(*files)

    def between(self, spark: SparkSession, table: str, since: datetime | None, until: datetime | None) -> DataFrame:
        """Rows from `since` on and before `until`, both in UTC; only partitions that may have some are read."""
        rows = self.read(spark, table)
        conditions = list(_conditions(since, until))
        return rows if not conditions else rows.where(reduce(lambda one, other: one & other, conditions))


def open_journal(root: str) -> Journal:
    """Look at every file's end.

    Raises:
        JournalError: there is no such place, or no file of a journal in it.
    """
    filesystem, path = _filesystem(root)
    if filesystem.get_file_info(path).type is not fs.FileType.Directory:
        raise JournalError(f"{root}: no such directory; it should be what the gateway's setting `journal` names")
    journal = Journal(root)
    for table in TABLES:
        for info in _files(filesystem, f"{path}/{table}"):
            reason = _unreadable(filesystem, info.path, table)
            if reason is None:
                journal.files.setdefault(table, []).append(_name(root, info.path))
            else:
                journal.skipped.append(Skipped(info.path, reason))
    if not journal.files:
        skipped = f"; {len(journal.skipped)} cannot be read, the first: {journal.skipped[0]}" if journal.skipped else ""
        tables = ", ".join(TABLES)
        raise JournalError(f"{root}: no file of a journal; there should be some below {tables}{skipped}")
    return journal


def _filesystem(root: str) -> tuple[fs.FileSystem, str]:
    if "://" not in root:
        return fs.LocalFileSystem(), root.rstrip("/")
    try:
        filesystem, path = fs.FileSystem.from_uri(root)
    except (pa.ArrowInvalid, OSError) as error:
        raise JournalError(f"{root}: {error}; it should be a path or a URL such as s3://bucket/folder") from error
    return filesystem, path.rstrip("/")


def _files(filesystem: fs.FileSystem, path: str) -> Iterator[fs.FileInfo]:
    """Published ones: what begins with an underscore or a dot is being written, or is not a journal's."""
    selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
    for info in sorted(filesystem.get_file_info(selector), key=lambda found: found.path):
        names = info.path[len(path) :].split("/")
        hidden = any(name.startswith(("_", ".")) for name in names) or OPEN_DIRECTORY in names
        if info.type is fs.FileType.File and not hidden:
            yield info


def _unreadable(filesystem: fs.FileSystem, path: str, table: str) -> str | None:
    """Why a file is left out; None if it is not."""
    try:
        with filesystem.open_input_file(path) as file:
            schema = pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        return f"it is no whole Parquet file: {error}".splitlines()[0]
    said = (schema.metadata or {}).get(TABLE_KEY)
    if said is None:
        return "it is no file of a journal: its metadata name no table"
    if said.decode() != table:
        return f"it is of the table {said.decode()} and lies below {table}"
    missing = [field.name for field in TABLES[table].fields if not field.optional and field.name not in schema.names]
    return f"it lacks the columns {', '.join(missing)}" if missing else None


def _name(root: str, path: str) -> str:
    """As Spark wants it, which reads `s3a://`."""
    scheme, separator, _ = root.partition("://")
    if not separator or scheme == "file":
        return path
    return f"{'s3a' if scheme == 's3' else scheme}://{path}"


def _conditions(since: datetime | None, until: datetime | None) -> Iterator[Column]:
    """On the path first, so that other partitions are not even opened."""
    date, hour = PARTITIONS[:2]
    place = F.concat_ws("T", date, hour)
    if since is not None:
        yield F.col(date) >= F.lit(f"{since:%Y-%m-%d}")
        yield place >= F.lit(f"{since:%Y-%m-%dT%H}")
        yield F.col("wall_ns") >= F.lit(_nanoseconds(since))
    if until is not None:
        yield F.col(date) <= F.lit(f"{until:%Y-%m-%d}")
        yield place <= F.lit(f"{until:%Y-%m-%dT%H}")
        yield F.col("wall_ns") < F.lit(_nanoseconds(until))


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1_000
