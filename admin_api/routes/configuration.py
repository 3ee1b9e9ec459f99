"""The configuration in effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

if TYPE_CHECKING:
    from admin_api.ports import GatewayView


def configuration_routes(view: GatewayView) -> APIRouter:
    """Make ``/api/v1/configuration``."""
    router = APIRouter(prefix="/api/v1", tags=["gateway"])

    @router.get("/configuration", summary="Effective configuration")
    async def configuration() -> dict[str, Any]:
        """Every setting, from file, environment or default, with where it comes from; secrets are masked."""
        return view.configuration()

    return router
