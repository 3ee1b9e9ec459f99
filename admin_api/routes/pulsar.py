"""Pulsar's own admin API, so that `pulsar-admin --admin-url http://gateway:8750` works: see `admin_api.pulsar`."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from admin_api.access.guard import GuardedRoute
from admin_api.access.roles import Role, needs
from admin_api.json_response import in_slices
from admin_api.origins import check_origin
from admin_api.problems import MEDIA_TYPE, Forbidden
from admin_api.pulsar import proxying
from admin_api.pulsar.merge import merge_topic, without_consumers
from admin_api.pulsar.moments import Epoch
from admin_api.pulsar.partitioned import merge_partitions
from admin_api.pulsar.paths import SAFE_METHODS, broker_path, broker_query, changes_broker, stats_asked, stats_query
from admin_api.pulsar.proxying import (
    BODY_BYTES_MAX,
    BadGateway,
    BrokerAdmin,
    TooLarge,
    bounded,
    headers_for_client,
    raw_headers_for_client,
    whole,
)
from admin_api.pulsar.rates import Rates
from admin_api.pulsar.stepwise import decoded, encoded
from admin_api.schemas.problem import Problem
from proxy.errors import KeylineError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping

    import httpx
    from starlette.types import Message, Receive, Scope, Send

    from admin_api.ports import GatewayView, Steps
    from admin_api.pulsar.paths import StatsAsked, StatsQuery

METHODS: Final = [*SAFE_METHODS, "POST", "PUT", "DELETE", "PATCH"]
PIECES_AT_ONCE: Final = 2_000
MERGES_MAX: Final = 4
"""Statistics held in memory at once, each until its last byte was taken; further askers wait."""
STALL_S_MAX: Final = 30.0
"""A client that reads nothing for this time is disconnected; otherwise a few of them would block all others."""
_TOPIC_DEPTH: Final = 5
"""Levels of a topic's statistics down to its consumers."""
_PARTITIONS_DEPTH: Final = _TOPIC_DEPTH + 2


class _Refused(KeylineError):
    http_status = HTTPStatus.METHOD_NOT_ALLOWED


def pulsar_routes(view: GatewayView, broker: BrokerAdmin, *, writes: bool, read_only: bool) -> APIRouter:
    """Make everything below ``/admin`` and ``/lookup``; changes are passed on with `writes` only."""
    router = APIRouter(include_in_schema=False, route_class=GuardedRoute)
    statistics = _Statistics(view, broker)

    async def passed(request: Request) -> Response:
        path = broker_path(request.scope["raw_path"])
        if _changes(request.scope):
            _check_write(request, writes=writes, read_only=read_only)
        if request.method not in SAFE_METHODS:
            answer = await broker.ask(request.method, path, _query(request), request.headers, _body(request))
            return _Streamed(answer)
        asked = stats_asked(path) if request.method == "GET" else None
        parts = view.connected(asked.topic, partitions=asked.partitioned) if asked is not None else ()
        if asked is None or not parts:
            return _Streamed(await broker.ask(request.method, path, _query(request), request.headers))
        return await statistics.merged(request, path, asked, parts)

    @needs(lambda scope: Role.ADMIN if _changes(scope) else Role.VIEWER)
    async def answered(request: Request) -> Response:
        try:
            return await passed(request)
        except KeylineError as error:
            return _refusal(error, request)

    for root in ("/admin/{rest:path}", "/lookup/{rest:path}"):
        router.api_route(root, methods=METHODS)(answered)
    return router


class _Statistics:
    """Answers that the gateway's part is merged into."""

    def __init__(self, view: GatewayView, broker: BrokerAdmin) -> None:
        self._view = view
        self._broker = broker
        self._rates = Rates()
        self._epoch = Epoch()
        self._places = asyncio.Semaphore(MERGES_MAX)

    async def merged(self, request: Request, path: str, asked: StatsAsked, parts: list[Steps]) -> Response:
        """The broker's statistics with the gateway's parts in them."""
        query = stats_query(_query(request), partitioned=asked.partitioned)
        answer = await self._broker.ask("GET", path, query.text, request.headers)
        if answer.status_code != HTTPStatus.OK:
            return _Streamed(answer)
        try:
            async with AsyncExitStack() as place:
                await place.enter_async_context(self._places)
                body = await whole(answer, proxying.STATS_BYTES_MAX)
                pieces = await self._with_parts(body, query, parts, partitioned=asked.partitioned)
                headers = headers_for_client(answer)
                for name in ("content-length", "content-encoding", "etag"):
                    headers.pop(name, None)
                return _Merged(pieces, headers, place.pop_all())
        finally:
            await answer.aclose()

    async def _with_parts(
        self, body: bytes, query: StatsQuery, parts: list[Steps], *, partitioned: bool
    ) -> list[bytes]:
        depth = _PARTITIONS_DEPTH if partitioned else _TOPIC_DEPTH
        try:
            topic = await in_slices(decoded(body.decode(), depth))
        except (ValueError, RecursionError) as error:
            raise BadGateway(f"the broker's statistics are no JSON: {error}") from error
        if not isinstance(topic, dict):
            raise BadGateway("the broker's statistics are no JSON object")
        ours = [await in_slices(steps) for steps in parts]
        self._epoch.observe(ours[0].now, time.time())
        merge = merge_partitions if partitioned else merge_topic
        await in_slices(merge(topic, ours, self._epoch, self._rates))
        if not query.consumers:
            for shown in (topic, *(topic.get("partitions") or {}).values()):
                without_consumers(shown)
        if partitioned and not query.per_partition:
            topic["partitions"] = {}
        pieces: list[bytes] = []
        await in_slices(encoded(topic, depth + 1, pieces))  # consumers' hashes may be many
        return pieces


async def _joined(pieces: list[bytes]) -> AsyncIterator[bytes]:
    """The same in fewer pieces, with turns of the loop in between."""
    for start in range(0, len(pieces), PIECES_AT_ONCE):
        yield b"".join(pieces[start : start + PIECES_AT_ONCE])
        await asyncio.sleep(0)


class _Merged(StreamingResponse):
    """An answer held in memory; it keeps its place until it was sent or the client has gone."""

    def __init__(self, pieces: list[bytes], headers: dict[str, str], place: AsyncExitStack) -> None:
        super().__init__(_joined(pieces), headers=headers)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(STALL_S_MAX):
                await send(message)

        async with self._place:
            with suppress(TimeoutError):  # the server closes a connection whose answer was not finished
                await super().__call__(scope, receive, send_in_time)


class _Streamed(StreamingResponse):
    """The broker's answer, streamed; always closed at the end."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(answer.aiter_raw(), answer.status_code)
        self.raw_headers = raw_headers_for_client(answer)
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.aclose()


def _check_write(request: Request, *, writes: bool, read_only: bool) -> None:
    if not writes:
        raise _Refused(
            f"this {request.method} would change something at the broker, and this gateway passes no changes on: its "
            "setting admin_writes_to_broker is false; ask the broker itself"
        )
    if read_only:
        raise Forbidden("this gateway takes no orders: its setting admin_read_only is true")
    check_origin(request)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > BODY_BYTES_MAX:
        raise TooLarge(f"a request's body may have {BODY_BYTES_MAX} bytes here, not {length}")


def _refusal(error: KeylineError, request: Request) -> JSONResponse:
    """Problem details, with the name under which `pulsar-admin` looks for the reason."""
    status = error.http_status
    detail = str(error)
    instance = quote(request.scope["path"])  # `request.url` would read the query too, which may be what is refused
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, instance=instance)
    content: dict[str, Any] = body.model_dump(mode="json", exclude_none=True) | {"reason": detail}
    headers = {"allow": ", ".join(SAFE_METHODS)} if isinstance(error, _Refused) else {}
    return JSONResponse(content, status, headers=headers, media_type=MEDIA_TYPE)


def _changes(scope: MutableMapping[str, Any]) -> bool:
    return changes_broker(scope["method"], scope["raw_path"], scope["query_string"])


def _query(request: Request) -> str:
    return broker_query(request.scope["query_string"])


def _body(request: Request) -> Any:
    """The request's body, or None if it has none."""
    headers = request.headers
    has_one = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    return bounded(request.stream()) if has_one else None
