"""Prometheus's two text formats, as prometheus-client writes them, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector


class Format(NamedTuple):
    """One of them."""

    media_type: str
    encode: Callable[[Collector], bytes]
    end: str
    """Its last line, which `encode` adds."""


TEXT: Final = Format(CONTENT_TYPE_PLAIN_0_0_4, generate_latest, "")
OPENMETRICS: Final = Format(openmetrics.CONTENT_TYPE_LATEST, openmetrics.generate_latest, "# EOF\n")


class Frozen(Collector):
    """Metrics that are made already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        """In the order they are to be written."""
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """All of them."""
        return self._metrics


def wanted(accept: str) -> Format:
    """OpenMetrics for requests that name it, as Prometheus does; text for all others.

    Not prometheus-client's `choose_encoder`: it raises on a version that is no number, and gives OpenMetrics asked for
    without a version the other format's content type.
    """
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return OPENMETRICS if "application/openmetrics-text" in kinds else TEXT


def encoded(metrics: Collector, form: Format) -> str:
    """The metrics without the format's last line."""
    return form.encode(metrics).decode().removesuffix(form.end)
