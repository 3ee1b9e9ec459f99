"""Authenticates callers at the entry of routes that need a role.

A program sends its token in each request (`Authorization: Bearer`). A browser gets a cookie at the login, which scripts
cannot read and other sites' pages cannot send. A request for the console without either gets the login page.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocketClose

from admin_api.access.roles import READS, Need, Role, declared
from admin_api.access.tokens import CALLER, COOKIE, Caller, NotAuthenticated, Tokens
from admin_api.problems import problem

if TYPE_CHECKING:
    from typing import Any

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

SCHEME: Final = "bearer"
CHALLENGE: Final = {"www-authenticate": 'Bearer realm="keyline"'}
GUARD: Final = "keyline.guard"
"""The app's guard, in the scope of a request."""

AGAIN_S: Final = 10.0
"""How long a caller is taken to be what it was."""
_TO_KNOW_WHAT_IS: Final = Need(lambda _: Role.VIEWER)

log = structlog.get_logger("keyline.admin")


class Guard:
    """Decides whether a caller may use a route."""

    def __init__(self, tokens: Tokens) -> None:
        """Callers are known by `tokens`."""
        self._tokens = tokens

    async def refusal(self, need: Need, scope: Scope) -> Response | None:
        """401 or 403, or the login page; None if the caller has the role, and is then in the scope."""
        role = need.of(scope)
        if role is None:
            return None
        request = HTTPConnection(scope)
        method = scope["method"]
        try:
            caller = await self._caller(request)
        except NotAuthenticated as error:
            if need.page is not None and method in READS:
                return need.page()
            return problem(error.http_status, str(error), request, CHALLENGE)
        if caller.role is None or caller.role < role:
            has = "no role here" if caller.role is None else f"the role {caller.role.word}"
            log.warning("admin request refused", method=method, path=scope["path"], caller=caller.name)
            return problem(HTTPStatus.FORBIDDEN, f"{caller.name} has {has}, and this needs {role.word}", request)
        if method not in READS:
            log.info("admin request", method=method, path=scope["path"], caller=caller.name, role=caller.role.word)
        scope[CALLER] = caller
        return None

    @property
    def version(self) -> int:
        """Changes when other callers are accepted."""
        return self._tokens.version

    async def _caller(self, request: HTTPConnection) -> Caller:
        given = request.headers.get("authorization")
        if given is not None:
            scheme, _, token = given.partition(" ")
            if scheme.lower() != SCHEME or not token:
                raise NotAuthenticated("authentication is by a token: Authorization: Bearer TOKEN")
            return await self._tokens.caller(token.strip())
        token = request.cookies.get(COOKIE, "")
        if not token:
            raise NotAuthenticated("authentication required: send Authorization: Bearer TOKEN")
        return await self._tokens.caller(token)


class Standing:
    """Whether the caller of a request may still have what it asked for, while the answer goes on.

    Asked often, so the token is read again only when the gateway accepts other callers, and when `AGAIN_S` have passed:
    it may have expired, or the identity provider may have withdrawn its key.
    """

    def __init__(self, scope: Scope, need: Need) -> None:
        """It may now."""
        self._scope = scope
        self._need = need
        self._guard: Guard | None = scope.get(GUARD)
        self._looked()

    async def holds(self) -> bool:
        """Whether it may; always where no caller is asked who it is."""
        guard = self._guard
        if guard is None or (guard.version == self._version and time.monotonic() < self._again_s):
            return True
        self._looked()
        return await guard.refusal(self._need, self._scope) is None

    def _looked(self) -> None:
        self._version = 0 if self._guard is None else self._guard.version
        self._again_s = time.monotonic() + AGAIN_S


class Guarded:
    """Middleware: makes the app's guard known to routes. Without one, there is no authentication."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        """Around the whole app."""
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""
        scope[GUARD] = self._guard
        await self._app(scope, receive, send)


class GuardedRoute(APIRoute):
    """A route for callers with the role it declares; a route without a declaration cannot be created."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        """As the framework's. Raises `LookupError` where `endpoint` declares no need."""
        self._need = declared(endpoint)
        super().__init__(path, endpoint, **options)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or do as the framework does; unserved methods are reported to authenticated callers only."""
        await _entered(self._need, scope, receive, send, super().handle)


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer for unknown paths: 404 to callers that may read. A WebSocket is refused."""
    if scope["type"] == "websocket":
        await WebSocketClose()(scope, receive, send)
    else:
        await _entered(_TO_KNOW_WHAT_IS, scope, receive, send, _absent)


async def _absent(*_: object) -> None:
    raise HTTPException(HTTPStatus.NOT_FOUND)


async def _entered(need: Need, scope: Scope, receive: Receive, send: Send, inside: ASGIApp) -> None:
    guard: Guard | None = scope.get(GUARD)
    refusal = None if guard is None else await guard.refusal(need, scope)
    await (inside if refusal is None else refusal)(scope, receive, send)
