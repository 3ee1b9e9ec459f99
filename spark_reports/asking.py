"""Asks either engine the same SQL, in what DuckDB and Spark understand alike: the files beside this one."""

from __future__ import annotations

from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from proxy.journal.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
NO_TABLES: Final[Mapping[str, pa.Table]] = MappingProxyType({})


class Ask(Protocol):
    """Answers questions about one journal."""

    def __call__(
        self, question: str, numbers: Mapping[str, int], tables: Mapping[str, pa.Table] = NO_TABLES, /
    ) -> list[Row]:
        """Rows that answer the text of `question`.sql: `numbers` and `tables`, by their names in its braces."""


def of_duckdb(connection: duckdb.DuckDBPyConnection) -> Ask:
    """Of a connection that has the journal's tables by their names."""

    def ask(question: str, numbers: Mapping[str, int], tables: Mapping[str, pa.Table] = NO_TABLES, /) -> list[Row]:
        for name, table in tables.items():
            connection.register(f"asked_{name}", table)
        names = {name: name for name in TABLES} | {name: f"asked_{name}" for name in tables}
        rows: list[Row] = connection.sql(_text(question).format(**names, **numbers)).to_arrow_table().to_pylist()
        return rows

    return ask


def of_spark(spark: SparkSession, journal: Mapping[str, DataFrame]) -> Ask:
    """Of these rows of the journal's tables, by their names."""

    def ask(question: str, numbers: Mapping[str, int], tables: Mapping[str, pa.Table] = NO_TABLES, /) -> list[Row]:
        named: dict[str, Any] = {**journal, **numbers}
        named |= {name: F.broadcast(spark.createDataFrame(table)) for name, table in tables.items()}
        rows: list[Row] = spark.sql(_text(question), **named).toArrow().to_pylist()
        return rows

    return ask


def _text(question: str) -> str:
    return (files("spark_reports") / f"{question}.sql").read_text()
