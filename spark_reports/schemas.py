"""The journal's tables as Spark knows them: what every job reads, whichever release wrote the files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from proxy.journal.schema import PARTITIONS, Kind

if TYPE_CHECKING:
    from proxy.journal.schema import Table

_TYPES: Final[dict[Kind, DataType]] = {
    Kind.STRING: StringType(),
    Kind.NAME: StringType(),
    Kind.INT32: IntegerType(),
    Kind.INT64: LongType(),
    Kind.DIGEST: LongType(),
    Kind.FLOAT64: DoubleType(),
    Kind.LABELS: MapType(StringType(), StringType()),
}

_ARROW: Final[dict[Kind, pa.DataType]] = {
    Kind.STRING: pa.string(),
    Kind.NAME: pa.string(),
    Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(),
    Kind.DIGEST: pa.int64(),
    Kind.FLOAT64: pa.float64(),
    Kind.LABELS: pa.map_(pa.string(), pa.string()),
}


def arrow_schema(table: Table) -> pa.Schema:
    """A table's columns and those of the path, as `spark_schema`."""
    columns = [pa.field(field.name, _ARROW[field.kind]) for field in table.fields]
    return pa.schema(columns + [pa.field(name, pa.string()) for name in PARTITIONS])


def columns_that_differ(schema: pa.Schema, table: Table) -> list[str]:
    """Columns of a file that have a table's name and hold something else; that texts are kept by dictionary is none."""
    found = {field.name: field.type for field in schema}
    plain = {name: kind.value_type if isinstance(kind, pa.DictionaryType) else kind for name, kind in found.items()}
    return [field.name for field in table.fields if plain.get(field.name, wanted := _ARROW[field.kind]) != wanted]


def spark_schema(table: Table) -> StructType:
    """A table's columns, and behind them those that the path tells, as text; any may be null in an older file."""
    columns = [StructField(field.name, _TYPES[field.kind]) for field in table.fields]
    return StructType(columns + [StructField(name, StringType()) for name in PARTITIONS])
