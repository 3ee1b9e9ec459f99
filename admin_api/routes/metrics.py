"""Prometheus's numbers: see `admin_api.metrics`."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from admin_api.access.guard import GuardedRoute
from admin_api.access.roles import needs
from admin_api.metrics.formats import OPENMETRICS, TEXT, wanted
from admin_api.metrics.merged import Answers, merged
from admin_api.problems import Unavailable
from admin_api.replicas import asked_of_each
from admin_api.turns import Turns

if TYPE_CHECKING:
    from typing import Any

    from starlette.types import Receive, Scope, Send

    from admin_api.access.roles import Role
    from admin_api.metrics.formats import Format
    from admin_api.metrics.text import MetricsText
    from admin_api.ports import HostProcesses

PROCESS_PATH: Final = "/api/v1/process/metrics"
SCRAPES_MAX: Final = 8
"""Of several processes, at a time: each has the texts of all until it is read, 10 MB for 1,000 subscriptions."""
SCRAPE_S_MAX: Final = 60.0
"""In which such a scrape has to be read; Prometheus's own default is 10 s."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_FAST: Final = 1
"""Lines that differ in a number shrink to a tenth at the lowest level already."""


def metrics_routes(text: MetricsText, *, role: Role | None = None, processes: HostProcesses | None = None) -> APIRouter:
    """Make ``/metrics``: of this process, or of all `processes` of this host.

    `role` is required of callers; None means no authentication.
    """
    router = APIRouter(tags=["metrics"], route_class=GuardedRoute)
    places = _Places()
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
        form, turns = wanted(request.headers.get("accept", "")), Turns()
        place: ExitStack | None = None
        if processes is None:
            pieces = await text.gathered(form, turns)
        else:
            with places.take() as taken:
                pieces = merged(await _answers(text, processes, form, turns, request), form, turns)
                place = taken.pop_all()
        encoded = _ended(pieces, form)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            encoded = _gzipped(encoded)
        if place is None:
            return StreamingResponse(encoded, media_type=form.media_type, headers=headers)
        return _Placed(encoded, form, headers, place)

    return router


class _Places:
    """Scrapes of several processes that are under way."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self) -> ExitStack:
        """A place, given back when it is closed. Raises `Unavailable`."""
        if self._taken >= SCRAPES_MAX:
            raise Unavailable(f"{SCRAPES_MAX} scrapes are under way already")
        self._taken += 1
        place = ExitStack()
        place.callback(self._give_back)
        return place

    def _give_back(self) -> None:
        self._taken -= 1


class _Placed(StreamingResponse):
    """Keeps its place until it is read, or was not for too long: then its connection is closed."""

    def __init__(self, body: AsyncIterator[bytes], form: Format, headers: dict[str, str], place: ExitStack) -> None:
        super().__init__(body, media_type=form.media_type, headers=headers)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place, suppress(TimeoutError):  # an answer without its end: the server closes the connection
            async with asyncio.timeout(SCRAPE_S_MAX):
                await super().__call__(scope, receive, send)


def process_metrics_routes(text: MetricsText) -> APIRouter:
    """Make what other processes of this host merge with theirs."""
    router = APIRouter(route_class=GuardedRoute)

    @router.get(PROCESS_PATH)
    @needs(None)
    async def metrics(*, openmetrics: bool = False) -> Response:
        form = OPENMETRICS if openmetrics else TEXT
        return Response(await _whole(text, form, Turns()), media_type=form.media_type)

    return router


async def _answers(
    text: MetricsText, processes: HostProcesses, form: Format, turns: Turns, request: Request
) -> Answers:
    target = f"{PROCESS_PATH}?openmetrics={'true' if form is OPENMETRICS else 'false'}"
    theirs = await asked_of_each(processes, target, request)
    texts = {process: told.decode() for process, told in theirs.items() if isinstance(told, bytes)}
    texts[processes.here] = await _whole(text, form, turns)
    up = dict.fromkeys(theirs, False) | dict.fromkeys(texts, True)
    return Answers(dict(sorted(texts.items())), up, processes.restarts())


async def _whole(text: MetricsText, form: Format, turns: Turns) -> str:
    return "".join([piece async for piece in await text.gathered(form, turns)])


async def _ended(pieces: AsyncIterator[str], form: Format) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece.encode()
    yield form.end.encode()


async def _gzipped(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """In a thread, which needs the interpreter for none of it."""
    compressor = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    async for piece in pieces:
        yield await run_in_threadpool(compressor.compress, piece)
    yield compressor.flush()
