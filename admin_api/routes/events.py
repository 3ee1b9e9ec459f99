"""The stream of events, as Server-Sent Events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from admin_api.access.guard import GuardedRoute, Standing
from admin_api.access.roles import Role, declared, needs
from admin_api.access.tokens import CALLER
from admin_api.problems import Unavailable
from admin_api.replicas import check_served_here, others_of
from admin_api.schemas.events import EVENT_EXAMPLE
from admin_api.schemas.problem import Problem

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from admin_api.ports import EventListener, GatewayView

HEARTBEAT_S = 15.0
"""Between two signs of life on a stream where nothing happens, so that proxies and clients keep it open."""
STREAMS_MAX = 400
"""Each costs some 40 KiB, and half a microsecond per event."""
STREAMS_EACH_MAX = 200
"""Of one caller, known by its token's name or else its address: one that opens more and more leaves room to others."""
LINES_MAX = 1_000
"""Kept as written; what is gathered at a time is less."""
GATHER_S = 0.05
"""How long events are gathered before they are written: in a rebalance there may be a thousand a second."""
EVENTS_AT_ONCE = 20
EVERYBODYS = "subscription_ended"
"""What concerns every worker."""
TOLD = ("number", "kind", "at", "topic", "subscription", "facts")

Chosen = Annotated[str | None, Query(max_length=10_000)]


def event_routes(view: GatewayView) -> APIRouter:
    """Make ``/api/v1/events``."""
    router = APIRouter(prefix="/api/v1", tags=["events"], route_class=GuardedRoute)
    places = Places()
    lines = Lines()
    answers: dict[int | str, dict[str, Any]] = {
        200: {
            "content": {"text/event-stream": {"example": EVENT_EXAMPLE}},
            "description": "Until either side ends it.",
        },
        400: {"model": Problem},
        503: {"model": Problem},
    }

    @router.get("/events", responses=answers, response_class=StreamingResponse, summary="What happens, as it does")
    @needs(Role.VIEWER)
    async def events(
        request: Request,
        topic: Annotated[Chosen, Query(description="Only of this topic, by its full name.")] = None,
        subscription: Annotated[Chosen, Query(description="Only of this subscription.")] = None,
        worker: Annotated[
            Chosen,
            Query(description="Only what this worker gains or loses: joins, leaves and hand-overs with its name."),
        ] = None,
        last_event_id: Annotated[
            str | None, Header(max_length=20, description="Go on after this event, as browsers ask.")
        ] = None,
    ) -> Response:
        """Server-Sent Events: joins, leaves, moved slots, drains begun and ended, upstream changes, orders.

        Each has its number as id. An event `missed` has the number of lost events, for a listener that was too slow or
        reconnected too late: it must then read the state again. In owner mode they are those of the replica that
        owns the subscription that is named, and else of this one; the stream ends when the subscription moves, and
        when the caller may no longer have it.
        """
        served = _served_here(request, topic, subscription)
        place = places.take(_asker(request))

        def wanted(event: Any) -> bool:
            return (
                (topic is None or event.topic == topic)
                and (subscription is None or event.subscription == subscription)
                and (worker is None or worker in event.concerned or event.kind == EVERYBODYS)
            )

        after = int(last_event_id) if last_event_id is not None and last_event_id.isdecimal() else None
        standing = Standing(request.scope, declared(events))
        body = _stream(view, lines, after, wanted, served, standing, HEARTBEAT_S)
        return _Placed(body, place)

    return router


class Lines:
    """Events as they are written, each made once for all streams that tell of it."""

    def __init__(self) -> None:
        """None is made."""
        self._made: dict[int, bytes] = {}

    def of(self, event: Any) -> bytes:
        """Of an event, known by its number."""
        line = self._made.get(event.number)
        if line is None:
            if len(self._made) >= LINES_MAX:
                self._made.clear()
            data = {name: getattr(event, name) for name in TOLD}
            line = b"id: %d\nevent: %s\ndata: %s\n\n" % (event.number, event.kind.encode(), to_json(data))
            self._made[event.number] = line
        return line


class Places:
    """Streams that are open, by who asked for them; a place is taken before a stream begins, so none is shared."""

    def __init__(self) -> None:
        """None is taken."""
        self._taken: Counter[str] = Counter()

    def take(self, asker: str) -> ExitStack:
        """A place, given back when it is closed. Raises `Unavailable`."""
        if self._taken.total() >= STREAMS_MAX:
            raise Unavailable(f"{STREAMS_MAX} streams are open already; end one first")
        if self._taken[asker] >= STREAMS_EACH_MAX:
            raise Unavailable(f"{asker} has {STREAMS_EACH_MAX} streams open already; end one first")
        self._taken[asker] += 1
        place = ExitStack()
        place.callback(self._give_back, asker)
        return place

    def _give_back(self, asker: str) -> None:
        self._taken[asker] -= 1
        if not self._taken[asker]:
            del self._taken[asker]


def _asker(request: Request) -> str:
    caller = request.scope.get(CALLER)
    if caller is not None:
        return str(caller.name)
    return request.client.host if request.client is not None else "this client"


class _Placed(StreamingResponse):
    """A stream that keeps its place until it ends."""

    def __init__(self, body: AsyncIterator[bytes], place: ExitStack) -> None:
        super().__init__(body, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


def _served_here(request: Request, topic: str | None, subscription: str | None) -> Callable[[], bool]:
    """Whether events of it happen here, as long as they do; raises `ServedElsewhereError`."""
    others = others_of(request)
    if others is None or topic is None or subscription is None:
        return lambda: True
    key = topic, subscription
    check_served_here(request, key, here=False)
    return lambda: others.serving(key) in (None, others.here)


async def _stream(
    view: GatewayView,
    lines: Lines,
    after: int | None,
    wanted: Callable[[Any], bool],
    served: Callable[[], bool],
    standing: Standing,
    heartbeat_s: float,
) -> AsyncIterator[bytes]:
    awake = asyncio.Event()
    listener = view.listen(awake.set, after, wanted)
    try:
        yield b"retry: 2000\n\n"
        while not listener.ended and served():
            if not await standing.holds():
                return
            for piece in _written(listener, lines):
                yield piece
                await asyncio.sleep(0)
            try:
                async with asyncio.timeout(heartbeat_s):
                    await awake.wait()
            except TimeoutError:
                yield b": still here\n\n"
            awake.clear()
            await asyncio.sleep(GATHER_S)
        for piece in _written(listener, lines):
            yield piece
    finally:
        listener.close()


def _written(listener: EventListener, lines: Lines) -> Iterator[bytes]:
    """What there is to take, some events at a time."""
    missed, taken = listener.take()
    if missed:
        yield b'event: missed\ndata: {"count": %d}\n\n' % missed
    for start in range(0, len(taken), EVENTS_AT_ONCE):
        yield b"".join(map(lines.of, taken[start : start + EVENTS_AT_ONCE]))
