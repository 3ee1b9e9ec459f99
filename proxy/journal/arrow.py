"""The journal's tables as Arrow knows them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from proxy.journal.schema import METADATA_PREFIX, SCHEMA_VERSION, Kind, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES: Final[dict[Kind, pa.DataType]] = {
    Kind.STRING: pa.string(),
    Kind.NAME: pa.dictionary(pa.int32(), pa.string()),
    Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(),
    Kind.DIGEST: pa.int64(),
    Kind.FLOAT64: pa.float64(),
    Kind.LABELS: pa.map_(pa.string(), pa.string()),
}


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """A table's columns with their ids, as Parquet keeps them."""
    return pa.schema(
        [
            pa.field(
                field.name,
                _TYPES[field.kind],
                nullable=field.optional,
                metadata={"PARQUET:field_id": str(field.id)},
            )
            for field in table.fields
        ]
    )


def with_facts(table: Table, facts: Mapping[str, Any]) -> pa.Schema:
    """The same with what a file says of itself: the table, the schema's version and these facts."""
    said = {"table": table.name, "schema_version": SCHEMA_VERSION, **facts}
    return arrow_schema(table).with_metadata({METADATA_PREFIX + name: str(value) for name, value in said.items()})


def names_of(table: Table) -> list[str]:
    """Columns of which the same text comes again and again."""
    return [field.name for field in table.fields if field.kind is Kind.NAME]


def numbers_of(table: Table) -> list[str]:
    """Columns of whole numbers that are near those of the rows before."""
    return [field.name for field in table.fields if field.kind in {Kind.INT32, Kind.INT64}]


def batch_of(table: Table, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Values by column, as lists or arrays; a column that is one value is that in every row."""
    schema = arrow_schema(table)
    count = next(len(values) for values in columns.values() if not isinstance(values, str))
    arrays = []
    for field in schema:
        values = columns[field.name]
        if isinstance(values, str):
            values = pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([values]))
        elif not isinstance(values, pa.Array):
            values = pa.array(values, field.type)
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
