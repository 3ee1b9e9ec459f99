"""Health for an orchestrator.

Two questions with two answers: restart it (`livez`), or only send nobody here for now (`readyz`). A broker that is
down makes the gateway unready, never unlive: a restart would not mend the broker, and would cost every worker its
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
        """200 if clients may come; 503 with every reason if not."""
        reasons = list(view.not_ready_because())
        if reasons:
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        return Readiness(ready=not reasons, reasons=reasons)

    return router
