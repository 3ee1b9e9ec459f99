"""Where keys go and why they wait: explanations and previews."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Body, Query, Response

from admin_api.access.roles import Role, needs
from admin_api.json_response import snapshot_response, steps_response
from admin_api.names import BODY_BYTES_MAX, SUBSCRIPTION_PATH, Key, MessageKey, NamesRoute
from admin_api.schemas.parked import ParkedMessage, ParkedSlots
from admin_api.schemas.problem import Problem
from admin_api.schemas.slots import Explanation, HotKeys, JoinAsked, Preview, StuckSlots

if TYPE_CHECKING:
    from typing import Any

    from admin_api.ports import GatewayView

StuckLimit = Annotated[int, Query(ge=1, le=1_000, description="Most slots of the answer.")]

HotLimit = Annotated[int, Query(ge=1, le=100, description="Most keys of the answer.")]


def slot_routes(view: GatewayView) -> APIRouter:
    """Make ``explain`` and ``preview``."""
    errors: dict[int | str, dict[str, Any]] = {400: {"model": Problem}, 404: {"model": Problem}}
    router = APIRouter(
        prefix="/api/v1",
        tags=["keys"],
        default_response_class=Response,
        route_class=NamesRoute,
        max_body_size=BODY_BYTES_MAX,
    )

    @router.get(
        SUBSCRIPTION_PATH + "/explain", responses=errors | {200: {"model": Explanation}}, summary="Why a key waits"
    )
    @needs(Role.VIEWER)
    async def explain(key: Key, of: MessageKey) -> Response:
        """The key's owner and holder, the deliveries that block its next message, and what would unblock it."""
        named = of.required()
        return await snapshot_response(view.explain(key, message_key=named.message_key, slot=named.slot))

    @router.get(
        SUBSCRIPTION_PATH + "/stuck", responses=errors | {200: {"model": StuckSlots}}, summary="Which keys wait"
    )
    @needs(Role.VIEWER)
    async def stuck(key: Key, limit: StuckLimit = 100) -> Response:
        """Hash slots with messages that wait, those first that have waited longest: why, and for which worker."""
        return await steps_response(view.stuck(key, limit))

    @router.get(
        SUBSCRIPTION_PATH + "/hot-keys",
        responses=errors | {200: {"model": HotKeys}},
        summary="Which keys have the most messages",
    )
    @needs(Role.VIEWER)
    async def hot_keys(key: Key, limit: HotLimit = 10) -> Response:
        """The keys with the most messages of the last minute, and what of their hash slots is not acknowledged."""
        return await steps_response(view.hot_keys(key, limit))

    @router.get(
        SUBSCRIPTION_PATH + "/parked", responses=errors | {200: {"model": ParkedSlots}}, summary="Which keys are parked"
    )
    @needs(Role.VIEWER)
    async def parked(key: Key, limit: StuckLimit = 100) -> Response:
        """Hash slots whose messages go to the parking topic, and how many of each are there."""
        return await snapshot_response(view.parked(key, limit))

    @router.get(
        SUBSCRIPTION_PATH + "/parked/messages",
        responses=errors | {200: {"model": list[ParkedMessage]}},
        summary="What is parked of a key",
    )
    @needs(Role.VIEWER)
    async def parked_messages(key: Key, of: MessageKey, limit: StuckLimit = 100) -> Response:
        """The parked messages of the key's slot, in order; their contents are in the parking topic."""
        named = of.required()
        found = view.parked_messages(key, message_key=named.message_key, slot=named.slot, limit=limit)
        return await snapshot_response(found)

    @router.post(
        SUBSCRIPTION_PATH + "/preview/join",
        responses=errors | {200: {"model": Preview}, 409: {"model": Problem}},
        summary="What a join would move",
    )
    @needs(Role.VIEWER)
    async def preview_join(key: Key, asked: Annotated[JoinAsked, Body()]) -> Response:
        """Computed on a copy: nothing changes."""
        return await steps_response(
            view.preview_join(key, asked.worker, [(start, end) for start, end in asked.sticky_ranges])
        )

    @router.get(
        SUBSCRIPTION_PATH + "/preview/leave",
        responses=errors | {200: {"model": Preview}},
        summary="What a leave would move",
    )
    @needs(Role.VIEWER)
    async def preview_leave(
        key: Key,
        worker: Annotated[list[str], Query(min_length=1, max_length=1_000, description="Who would leave, together.")],
    ) -> Response:
        """Computed on a copy: nothing changes."""
        return await steps_response(view.preview_leave(key, worker))

    return router
