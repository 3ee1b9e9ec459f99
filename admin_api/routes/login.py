"""The login page: one field, whose token becomes a cookie."""

from __future__ import annotations

import time
from html import escape
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from admin_api.access.guard import GuardedRoute
from admin_api.access.roles import Role, needs
from admin_api.access.tokens import CALLER, COOKIE, NotAuthenticated
from admin_api.origins import check_origin
from admin_api.schemas.access import Me

if TYPE_CHECKING:
    from admin_api.access.tokens import Tokens

FORM_BYTES_MAX: Final = 16_384
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
_PAGE: Final = files("admin_api").joinpath("console/login.html").read_text()
_PROBLEM: Final = "<!-- problem -->"


def login_page(problem: str | None) -> Response:
    """The page, with the error of the last attempt."""
    said = "" if problem is None else f'<p class="problem" role="alert">{escape(problem)}</p>'
    code = HTTPStatus.OK if problem is None else HTTPStatus.UNAUTHORIZED
    return HTMLResponse(_PAGE.replace(_PROBLEM, said), code, headers=_HEADERS)


def login_routes(tokens: Tokens | None) -> APIRouter:
    """Make ``/login``, ``/logout`` and ``/api/v1/me``; without `tokens` there is no authentication."""
    router = APIRouter(route_class=GuardedRoute)

    @router.get("/api/v1/me", tags=["access"], summary="Who asks")
    @needs(Role.VIEWER)
    async def me(request: Request) -> Me:
        """Name and role, from the token; nulls without authentication."""
        caller: Any = request.scope.get(CALLER)
        if caller is None:
            return Me(name=None, role=None, login=tokens is not None)
        return Me(name=caller.name, role=caller.role.word, login=True)

    if tokens is not None:
        _add_login(router, tokens)
    return router


def _add_login(router: APIRouter, tokens: Tokens) -> None:
    @router.post("/login", include_in_schema=False)
    @needs(None)
    async def login(request: Request) -> Response:
        check_origin(request)
        token = await _token(request)
        try:
            caller = await tokens.caller(token)
        except NotAuthenticated as error:
            return login_page(str(error))
        if caller.role is None:
            return login_page(f"{caller.name} has no role here")
        answer = RedirectResponse("./", HTTPStatus.SEE_OTHER)
        left_s = None if caller.expires_at_s is None else max(0, int(caller.expires_at_s - time.time()))
        answer.set_cookie(COOKIE, token, max_age=left_s, httponly=True, samesite="strict", secure=_came_by_tls(request))
        return answer

    @router.post("/logout", include_in_schema=False)
    @needs(None)
    async def logout(request: Request) -> Response:
        check_origin(request)
        answer = RedirectResponse("./", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=_came_by_tls(request))
        return answer


def _came_by_tls(request: Request) -> bool:
    """Whether the browser has the page by TLS, which may end before the gateway: the browser itself says so.

    A client that says so without being a browser affects only itself.
    """
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")


async def _token(request: Request) -> str:
    """Of the form; nothing of a body that is too large for one."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            return ""
    return parse_qs(body.decode(errors="replace")).get("token", [""])[0].strip()
