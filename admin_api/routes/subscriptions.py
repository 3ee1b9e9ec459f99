"""Key_Shared subscriptions: who holds what, and what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from admin_api.access.roles import Role, needs
from admin_api.json_response import snapshot_response, steps_response
from admin_api.merged_page import merged_page
from admin_api.names import SUBSCRIPTION_PATH, WORKER_PATH, Here, Key, MessageKey, NamesRoute, WorkerName
from admin_api.replicas import asked_of_each, others_of
from admin_api.schemas.orders import LimitsInForce, StandingOrders
from admin_api.schemas.pending import PendingPage
from admin_api.schemas.problem import Problem
from admin_api.schemas.slots import DrainingPage, Ring
from admin_api.schemas.subscriptions import Subscription, Subscriptions, Worker

if TYPE_CHECKING:
    from typing import Any

    from admin_api.ports import GatewayView

PAGE_MAX = 1_000

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Most items of the page.")]
After = Annotated[str | None, Query(max_length=10_000, description="`next` of the page before.")]
WithWorkers = Annotated[bool, Query(description="Whether to list the workers of each; else they are counted only.")]
AfterSlot = Annotated[int, Query(ge=-1, le=65_536, description="`next` of the page before.")]


def subscription_routes(view: GatewayView) -> APIRouter:
    """Make the routes of subscriptions and their workers."""
    errors: dict[int | str, dict[str, Any]] = {400: {"model": Problem}, 404: {"model": Problem}}
    router = APIRouter(
        prefix="/api/v1", tags=["subscriptions"], default_response_class=Response, route_class=NamesRoute
    )

    @router.get(
        "/subscriptions",
        responses={200: {"model": Subscriptions}, 400: {"model": Problem}},
        summary="All subscriptions",
    )
    @needs(Role.VIEWER)
    async def subscriptions(
        request: Request,
        after: After = None,
        limit: Limit = 100,
        here: Here = False,  # noqa: FBT002 - a query's form
        workers: WithWorkers = True,  # noqa: FBT002
    ) -> Response:
        """Key_Shared subscriptions of this gateway with their workers, by topic and name, a page at a time.

        In owner mode they are those of all replicas, unless only those `here` are wanted. Lists that may be long
        (ranges, draining hashes, hand-overs) are empty: ask for a subscription by itself.
        """
        mine = await steps_response(view.subscriptions(after, limit, workers=workers))
        others = None if here else others_of(request)
        if others is None:
            return mine
        query = {"limit": str(limit), "workers": str(workers).lower()} | ({"after": after} if after is not None else {})
        theirs = await asked_of_each(others, f"/api/v1/subscriptions?{urlencode(query)}", request)
        return Response(merged_page(bytes(mine.body), theirs, limit), media_type="application/json")

    @router.get("/orders", responses={200: {"model": list[StandingOrders]}}, summary="Standing orders")
    @needs(Role.VIEWER)
    async def orders() -> Response:
        """All active orders, also for subscriptions without workers now."""
        return await snapshot_response(view.orders())

    @router.get(SUBSCRIPTION_PATH, responses=errors | {200: {"model": Subscription}}, summary="One subscription")
    @needs(Role.VIEWER)
    async def subscription(key: Key) -> Response:
        """Its workers, waiting messages, draining hashes, and the latest hand-overs."""
        return await steps_response(view.subscription(key))

    @router.get(SUBSCRIPTION_PATH + "/limits", responses=errors | {200: {"model": LimitsInForce}}, summary="Its limits")
    @needs(Role.VIEWER)
    async def limits(key: Key) -> Response:
        """Those in effect, and those of the configuration."""
        return await snapshot_response(view.limits(key))

    @router.get(SUBSCRIPTION_PATH + "/ring", responses=errors | {200: {"model": Ring}}, summary="Who owns which slots")
    @needs(Role.VIEWER)
    async def ring(key: Key) -> Response:
        """Every range of the hash space with its owner."""
        return await steps_response(view.ring(key))

    @router.get(
        SUBSCRIPTION_PATH + "/draining-hashes",
        responses=errors | {200: {"model": DrainingPage}},
        summary="Draining hashes of a subscription",
    )
    @needs(Role.VIEWER)
    async def draining_hashes(key: Key, after: AfterSlot = -1, limit: Limit = 100) -> Response:
        """Slots whose former owner still holds messages of them, so that the new owner waits (PIP-379)."""
        return await snapshot_response(view.draining(key, None, after, limit))

    _of_workers(router, view, errors)
    return router


def _of_workers(router: APIRouter, view: GatewayView, errors: dict[int | str, dict[str, Any]]) -> None:
    @router.get(WORKER_PATH, responses=errors | {200: {"model": Worker}}, summary="One worker")
    @needs(Role.VIEWER)
    async def worker(key: Key, worker: WorkerName) -> Response:
        """Its permits, its share of the hash space, what it holds, and which of its former slots drain."""
        return await steps_response(view.worker(key, worker))

    @router.get(
        WORKER_PATH + "/draining-hashes",
        responses=errors | {200: {"model": DrainingPage}},
        summary="Draining hashes of a worker",
    )
    @needs(Role.VIEWER)
    async def draining_hashes_of_worker(
        key: Key, worker: WorkerName, after: AfterSlot = -1, limit: Limit = 100
    ) -> Response:
        """Slots that moved away from this worker while it still holds their messages."""
        return await snapshot_response(view.draining(key, worker, after, limit))

    @router.get(
        WORKER_PATH + "/pending-acks",
        responses=errors | {200: {"model": PendingPage}},
        summary="What a worker has not acknowledged",
    )
    @needs(Role.VIEWER)
    async def pending_acks(
        key: Key, worker: WorkerName, of: MessageKey, after: After = None, limit: Limit = 100
    ) -> Response:
        """In topic order, a page at a time; of one key or slot only, if one is named."""
        return await steps_response(
            view.pending(key, worker, message_key=of.message_key, slot=of.slot, after=after, limit=limit)
        )
