"""Prometheus's numbers: see `admin_api.metrics`."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from admin_api.access.guard import GuardedRoute
from admin_api.access.roles import needs
from admin_api.metrics.exposition import exposition, gather
from admin_api.metrics.formats import OPENMETRICS, TEXT, encoded, wanted
from admin_api.turns import Turns

if TYPE_CHECKING:
    from typing import Any

    from admin_api.access.roles import Role
    from admin_api.metrics.exposition import Scrape
    from admin_api.metrics.families import Histograms
    from admin_api.metrics.formats import Format
    from admin_api.ports_metrics import MetricsView

_GZIP: Final = 16 + zlib.MAX_WBITS
_FAST: Final = 1
"""Lines that differ in a number shrink to a tenth at the lowest level already."""


def metrics_routes(
    view: MetricsView,
    *,
    workers_max: int,
    pulsar_names: bool,
    histograms: Histograms = "subscription",
    role: Role | None = None,
) -> APIRouter:
    """Make ``/metrics``.

    At most `workers_max` workers get their own series, 0 for none; with `pulsar_names` the gateway's values are
    also exported under the broker's names. `histograms` are of each subscription or namespace, or of the gateway.
    `role` is required of callers; None means no authentication.
    """
    router = APIRouter(tags=["metrics"], route_class=GuardedRoute)
    process = CollectorRegistry()
    ProcessCollector(registry=process)
    GCCollector(registry=process)

    async def text(scrape: Scrape, form: Format, turns: Turns) -> AsyncIterator[bytes]:
        async for piece in exposition(scrape, form, turns, pulsar_names=pulsar_names, histograms=histograms):
            yield piece.encode()
        # Counting the open files of a process with thousands takes milliseconds.
        yield (await run_in_threadpool(encoded, process, form) + form.end).encode()

    content: dict[str, Any] = {form.media_type.partition(";")[0]: {} for form in (TEXT, OPENMETRICS)}

    @router.get(
        "/metrics",
        response_class=StreamingResponse,
        responses={200: {"content": content, "description": "All metrics."}},
        summary="Metrics for Prometheus",
    )
    @needs(role)
    async def metrics(request: Request) -> StreamingResponse:
        """Prometheus's text format, or OpenMetrics where the request accepts it."""
        form = wanted(request.headers.get("accept", ""))
        turns = Turns()
        pieces = text(await gather(view, workers_max, turns, histograms), form, turns)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            pieces = _gzipped(pieces)
        return StreamingResponse(pieces, media_type=form.media_type, headers=headers)

    return router


async def _gzipped(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """In a thread, which needs the interpreter for none of it."""
    compressor = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    async for piece in pieces:
        yield await run_in_threadpool(compressor.compress, piece)
    yield compressor.flush()
