"""Asks everybody who they are, before anything else of the app is reached.

A program brings its token in each request (`Authorization: Bearer`); a browser gets a cookie when a person logs in,
that no script can read and that no other site's page can have sent. Who asks for the console without either gets the
page to log in.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog
from starlette.requests import HTTPConnection

from admin_api.access.roles import PAGE, SEES, needed
from admin_api.access.tokens import CALLER, COOKIE, Caller, NotAuthenticated, Tokens
from admin_api.problems import problem
from admin_api.routes.login import login_page

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

SCHEME: Final = "bearer"
CHALLENGE: Final = {"www-authenticate": 'Bearer realm="keyline"'}

log = structlog.get_logger("keyline.admin")


class Guard:
    """Around the whole app."""

    def __init__(self, app: ASGIApp, tokens: Tokens, *, metrics_open: bool) -> None:
        """With `metrics_open` /metrics is for everybody, as scrapers want it."""
        self._app = app
        self._tokens = tokens
        self._metrics_open = metrics_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 401 or 403."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        method = scope.get("method", "GET")
        role = needed(method, scope["path"], metrics_open=self._metrics_open)
        if role is None:
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        try:
            caller = await self._caller(request)
        except NotAuthenticated as error:
            if scope["path"] == PAGE and method in SEES:
                answer = login_page(None)
            else:
                answer = problem(error.http_status, str(error), request, CHALLENGE)
            await answer(scope, receive, send)
            return
        if caller.role is None or caller.role < role:
            has = "no role here" if caller.role is None else f"the role {caller.role.word}"
            detail = f"{caller.name} has {has}, and this needs {role.word}"
            log.warning("admin request refused", method=method, path=scope["path"], caller=caller.name)
            await problem(HTTPStatus.FORBIDDEN, detail, request)(scope, receive, send)
            return
        if method not in SEES:
            log.info("admin request", method=method, path=scope["path"], caller=caller.name, role=caller.role.word)
        scope[CALLER] = caller
        await self._app(scope, receive, send)

    async def _caller(self, request: HTTPConnection) -> Caller:
        given = request.headers.get("authorization")
        if given is not None:
            scheme, _, token = given.partition(" ")
            if scheme.lower() != SCHEME or not token:
                raise NotAuthenticated("authentication is by a token: Authorization: Bearer TOKEN")
            return await self._tokens.caller(token.strip())
        token = request.cookies.get(COOKIE, "")
        if not token:
            raise NotAuthenticated("who asks? bring a token: Authorization: Bearer TOKEN")
        return await self._tokens.caller(token)
