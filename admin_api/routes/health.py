"""Health for an orchestrator.

Two separate checks: whether to restart it (`livez`), and whether to send it clients (`readyz`). A broker that is down
makes the gateway unready but not dead: a restart would not repair the broker, and would close every worker's
connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Response, status

from admin_api.access.guard import GuardedRoute
from admin_api.access.roles import needs
from admin_api.schemas.health import Liveness, Readiness

if TYPE_CHECKING:
    from admin_api.ports import GatewayView


def health_routes(view: GatewayView) -> APIRouter:
    """Make ``/livez`` and ``/readyz``."""
    router = APIRouter(tags=["health"], route_class=GuardedRoute)

    @router.get("/livez")
    @needs(None)
    async def livez() -> Liveness:
        """200 while the event loop that carries messages runs."""
        return Liveness()

    @router.get("/readyz", responses={status.HTTP_503_SERVICE_UNAVAILABLE: {"model": Readiness}})
    @needs(None)
    async def readyz(response: Response) -> Readiness:
        """200 if it is ready for clients; 503 with all reasons if not."""
        reasons = list(view.not_ready_because())
        if reasons:
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        return Readiness(ready=not reasons, reasons=reasons)

    return router
