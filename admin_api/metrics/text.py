"""The whole text of a scrape of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from fastapi.concurrency import run_in_threadpool
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from admin_api.metrics.exposition import exposition, gather
from admin_api.metrics.formats import encoded

if TYPE_CHECKING:
    from admin_api.metrics.exposition import Scrape
    from admin_api.metrics.families import Histograms
    from admin_api.metrics.formats import Format
    from admin_api.ports_metrics import MetricsView
    from admin_api.turns import Turns


class MetricsText:
    """Makes it, for each scrape anew."""

    def __init__(
        self,
        view: MetricsView,
        *,
        workers_max: int,
        pulsar_names: bool,
        histograms: Histograms = "subscription",
    ) -> None:
        """Make it of this view.

        At most `workers_max` workers get their own series, 0 for none; with `pulsar_names` the gateway's values are
        also exported under the broker's names. `histograms` are of each subscription or namespace, or of the gateway.
        """
        self._view = view
        self._workers_max = workers_max
        self._pulsar_names = pulsar_names
        self._histograms = histograms
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)

    async def gathered(self, form: Format, turns: Turns) -> AsyncIterator[str]:
        """Gather all metrics; then the text in pieces, without the format's last line."""
        scrape = await gather(self._view, self._workers_max, turns, self._histograms)
        return self._pieces(scrape, form, turns)

    async def _pieces(self, scrape: Scrape, form: Format, turns: Turns) -> AsyncIterator[str]:
        names, histograms = self._pulsar_names, self._histograms
        async for piece in exposition(scrape, form, turns, pulsar_names=names, histograms=histograms):
            yield piece
        # Counting the open files of a process with thousands takes milliseconds.
        yield await run_in_threadpool(encoded, self._process, form)
