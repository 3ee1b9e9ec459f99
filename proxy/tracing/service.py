"""Traces of one gateway: follows entries on the loop, sends spans from a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.tracing.export import SpanExport
from proxy.tracing.spans import SpanMaker
from proxy.tracing.summary import TracesSummary
from proxy.tracing.tracer import Tracing

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock


class TracingService:
    """Creates, starts and stops the parts."""

    def __init__(
        self, url: str, ratio: float, gateway: str, version: str, clock: Clock, wall_ns: Callable[[], int]
    ) -> None:
        """Nothing is sent yet. `ratio` of all entries are followed, for the collector at `url`."""
        maker = SpanMaker(gateway, version, lambda: wall_ns() - int(clock.now() * 1e9))
        self._export = SpanExport(url, maker)
        self.tracing = Tracing(ratio, clock, self._export.put)
        self.start = self._export.start
        self.close = self._export.close

    def summary(self) -> TracesSummary:
        """How it fares now."""
        counters = self._export.counters
        lost = {
            "too_many": self.tracing.too_many_total,
            "queue_full": counters.queue_full_total,
            "export_failed": counters.failed_total,
        }
        return TracesSummary(counters.exported_total, lost)
