"""Key_Shared subscriptions: who holds what, and what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Response

from admin_api.json_response import snapshot_response

if TYPE_CHECKING:
    from admin_api.ports import GatewayView


def subscription_routes(view: GatewayView) -> APIRouter:
    """Make ``/api/v1/subscriptions``."""
    router = APIRouter(prefix="/api/v1", tags=["subscriptions"])

    @router.get("/subscriptions", response_class=Response)
    async def subscriptions() -> Response:
        """All subscriptions of this gateway with their workers, as of this moment."""
        return await snapshot_response(view.subscriptions())

    return router
