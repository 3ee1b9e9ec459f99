"""What every answer of the admin API says of itself to browsers, whoever makes it: a route, a refusal, or a fault.

Answers name topics, keys and callers: nothing between here and the asker should keep them, no page of another site
should load them as a script, a style or a frame. What an answer says itself counts: the console's files are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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


class AdminApp(FastAPI):
    """The framework's app, around all of it, so that the framework's own answers are told from no others."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As the framework's, with `EVERY_ANSWER` where an answer says nothing else."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] in _STARTS:
                headers = list(message.get("headers", ()))
                said = {name.lower() for name, _ in headers}
                headers += [(name, value) for name, value in EVERY_ANSWER.items() if name not in said]
                message = {**message, "headers": headers}
            await send(message)

        await super().__call__(scope, receive, send_with_headers)
