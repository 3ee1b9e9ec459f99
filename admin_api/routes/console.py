"""The console: one page and what it loads, from this package.

The files are few and known, so they are read once and served by name: no path of a request ever reaches the file
system. The policy lets the page load from and talk to its own gateway only; names that clients chose are shown in it,
and were one ever taken for markup, it could do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response, status
from starlette.exceptions import HTTPException

from admin_api.access.guard import GuardedRoute
from admin_api.access.roles import Role, needs
from admin_api.routes.login import login_page

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGE: Final = "index.html"
API_PAGE: Final = "docs.html"


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    media_type: str
    etag: str


def console_routes() -> APIRouter:
    """Make ``/``, ``/docs`` and ``/console/{file}``. They are for browsers, and not in the API's document."""
    router = APIRouter(include_in_schema=False, route_class=GuardedRoute)
    known = _read()

    @router.api_route("/", methods=["GET", "HEAD"])
    @needs(Role.VIEWER, page=lambda: login_page(None))
    async def page(request: Request) -> Response:
        return _answer(known[PAGE], request)

    @router.api_route("/docs", methods=["GET", "HEAD"])
    @needs(Role.VIEWER, page=lambda: login_page(None))
    async def api_page(request: Request) -> Response:
        return _answer(known[API_PAGE], request)

    @router.api_route("/console/{file}", methods=["GET", "HEAD"])
    @needs(None)
    async def part(file: str, request: Request) -> Response:
        if file not in known:
            raise HTTPException(status.HTTP_404_NOT_FOUND)
        return _answer(known[file], request)

    return router


def _read() -> dict[str, _File]:
    found = {}
    for entry in files("admin_api").joinpath("console").iterdir():
        media_type = _MEDIA_TYPES.get("." + entry.name.rpartition(".")[2])
        if media_type is not None:
            content = entry.read_bytes()
            found[entry.name] = _File(content, media_type, f'"{sha256(content).hexdigest()[:32]}"')
    return found


def _answer(file: _File, request: Request) -> Response:
    """Whole, or 304 to who has it already: browsers ask each time, so a new gateway's page is seen at once."""
    headers = {**_HEADERS, "etag": file.etag}
    had = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if file.etag in had or "*" in had:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
