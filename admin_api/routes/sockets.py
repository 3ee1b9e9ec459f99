"""WebSocket workers: Pulsar's own protocol below ``/ws/v2``, and Keyline's below ``/ws/v1``. See docs/websocket.md."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog
from fastapi import APIRouter, Request, Response, WebSocket
from starlette.websockets import WebSocketDisconnect

from admin_api.access.guard import GuardedRoute
from admin_api.access.roles import needs
from admin_api.names import encoded_path
from admin_api.origins import check_socket_origin
from admin_api.problems import problem
from admin_api.socket_names import socket_request
from admin_api.socket_protocol import EXTENSION, PROTOCOL
from admin_api.socket_queue import SocketQueue
from proxy.errors import ClientError, KeylineError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from admin_api.ports import Frame, SocketWorker, WorkerSockets
    from admin_api.socket_protocol import SocketProtocol

log = structlog.get_logger("keyline.admin")

INTERNAL_ERROR = 1011
"""RFC 6455's close code."""
PREFIX = "/ws/"
BEARER = "bearer "
PARAMETERS_MAX = 64
"""In an upgrade's query: several times what Pulsar's service and this one know together."""


def socket_routes(sockets: WorkerSockets, origins: Collection[str]) -> APIRouter:
    """Make ``/ws``; pages of other sites may connect from `origins` only, ``*`` being any."""
    router = APIRouter(route_class=GuardedRoute)

    @router.websocket("/ws/{rest:path}")
    @needs(None)
    async def worker(websocket: WebSocket) -> None:
        try:
            check_socket_origin(websocket, origins)
            request = socket_request(
                encoded_path(websocket.scope).removeprefix(PREFIX),
                _query(websocket),
                _token(websocket),
                _peer(websocket),
            )
        except KeylineError as error:
            await websocket.send_denial_response(problem(error.http_status, str(error), websocket))
            return
        protocol: SocketProtocol = websocket.scope["extensions"][EXTENSION][PROTOCOL]
        socket = SocketQueue(asyncio.get_running_loop(), protocol)
        worker = sockets.open(request, socket)
        protocol.hear(_guarded(worker, socket))
        await _serve(websocket, socket, worker)

    @router.get("/ws/{rest:path}", include_in_schema=False)  # noqa: FAST003 - the request has it
    @needs(None)
    async def no_upgrade(request: Request) -> Response:
        detail = "this is for WebSockets: the request must ask for an upgrade"
        return problem(HTTPStatus.UPGRADE_REQUIRED, detail, request, {"upgrade": "websocket"})

    return router


async def _serve(websocket: WebSocket, socket: SocketQueue, worker: SocketWorker) -> None:
    """Read and write until the client has gone; the worker is always notified of the end."""
    socket.writability_changed = worker.writability_changed
    await websocket.receive()  # that it wants to connect, which is known
    reading = asyncio.create_task(_read(websocket, socket, worker))
    writing = asyncio.create_task(_write(websocket, socket))
    over = asyncio.create_task(socket.over.wait())
    try:
        await asyncio.wait({writing, over}, return_when=asyncio.FIRST_COMPLETED)
        socket.gone()
        if writing.done():
            await asyncio.wait({reading, over}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        worker.closed("the WebSocket is gone")
        for task in (reading, writing, over):
            task.cancel()
        await asyncio.gather(reading, writing, over, return_exceptions=True)


async def _write(websocket: WebSocket, socket: SocketQueue) -> None:
    """Accept or refuse, then send the queued frames."""
    with suppress(WebSocketDisconnect):
        refused = await socket.outcome
        if refused is not None:
            status, detail = refused
            await websocket.send_denial_response(problem(status, detail, websocket))
            return
        await websocket.accept()
        await socket.write_to(websocket)


async def _read(websocket: WebSocket, socket: SocketQueue, worker: SocketWorker) -> None:
    """Wait until the client disconnects. What it says comes past this, or before there is any word to be heard."""
    while (event := await websocket.receive())["type"] == "websocket.receive":
        pass
    worker.closed(f"the client closed the WebSocket: {event.get('code')} {event.get('reason') or ''}".strip())
    socket.gone()


def _guarded(worker: SocketWorker, socket: SocketQueue) -> Callable[[Frame], None]:
    """Hand the client's frames to its worker, no faster than it reads, until that fails."""
    failed = False

    def heard(frame: Frame) -> None:
        nonlocal failed
        if failed:
            return
        try:
            worker.received(frame)
            socket.heed()
        except Exception:
            failed = True
            log.exception("websocket failed")
            socket.close(INTERNAL_ERROR, "a fault of the gateway; its log tells more")

    return heard


def _query(websocket: WebSocket) -> dict[str, str]:
    """The parameters; of one that is there twice the first, as at Pulsar's service. Raises `ClientError` for too many.

    The client has not been authenticated yet: each is looked at once.
    """
    given = websocket.query_params.multi_items()
    if len(given) > PARAMETERS_MAX:
        message = f"the query may have {PARAMETERS_MAX} parameters, not {len(given)}"
        raise ClientError(message)
    first: dict[str, str] = {}
    for name, value in given:
        first.setdefault(name, value)
    return first


def _token(websocket: WebSocket) -> str | None:
    """Raises `ClientError` for another kind of credentials."""
    given = websocket.headers.get("authorization")
    if given is None:
        return None
    if not given.lower().startswith(BEARER):
        raise ClientError("Authorization: only 'Bearer' and a token is taken here")
    return given[len(BEARER) :].strip()


def _peer(websocket: WebSocket) -> str:
    if websocket.client is None:
        return "unknown:0"
    host, port = websocket.client
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
