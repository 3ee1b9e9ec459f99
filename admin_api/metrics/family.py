"""One metric: name, kind, source and help text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric of a level; `source` leads to its number from the level's summary."""

    name: str
    kind: Kind
    source: str
    documentation: str
    unit: str = ""
    """Suffix of the name; OpenMetrics declares it separately."""
    label: str = ""
    """An extra label: `source` has a number for each of its values, or the current value."""
    values: tuple[str, ...] = ()
    """All values of `label`, if the source has only the current one: that is 1, the others 0."""


def counter(name: str, source: str, documentation: str, *, label: str = "", unit: str = "") -> Family:
    """One that never falls."""
    return Family(name, "counter", source, documentation, unit, label)


def gauge(
    name: str, source: str, documentation: str, *, unit: str = "", label: str = "", values: tuple[str, ...] = ()
) -> Family:
    """One that rises and falls."""
    return Family(name, "gauge", source, documentation, unit, label, values)


def seconds(name: str, source: str, documentation: str) -> Family:
    """A histogram of durations."""
    return Family(name, "histogram", source, documentation, "seconds")
