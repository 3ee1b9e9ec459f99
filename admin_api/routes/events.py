"""The stream of events, as Server-Sent Events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from admin_api.access.guard import GuardedRoute
from admin_api.access.roles import Role, needs
from admin_api.problems import Unavailable
from admin_api.schemas.events import EVENT_EXAMPLE
from admin_api.schemas.problem import Problem

if TYPE_CHECKING:
    from admin_api.ports import EventListener, GatewayView

HEARTBEAT_S = 15.0
"""Between two signs of life on a stream where nothing happens, so that proxies and clients keep it open."""
STREAMS_MAX = 200
GATHER_S = 0.05
"""How long events are gathered before they are written: in a rebalance there may be a thousand a second."""
EVENTS_AT_ONCE = 20
EVERYBODYS = "subscription_ended"
"""What concerns every worker."""
TOLD = ("number", "kind", "at", "topic", "subscription", "facts")

Chosen = Annotated[str | None, Query(max_length=10_000)]


def event_routes(view: GatewayView, heartbeat_s: float = HEARTBEAT_S) -> APIRouter:
    """Make ``/api/v1/events``."""
    router = APIRouter(prefix="/api/v1", tags=["events"], route_class=GuardedRoute)
    open_streams: set[object] = set()
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
        topic: Annotated[Chosen, Query(description="Only of this topic, by its full name.")] = None,
        subscription: Annotated[Chosen, Query(description="Only of this subscription.")] = None,
        consumer: Annotated[
            Chosen,
            Query(description="Only what this worker gains or loses: joins, leaves and hand-overs with its name."),
        ] = None,
        last_event_id: Annotated[
            str | None, Header(max_length=20, description="Go on after this event, as browsers ask.")
        ] = None,
    ) -> StreamingResponse:
        """Server-Sent Events: joins, leaves, moved hashes, drains begun and ended, upstream changes, orders.

        Each has its number as id. An event `missed` tells how many were lost, to a listener that was too slow or came
        again too late: read the state anew then.
        """
        if len(open_streams) >= STREAMS_MAX:
            raise Unavailable(f"{STREAMS_MAX} streams are open already; end one first")

        def wanted(event: Any) -> bool:
            return (
                (topic is None or event.topic == topic)
                and (subscription is None or event.subscription == subscription)
                and (consumer is None or consumer in event.concerned or event.kind == EVERYBODYS)
            )

        after = int(last_event_id) if last_event_id is not None and last_event_id.isdecimal() else None
        body = _stream(view, after, wanted, open_streams, heartbeat_s)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(body, media_type="text/event-stream", headers=headers)

    return router


async def _stream(
    view: GatewayView,
    after: int | None,
    wanted: Callable[[Any], bool],
    open_streams: set[object],
    heartbeat_s: float,
) -> AsyncIterator[bytes]:
    awake = asyncio.Event()
    listener = view.listen(awake.set, after, wanted)
    open_streams.add(listener)
    try:
        yield b"retry: 2000\n\n"
        while not listener.ended:
            for piece in _written(listener):
                yield piece
                await asyncio.sleep(0)
            try:
                async with asyncio.timeout(heartbeat_s):
                    await awake.wait()
            except TimeoutError:
                yield b": still here\n\n"
            awake.clear()
            await asyncio.sleep(GATHER_S)
        for piece in _written(listener):
            yield piece
    finally:
        listener.close()
        open_streams.discard(listener)


def _written(listener: EventListener) -> Iterator[bytes]:
    """What there is to take, some events at a time."""
    missed, taken = listener.take()
    if missed:
        yield b'event: missed\ndata: {"count": %d}\n\n' % missed
    for start in range(0, len(taken), EVENTS_AT_ONCE):
        yield b"".join(map(_line, taken[start : start + EVENTS_AT_ONCE]))


def _line(event: Any) -> bytes:
    data = {name: getattr(event, name) for name in TOLD}
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.number, event.kind.encode(), to_json(data))
