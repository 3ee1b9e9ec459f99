"""A scraped series as the journal's table of metrics knows it: whose it is by columns, and its other labels.

Buckets of histograms are left out, as in the journal, where a histogram is its count and its sum. So the same jobs read
both, and give the same results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from proxy.errors import KeylineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

PREFIX: Final = "keyline_"
"""Of the gateway's own metrics."""
LEFT_OUT: Final = ("_bucket", "_created")
"""Ends of names that are not in the journal."""
OWN_LABELS: Final = frozenset({"cause", "certificate", "kind", "state", "version"})
"""Those of the gateway's metrics that are no columns. All others are of the scrape: `job`, `pod` and so on."""


class ExportError(KeylineError):
    """Nothing was exported; the text says why, and what would be right."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which series it is."""

    gateway: str
    name: str
    topic: str | None
    subscription: str | None
    consumer: str | None
    labels: tuple[tuple[str, str], ...]
    """All others, in order."""


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one, in order."""

    identity: Identity
    at_ns: NDArray[np.int64]
    """By the wall clock."""
    values: NDArray[np.float64]


def is_wanted(name: str) -> bool:
    """Whether a metric is one that the journal has too."""
    return name.startswith(PREFIX) and not name.endswith(LEFT_OUT)


def identity_of(name: str, labels: Mapping[str, str], gateway: str) -> Identity:
    """A metric's name and labels, as the journal's columns."""
    own = tuple((key, labels[key]) for key in sorted(labels.keys() & OWN_LABELS))
    return Identity(gateway, name, labels.get("topic"), labels.get("subscription"), labels.get("worker"), own)


def columns(found: Sequence[Series]) -> dict[str, Any]:
    """Rows of the journal's table of metrics, column by column; the run's clock is the wall's."""
    counts = [len(series.values) for series in found]
    of = np.repeat(np.arange(len(found), dtype=np.int64), counts)
    at_ns = np.concatenate([series.at_ns for series in found])

    def texts(name: str) -> pa.Array[Any]:
        values = [getattr(series.identity, name) for series in found]
        return pa.array(values, pa.string()).dictionary_encode().take(of)

    labels = pa.array([list(series.identity.labels) for series in found], pa.map_(pa.string(), pa.string()))
    return {
        "at_ns": at_ns,
        "wall_ns": at_ns,
        **{name: texts(name) for name in ("name", "topic", "subscription", "consumer")},
        "labels": labels.take(of),
        "value": np.concatenate([series.values for series in found]),
    }
