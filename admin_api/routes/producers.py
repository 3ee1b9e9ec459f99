"""Producers that own a topic or wait to (PIP-440)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Query, Response

from admin_api.access.roles import Role, needs
from admin_api.json_response import snapshot_response
from admin_api.names import Namespace, NamesRoute, Tenant, Topic
from admin_api.routes.subscriptions import After, Limit
from admin_api.schemas.problem import Problem
from admin_api.schemas.producers import ElectionPage, Elections

if TYPE_CHECKING:
    from typing import Any

    from admin_api.ports import GatewayView

POSITION_MAX = 2**31 - 1

First = Annotated[int, Query(ge=0, le=POSITION_MAX, description="`next` of the page before.")]
Domain = Annotated[Literal["persistent", "non-persistent"], Query(description="What the topic's name begins with.")]


def producer_routes(view: GatewayView) -> APIRouter:
    """Make the routes of topics with exclusive producers."""
    errors: dict[int | str, dict[str, Any]] = {400: {"model": Problem}, 404: {"model": Problem}}
    router = APIRouter(
        prefix="/api/v1/exclusive-producers",
        tags=["exclusive producers"],
        default_response_class=Response,
        route_class=NamesRoute,
    )

    @router.get(
        "",
        responses={200: {"model": Elections}, 400: {"model": Problem}},
        summary="All topics with an exclusive producer",
    )
    @needs(Role.VIEWER)
    async def elections(after: After = None, limit: Limit = 100) -> Response:
        """Topics with an owner or waiting producers connected here, by name, a page at a time, and the totals."""
        return await snapshot_response(view.elections(after, limit))

    @router.get(
        "/{tenant}/{namespace}/{topic}",
        responses=errors | {200: {"model": ElectionPage}},
        summary="Who owns a topic, and who waits",
    )
    @needs(Role.VIEWER)
    async def election(
        tenant: Tenant,
        namespace: Namespace,
        topic: Topic,
        first: First = 0,
        limit: Limit = 100,
        domain: Domain = "persistent",
    ) -> Response:
        """The owner, and the queue in the order of promotion."""
        return await snapshot_response(view.election(f"{domain}://{tenant}/{namespace}/{topic}", first, limit))

    return router
