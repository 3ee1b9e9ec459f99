"""The admin API as a value: routes over a view of the gateway and over operators' orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from admin_api.access.guard import Guard, Guarded, GuardedRoute, nothing_here
from admin_api.access.roles import Role, needs
from admin_api.answers import AdminApp
from admin_api.document import document_truly
from admin_api.origins import LoopbackOnly
from admin_api.problems import answer_problems
from admin_api.replicas import ReplicasKnown, pass_on_elsewhere, tell_misdirected
from admin_api.routes.configuration import configuration_routes
from admin_api.routes.console import console_routes
from admin_api.routes.events import event_routes
from admin_api.routes.group_topics import group_topic_routes
from admin_api.routes.groups import group_routes
from admin_api.routes.health import health_routes
from admin_api.routes.legs import leg_routes
from admin_api.routes.login import login_routes
from admin_api.routes.metrics import metrics_routes, process_metrics_routes
from admin_api.routes.orders import order_routes
from admin_api.routes.producers import producer_routes
from admin_api.routes.pulsar import pulsar_routes
from admin_api.routes.slots import slot_routes
from admin_api.routes.sockets import socket_routes
from admin_api.routes.subscriptions import subscription_routes

if TYPE_CHECKING:
    from collections.abc import Collection

    from fastapi import FastAPI

    from admin_api.access.tokens import Tokens
    from admin_api.metrics.text import MetricsText
    from admin_api.ports import GatewayControl, GatewayView, GroupTopics, HostProcesses, OtherReplicas, WorkerSockets
    from admin_api.pulsar.proxying import BrokerAdmin

DESCRIPTION = """
State of a Keyline gateway's Key_Shared subscriptions and exclusive producers, and orders to it. Times are
seconds; moments (`now`, `since`, `joined_at`, ...) are on the gateway's monotonic clock, to be compared with `now` of
the same answer. Errors are problem details (RFC 9457).
"""


def admin_app(
    view: GatewayView,
    control: GatewayControl,
    version: str,
    *,
    read_only: bool = False,
    broker: BrokerAdmin | None = None,
    broker_writes: bool = False,
    metrics: MetricsText | None = None,
    loopback: bool = False,
    sockets: WorkerSockets | None = None,
    socket_origins: Collection[str] = (),
    tokens: Tokens | None = None,
    metrics_open: bool = True,
    others: OtherReplicas | None = None,
    group_topics: GroupTopics | None = None,
    gateway: str = "",
    processes: HostProcesses | None = None,
) -> FastAPI:
    """Combine the routes; /docs shows them. FastAPI's own documentation pages are off: they load other sites' scripts.

    With `read_only` every order is refused with 403. With `broker` its admin API is served too, including changes
    with `broker_writes`. With `metrics` they are at ``/metrics``, those of all `processes` of this host. With
    `loopback` (the server listens there) requests for other names are refused. With `sockets` there are WebSocket
    workers, also for pages of `socket_origins`. With `tokens` every caller needs a token, except for health, workers
    and, with `metrics_open`, metrics. With `others` the answers are about all replicas; `group_topics` are those of
    their groups. `gateway` is the name that each answer gives in a header.
    """
    app = AdminApp(title="Keyline", version=version, description=DESCRIPTION, openapi_url=None, redirect_slashes=False)
    app.gateway = gateway
    app.router.default = nothing_here
    answer_problems(app)
    document_truly(app)
    if others is not None:
        app.add_middleware(ReplicasKnown, others=others)
        pass_on_elsewhere(app)
    if tokens is not None:
        app.add_middleware(Guarded, guard=Guard(tokens))
    if loopback:
        app.add_middleware(LoopbackOnly)
    app.include_router(_document_routes(app))
    app.include_router(health_routes(view))
    _include_subscriptions(app, view, control, read_only=read_only)
    app.include_router(group_topic_routes(group_topics, read_only=read_only))
    app.include_router(producer_routes(view))
    app.include_router(configuration_routes(view))
    app.include_router(login_routes(tokens))
    app.include_router(console_routes())
    if metrics is not None:
        app.include_router(metrics_routes(metrics, role=None if metrics_open else Role.VIEWER, processes=processes))
    if sockets is not None:
        app.include_router(socket_routes(sockets, socket_origins))
    if broker is not None:  # last, so that the gateway's own routes win
        app.include_router(pulsar_routes(view, broker, writes=broker_writes, read_only=read_only))
    return app


def replica_app(
    view: GatewayView,
    control: GatewayControl,
    version: str,
    *,
    read_only: bool,
    metrics: MetricsText | None = None,
) -> FastAPI:
    """What other replicas may ask of this one: its own subscriptions, and orders to them. It needs no token.

    With `metrics` other processes of this host may have them, too.
    """
    app = AdminApp(title="Keyline", version=version, openapi_url=None, redirect_slashes=False)
    answer_problems(app)
    tell_misdirected(app)
    _include_subscriptions(app, view, control, read_only=read_only)
    app.include_router(leg_routes(control))
    if metrics is not None:
        app.include_router(process_metrics_routes(metrics))
    return app


def _include_subscriptions(app: FastAPI, view: GatewayView, control: GatewayControl, *, read_only: bool) -> None:
    app.include_router(subscription_routes(view))
    app.include_router(slot_routes(view))
    app.include_router(group_routes(view))
    app.include_router(order_routes(control, read_only=read_only))
    app.include_router(event_routes(view))


def _document_routes(app: FastAPI) -> APIRouter:
    """The API's document; the framework's own route would need no token."""
    router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

    @router.api_route("/openapi.json", methods=["GET", "HEAD"])
    @needs(Role.VIEWER)
    async def document() -> JSONResponse:
        return JSONResponse(app.openapi())

    return router
