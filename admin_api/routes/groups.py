"""Groups of replicas that share a subscription (EIP-0028)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Response

from admin_api.access.roles import Role, needs
from admin_api.json_response import snapshot_response
from admin_api.names import GROUP_PATH, Key, NamesRoute
from admin_api.routes.subscriptions import After, Limit
from admin_api.schemas.groups import Deployment, Group, Groups
from admin_api.schemas.problem import Problem

if TYPE_CHECKING:
    from typing import Any

    from admin_api.ports import GatewayView


def group_routes(view: GatewayView) -> APIRouter:
    """Make the routes of this replica's groups."""
    errors: dict[int | str, dict[str, Any]] = {400: {"model": Problem}, 404: {"model": Problem}}
    router = APIRouter(prefix="/api/v1", tags=["groups"], default_response_class=Response, route_class=NamesRoute)

    @router.get(
        "/groups", responses={200: {"model": Groups}, 400: {"model": Problem}}, summary="Groups of this replica"
    )
    @needs(Role.VIEWER)
    async def groups(after: After = None, limit: Limit = 100) -> Response:
        """Subscriptions that this replica shares with others, by topic and name, a page at a time."""
        return await snapshot_response(view.groups(after, limit))

    @router.get(GROUP_PATH, responses=errors | {200: {"model": Group}}, summary="One group")
    @needs(Role.VIEWER)
    async def group(key: Key) -> Response:
        """Leases and streams of this replica; at the leader's also all sessions, owners and progress."""
        return await snapshot_response(view.group(key))

    @router.get(
        "/deployment",
        responses={200: {"model": Deployment}, 404: {"model": Problem}},
        summary="All replicas in owner mode",
    )
    @needs(Role.VIEWER)
    async def deployment() -> Response:
        """Who leads, and how many of all subscriptions' bundles each replica owns; 404 in any other mode."""
        return await snapshot_response(view.deployment())

    return router
