"""The stream of events, as Server-Sent Events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from admin_api.problems import Unavailable
from admin_api.schemas.events import EVENT_EXAMPLE
from admin_api.schemas.problem import Problem

if TYPE_CHECKING:
    from admin_api.ports import EventListener, GatewayView

HEARTBEAT_S = 15.0
"""Between two signs of life on a stream where nothing happens, so that proxies and clients keep it open."""
STREAMS_MAX = 200

Chosen = Annotated[str | None, Query(max_length=10_000)]


def event_routes(view: GatewayView, heartbeat_s: float = HEARTBEAT_S) -> APIRouter:
    """Make ``/api/v1/events``."""
    router = APIRouter(prefix="/api/v1", tags=["events"])
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
    async def events(
        topic: Annotated[Chosen, Query(description="Only of this topic, by its full name.")] = None,
        subscription: Annotated[Chosen, Query(description="Only of this subscription.")] = None,
        consumer: Annotated[
            Chosen,
            Query(description="Only what this worker gains or loses: joins, leaves and hand-overs with its name."),
        ] = None,
        last_event_id: Annotated[str | None, Header(description="Go on after this event, as browsers ask.")] = None,
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
                and (consumer is None or _concerns(event.facts, consumer))
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
    listener = view.listen(awake.set, after)
    open_streams.add(listener)
    try:
        yield b"retry: 2000\n\n"
        while not listener.ended:
            yield _written(listener, wanted)
            try:
                async with asyncio.timeout(heartbeat_s):
                    await awake.wait()
            except TimeoutError:
                yield b": still here\n\n"
            awake.clear()
        yield _written(listener, wanted)
    finally:
        listener.close()
        open_streams.discard(listener)


def _written(listener: EventListener, wanted: Callable[[Any], bool]) -> bytes:
    missed, taken = listener.take()
    pieces = [b'event: missed\ndata: {"count": %d}\n\n' % missed] if missed else []
    for event in taken:
        if wanted(event):
            name = event.kind.encode()
            pieces.append(b"id: %d\nevent: %s\ndata: %s\n\n" % (event.number, name, to_json(event)))
    return b"".join(pieces)


def _concerns(facts: dict[str, Any], consumer: str) -> bool:
    """Whether the worker is named in it, or gains or loses hashes by it."""
    if facts.get("consumer") == consumer:
        return True
    listed = (*facts.get("moves", ()), *facts.get("hand_overs", ()))
    return any(consumer in {item["source"], item["target"]} for item in listed)
