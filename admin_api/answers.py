"""Security headers of every answer of the admin API, from routes, refusals and errors.

Answers name topics, keys and callers: caches must not store them, and pages of other sites must not load them as a
script, a style or a frame. A header that an answer sets itself wins: the console's files may be cached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from fastapi import FastAPI

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

EVERY_ANSWER: Final = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"referrer-policy": b"no-referrer",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
}
_STARTS: Final = frozenset({"http.response.start", "websocket.http.response.start"})


GATEWAY_HEADER: Final = b"x-keyline-gateway"
"""The name of the gateway that answers, percent-encoded."""


class AdminApp(FastAPI):
    """Wraps the whole framework app, so that the framework's own answers get the headers too."""

    gateway = ""
    """The name of the gateway that answers; empty if it has none."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As the framework's, with the headers of `EVERY_ANSWER` that an answer does not set itself."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] in _STARTS:
                headers = list(message.get("headers", ()))
                said = {name.lower() for name, _ in headers}
                headers += [(name, value) for name, value in EVERY_ANSWER.items() if name not in said]
                if self.gateway:
                    headers.append((GATEWAY_HEADER, quote(self.gateway).encode()))
                message = {**message, "headers": headers}
            await send(message)

        await super().__call__(scope, receive, send_with_headers)
