"""Quantiles as all reports show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

if TYPE_CHECKING:
    from pyspark.sql import Column

SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
ACCURACY: Final = 10_000
"""Accuracy of Spark's approximate quantiles: the inverse of the relative error."""


def quantiles(milliseconds: Column, prefix: str = "") -> list[Column]:
    """Aggregates `p50_ms`, `p95_ms`, `p99_ms`, each behind `prefix`."""
    # All of one sketch: Spark computes an aggregate once, however often it is named.
    found = F.percentile_approx(milliseconds, list(SHARES.values()), ACCURACY)
    return [found.getItem(place).alias(f"{prefix}{name}_ms") for place, name in enumerate(SHARES)]
