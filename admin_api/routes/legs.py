"""What a replica that stops asks of the others; for replicas alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path

from admin_api.access.guard import GuardedRoute
from admin_api.access.roles import needs
from admin_api.schemas.replicas import StandingDown
from proxy.limits import NAME_CHARACTERS_MAX

if TYPE_CHECKING:
    from admin_api.ports import GatewayControl

PATH = "/api/v1/legs/{replica}/stand-down"


def leg_routes(control: GatewayControl) -> APIRouter:
    """Make the route."""
    router = APIRouter(route_class=GuardedRoute)

    @router.post(PATH)
    @needs(None)
    async def stand_down(replica: Annotated[str, Path(max_length=NAME_CHARACTERS_MAX)]) -> StandingDown:
        """Deliver nothing more by its legs; its clients may acknowledge what they have."""
        return StandingDown(unacked=control.stand_down(replica))

    return router
