"""Which hour a row belongs to, and where the file of that hour lies."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.journal.schema import Table

HOUR_NS: Final = 3_600_000_000_000
_PLACE: Final = re.compile(r"date=\d{4}-\d{2}-\d{2}/hour=\d{2}/gateway=[\w%.~-]+/[\w-]+\.parquet", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def by_hour(batch: pa.RecordBatch) -> Iterator[tuple[datetime, pa.RecordBatch]]:
    """The rows of each hour of the wall clock, in their order."""
    hours = pc.divide(batch.column("wall_ns"), HOUR_NS)
    found = pc.unique(hours)
    for hour in found:
        rows = batch if len(found) == 1 else batch.filter(pc.equal(hours, hour))
        yield _EPOCH + timedelta(hours=int(hour.as_py() or 0)), rows


def quoted(gateway: str) -> str:
    """A gateway's name as that of a directory, as Hive quotes it."""
    return quote(gateway, safe="-_") if gateway.strip(".") else quote(gateway, safe="").replace(".", "%2E")


def place_of(table: Table, hour: datetime, gateway: str, name: str) -> str:
    """Path of a file below the journal's root."""
    return f"{table.name}/date={hour:%Y-%m-%d}/hour={hour:%H}/gateway={quoted(gateway)}/{name}.parquet"


def is_place(table: Table, place: str) -> bool:
    """Whether `place_of` gives such a path for files of the table: one that stays below the journal's root."""
    below, _, rest = place.partition("/")
    return below == table.name and _PLACE.fullmatch(rest) is not None
