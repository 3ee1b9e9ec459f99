"""Key_Shared subscriptions: who holds what, and what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Response

from admin_api.access.roles import Role, needs
from admin_api.json_response import snapshot_response, steps_response
from admin_api.names import SUBSCRIPTION_PATH, WORKER_PATH, Key, MessageKey, NamesRoute, WorkerName
from admin_api.schemas.orders import StandingOrders
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
    async def subscriptions(after: After = None, limit: Limit = 100) -> Response:
        """Key_Shared subscriptions of this gateway with their workers, by topic and name, a page at a time.

        Lists that may be long (ranges, draining hashes, hand-overs) are empty here: ask for a subscription by itself.
        """
        return await steps_response(view.subscriptions(after, limit))

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

    return router
