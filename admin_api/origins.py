"""Protection against pages of other sites: they cannot send orders, and on loopback other host names are refused.

A browser sends requests for any page. Over https and to loopback it names the page's site (`Sec-Fetch-Site`);
otherwise, for requests that change state, it names the page's origin. A page whose own name resolves to a loopback
address (DNS rebinding) is of the same site by both, but its Host header differs.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request

from admin_api.problems import Forbidden, problem

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send


def check_origin(request: Request) -> None:
    """Raise `Forbidden` for a request that a page of another site makes."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        ours = site in {"none", "same-origin"}
    else:
        origin = request.headers.get("origin")
        ours = origin is None or _netloc(origin) == request.headers.get("host")
    if not ours:
        raise Forbidden("orders are accepted from the gateway's own pages and from programs, not from other sites")


def check_socket_origin(connection: HTTPConnection, allowed: Collection[str]) -> None:
    """Raise `Forbidden` for a WebSocket that a page of another site opens; browsers do not ask before they open one."""
    origin = connection.headers.get("origin")
    if origin is None or _netloc(origin) == connection.headers.get("host"):
        return
    if "*" not in allowed and origin not in allowed:
        message = f"pages of {origin} may open no WebSocket here; `websocket_origins` would allow it"
        raise Forbidden(message)


def is_loopback(host: str) -> bool:
    """Whether a host, as in a URL, is this machine and no other."""
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _netloc(origin: str) -> str | None:
    """Host and port of an origin; None if it is invalid."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _hostname(host: str) -> str:
    """The name in a Host header, without its port; empty if it is invalid."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


class LoopbackOnly:
    """Refuses requests for another name than this machine's."""

    def __init__(self, app: ASGIApp) -> None:
        """Around the whole app, which listens on loopback."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 403."""
        if scope["type"] in {"http", "websocket"}:
            request = HTTPConnection(scope)
            host = _hostname(request.headers.get("host", ""))
            if not is_loopback(host):
                detail = f"this gateway listens on loopback and answers to that name only, not to {host!r}"
                await problem(Forbidden.http_status, detail, request)(scope, receive, send)
                return
        await self._app(scope, receive, send)
