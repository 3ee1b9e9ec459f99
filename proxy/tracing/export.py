"""Sends spans over OTLP from a thread, so that a collector that is slow, wrong or gone delays no message.

The loop only puts passages into a queue with a bound; what finds no place is counted and forgotten, and so is what the
collector did not take after the exporter's own retries. A failure is logged when it begins and when it is over.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Final

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from proxy.tracing.passage import Passage
    from proxy.tracing.spans import SpanMaker

QUEUED_MAX: Final = 2_000
"""Passages that wait for the thread, a few kB each."""
TOGETHER_MAX: Final = 200
"""Passages sent in one request."""
GATHER_S: Final = 1.0
"""Time for more to come."""
TIMEOUT_S: Final = 5.0
"""For one request, retries included."""
END_S_MAX: Final = 2.0
"""That a stopping gateway waits for the last request."""

log = structlog.get_logger("keyline.tracing")


@dataclass(slots=True)
class ExportCounters:
    """Since the gateway started."""

    exported_total: int = 0
    queue_full_total: int = 0
    failed_total: int = 0


class SpanExport:
    """The thread."""

    def __init__(self, url: str, maker: SpanMaker) -> None:
        """`url` is of the collector's traces, for OTLP over HTTP: ``http://collector:4318/v1/traces``."""
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it would tell of each request
        self.counters = ExportCounters()
        self._exporter = OTLPSpanExporter(url, timeout=TIMEOUT_S)
        self._maker = maker
        self._queue: Queue[Passage | None] = Queue(QUEUED_MAX)
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="keyline-tracing", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, passage: Passage) -> None:
        """Let it be sent, if there is room."""
        try:
            self._queue.put_nowait(passage)
        except Full:
            self.counters.queue_full_total += 1

    def close(self) -> None:
        """Send what there is, for `END_S_MAX` at most."""
        try:
            self._queue.put_nowait(None)
        except Full:
            pass
        else:
            self._thread.join(END_S_MAX)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _run(self) -> None:
        more = True
        while more:
            passages, more = self._next()
            if passages:
                self._send(passages)

    def _next(self) -> tuple[list[Passage], bool]:
        """What came within `GATHER_S`, and whether more may come."""
        passages: list[Passage] = []
        passage = self._queue.get()
        until = time.monotonic() + GATHER_S
        while passage is not None:
            passages.append(passage)
            left_s = until - time.monotonic()
            if len(passages) >= TOGETHER_MAX or left_s <= 0:
                return passages, True
            try:
                passage = self._queue.get(timeout=left_s)
            except Empty:
                return passages, True
        return passages, False

    def _send(self, passages: Sequence[Passage]) -> None:
        problem = ""
        try:
            spans: list[ReadableSpan] = [span for passage in passages for span in self._maker.spans(passage)]
            if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
                problem = "the collector did not take them"
        except Exception as error:  # noqa: BLE001 - any fault of the exporter: the next ones are tried
            problem = f"{type(error).__name__}: {error}"
        if problem:
            self.counters.failed_total += len(passages)
            if not self._failing:
                log.warning("traces not exported", reason=problem, detail="logged again when they are")
        else:
            self.counters.exported_total += len(passages)
            if self._failing:
                log.info("traces exported again", lost=self.counters.failed_total)
        self._failing = bool(problem)
