"""The journal's tables as Spark knows them: what every job reads, whichever release wrote the files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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


def spark_schema(table: Table) -> StructType:
    """A table's columns, and behind them those that the path tells, as text; any may be null in an older file."""
    columns = [StructField(field.name, _TYPES[field.kind]) for field in table.fields]
    return StructType(columns + [StructField(name, StringType()) for name in PARTITIONS])
