"""One file of the journal from its first row to its publication.

A Parquet file can be read only with its footer, that is when it is closed; a killed process would lose all rows of an
unfinished file. So rows are written twice: into the Parquet file that will be published, and into a log of Arrow record
batches beside it, which is complete up to its last batch at any moment. The log is deleted when the Parquet file is
published; a log that is found later was left by a killed process, and `recovery` turns it into a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from proxy.journal.arrow import names_of, numbers_of, with_facts
from proxy.journal.schema import METADATA_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from proxy.journal.schema import Table
    from proxy.journal.store import Store

LOG_SUFFIX: Final = ".arrows"
FILE_SUFFIX: Final = ".parquet"
PLACE_KEY: Final = f"{METADATA_PREFIX}place".encode()
"""In a log's metadata: the place of its file."""
COMPRESSION: Final = "zstd"
ROWS_PER_GROUP_MAX: Final = 1 << 20


class Segment:
    """Rows of one table and one hour."""

    def __init__(self, table: Table, directory: Path, name: str, place: str, facts: Mapping[str, str]) -> None:
        """Open both files in `directory`; the published one will be `place`. Raises OSError."""
        self.rows = 0
        self.bytes_written = 0
        self._place = place
        self._log_path = directory / f"{name}{LOG_SUFFIX}"
        self._file_path = directory / f"{name}{FILE_SUFFIX}"
        schema = with_facts(table, facts)
        self._log_file = pa.OSFile(str(self._log_path), "wb")
        try:
            logged = schema.with_metadata({**schema.metadata, PLACE_KEY: place})
            self._log = pa.ipc.new_stream(self._log_file, logged)
            self._file = parquet_writer(self._file_path, schema, table)
        except BaseException:
            self._log_file.close()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. They survive the process from here on. Raises OSError; the segment is to be abandoned then."""
        self._log.write_batch(batch)
        self._log_file.flush()
        self._file.write_batch(batch, ROWS_PER_GROUP_MAX)
        self.rows += batch.num_rows
        self.bytes_written = self._log_file.tell()

    def finish(self) -> Finished:
        """End it. Raises OSError; it is to be abandoned then."""
        self._file.close()
        self._log.close()
        self._log_file.close()
        return Finished(self._file_path, self._log_path, self._place)

    def abandon(self) -> Path:
        """Abandon the file after an error; returns the log, which may be recoverable."""
        for part in (self._file, self._log, self._log_file):
            try:
                part.close()
            except (OSError, pa.ArrowException):
                continue  # there is no room for its end, and none is needed
        self._file_path.unlink(missing_ok=True)
        return self._log_path


@dataclass(frozen=True, slots=True)
class Finished:
    """A complete segment that is to be published."""

    file: Path
    log: Path
    place: str

    def publish(self, store: Store) -> None:
        """Bring it there. Raises OSError; the log is still there then, for a recovery."""
        store.publish(self.file, self.place)
        self.log.unlink()

    def abandon(self) -> Path:
        """Abandon the file after an error; returns the log, from which recovery makes it again."""
        self.file.unlink(missing_ok=True)
        return self.log


def parquet_writer(path: Path, schema: pa.Schema, table: Table) -> pq.ParquetWriter:
    """A Parquet writer with the journal's encodings: texts by dictionary, numbers by differences.

    Row groups have statistics only for the columns that readers filter by: statistics of all columns would take a fifth
    of the time.
    """
    names = names_of(table)
    return pq.ParquetWriter(
        path,
        schema,
        compression=COMPRESSION,
        use_dictionary=names,  # type: ignore[arg-type]  # a list is as good, says its documentation
        write_statistics=[*names, "wall_ns"],
        column_encoding=dict.fromkeys(numbers_of(table), "DELTA_BINARY_PACKED"),
    )
