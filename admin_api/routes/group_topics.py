"""The topics of groups: which there are, and the removal of those of former groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Response

from admin_api.access.caller import OrderedBy
from admin_api.access.roles import Role, needs
from admin_api.json_response import snapshot_response
from admin_api.names import NamesRoute
from admin_api.routes.orders import answer_of, orders_allowed
from admin_api.routes.subscriptions import After, Limit
from admin_api.schemas.groups import GroupTopics, TopicRemoved
from admin_api.schemas.problem import Problem
from proxy.errors import NotFound
from proxy.limits import NAME_CHARACTERS_MAX

if TYPE_CHECKING:
    from admin_api import ports

TopicName = Annotated[
    str,
    Path(
        max_length=NAME_CHARACTERS_MAX,
        description="Whole name, as the list gives it.",
        examples=["persistent://public/default/keyline-group-orders-billing-8be1f2c0d9a7e654"],
    ),
]
NO_GROUPS = "this gateway has no part in a group of replicas (groups_enabled)"


def group_topic_routes(topics: ports.GroupTopics | None, *, read_only: bool) -> APIRouter:
    """Make the routes; `topics` is None for a gateway that is alone. With `read_only` nothing is removed."""
    errors: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (400, 403, 404, 409, 503)}
    router = APIRouter(prefix="/api/v1/group-topics", tags=["groups"], responses=errors, route_class=NamesRoute)

    def known() -> ports.GroupTopics:
        if topics is None:
            raise NotFound(NO_GROUPS)
        return topics

    @router.get(
        "", responses={200: {"model": GroupTopics}}, response_class=Response, summary="Topics of groups of replicas"
    )
    @needs(Role.OPERATOR)
    async def listed(after: After = None, limit: Limit = 100) -> Response:
        """Topics that replicas made in `groups_namespace`, by name, and why each is in use.

        For each topic of a group this replica asks the broker for the exclusive producer, and gives it back at once.
        """
        return await snapshot_response(await answer_of(lambda answered: known().page(after, limit, answered)))

    @router.delete(
        "/{topic}",
        summary="Remove the topic of a former group",
        dependencies=[Depends(orders_allowed(read_only=read_only))],
    )
    @needs(Role.ADMIN)
    async def remove(topic: TopicName, by: OrderedBy) -> TopicRemoved:
        """Remove the topic of a group that no replica is in; 409 with the reason if one is.

        The answer follows after half a minute, in which a replica of the group would show itself. The broker deletes
        the empty topic, within a minute by default (`brokerDeleteInactiveTopicsEnabled`).
        """
        await answer_of(lambda answered: known().remove(topic, by, answered))
        return TopicRemoved(topic=topic)

    return router
