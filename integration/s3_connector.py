"""Spark's connector for S3, from Maven into the cache: as `spark.jars.packages` would, but small.

Hadoop's connector asks for a bundle of all of Amazon's clients, 600 MB; the few that it uses are asked for instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from integration import artifacts
from spark_reports.faults import connector

if TYPE_CHECKING:
    from pathlib import Path

SDK: Final = "2.35.4"
"""Of Amazon's clients, as the connector wants it."""
WITHOUT_BUNDLE: Final = (
    "<exclusions><exclusion><groupId>software.amazon.awssdk</groupId><artifactId>bundle</artifactId>"
    "</exclusion></exclusions>"
)
CLIENTS: Final = ("s3", "s3-transfer-manager", "sts", "apache-client")


@dataclass(frozen=True, slots=True)
class Connector(artifacts.Bundle):
    """The connector that fits the Spark which is installed."""

    def pom(self) -> str:
        """Return a project that depends on it and on the clients it uses."""
        wanted = [artifacts.dependency("org.apache.hadoop", "hadoop-aws", self.version, WITHOUT_BUNDLE)]
        wanted += [artifacts.dependency("software.amazon.awssdk", name, SDK) for name in self.artifacts]
        return artifacts.project("spark-s3", wanted)


def ensure_connector() -> list[Path]:
    """Return its jars, fetching them first if need be; raises as `artifacts.ensure`."""
    version = connector().rpartition(":")[2]
    return sorted(artifacts.ensure(Connector("spark-s3", version, CLIENTS, jar_count=100)).glob("*.jar"))
