"""The configuration in effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from admin_api.access.guard import GuardedRoute
from admin_api.access.roles import Role, needs

if TYPE_CHECKING:
    from admin_api.ports import GatewayView


def configuration_routes(view: GatewayView) -> APIRouter:
    """Make ``/api/v1/configuration``."""
    router = APIRouter(prefix="/api/v1", tags=["gateway"], route_class=GuardedRoute)

    @router.get("/configuration", summary="Effective configuration")
    @needs(Role.VIEWER)
    async def configuration() -> dict[str, Any]:
        """Every setting with its origin (file, environment or default); secrets are masked."""
        return view.configuration()

    return router
