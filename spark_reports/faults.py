"""What to say when Spark gives up: the line that tells why, and what would be right where that is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

OF_SPARK: Final = (PySparkException, Py4JError)
"""Errors that a report may end with though the journal is well."""
NO_CONNECTOR: Final = "S3AFileSystem not found"


def connector() -> str:
    """Coordinates of Hadoop's connector for S3, which has to be of the version that this Spark is made with."""
    jars = Path(pyspark.__file__).parent / "jars"
    found = [re.search(r"-(\d[\d.]*)\.jar$", path.name) for path in jars.glob("hadoop-client-api-*.jar")]
    return f"org.apache.hadoop:hadoop-aws:{found[0][1] if found and found[0] else 'VERSION'}"


def words(error: Exception) -> str:
    """One line: Spark's texts go on with plans and stacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(NO_CONNECTOR in line for line in lines):
        return f"Spark has no connector for S3; it should be given --conf spark.jars.packages={connector()}"
    told = next((line for line in lines if "Exception" in line or "Error" in line), "")
    return told.lstrip(": ") or (lines[0] if lines else repr(error))
