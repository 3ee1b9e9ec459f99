"""What a gateway writes for others to read: the journal (with snapshots of /metrics), events on a topic, traces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from admin_api.metrics.snapshot import snapshot
from proxy.app.parts import event_topic_of, journal_of, tracing_of

if TYPE_CHECKING:
    from proxy.aio.clock_and_connector import AioClock
    from proxy.config.settings import Config
    from proxy.journal.service import JournalService
    from proxy.net.events import Events
    from proxy.views.metrics import MetricsSource

log = structlog.get_logger("keyline.gateway")


class Records:
    """Each of them, if it is enabled."""

    def __init__(self, config: Config, events: Events, clock: AioClock) -> None:
        """Of these events; nothing is written before `start`. Raises `StartFailure`."""
        self._config = config
        self.journal = journal_of(config, events, clock)
        self.tracing = tracing_of(config, events, clock)
        self.event_topic = event_topic_of(config, events, clock)
        self._snapshots: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None

    def start(self, metrics: MetricsSource) -> None:
        """Begin to write."""
        if self.tracing is not None:
            self.tracing.start()
        if self.journal is not None:
            self.journal.start()
            if self._config.journaling.journal_snapshot_s:
                self._snapshots = asyncio.create_task(self._take_snapshots(self.journal, metrics))
        if self.event_topic is not None:
            self._sending = asyncio.create_task(self.event_topic.run())

    async def close(self, patience_s: float) -> None:
        """Write what there is, when there are no more events; the last file is finished on a thread.

        The topic has so long to take the last of them.
        """
        if self._snapshots is not None:
            self._snapshots.cancel()
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=patience_s)
            self._sending.cancel()
        if self.journal is not None and not await asyncio.to_thread(self.journal.close):
            log.error("journal files not published", detail="the next run publishes them")
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.close)

    async def _take_snapshots(self, service: JournalService, metrics: MetricsSource) -> None:
        """Record the numbers of /metrics periodically."""
        while True:
            await asyncio.sleep(self._config.journaling.journal_snapshot_s)
            service.journal.measured(await snapshot(metrics, self._config.serving.metrics_workers_max))
