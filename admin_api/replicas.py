"""Requests for what another replica serves are passed on to it, and lists are asked of all (owner mode).

So every replica answers for the whole deployment. This one has checked the caller's role and the request's origin; the
other believes it, since only a replica can ask. What is passed on is not passed on again: the other answers for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter, ValidationError

from admin_api.access.caller import caller_of
from admin_api.problems import Unavailable, problem
from admin_api.schemas.replicas import AnswerHead, Question, StandingDown
from proxy.errors import Misdirected

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from admin_api.ports import Asked, Key, OtherReplicas

REPLICAS: Final = "keyline.replicas"
"""The other replicas, in the scope of a request; absent where there are none, and where one is asked for itself."""
LENGTH_BYTES: Final = 4
HEAD_BYTES_MAX: Final = 64 * 1024
ANSWER_S_MAX: Final = 5.0
"""A replica that is well answers within milliseconds."""
SILENCE_S_MAX: Final = 40.0
"""A stream of events shows a sign of life more often."""
ANSWER_BYTES_MAX: Final = 64 << 20
"""Of an answer, or of what its reader has not read of it."""
BODY_BYTES_MAX: Final = 1 << 18
LOOK_S: Final = 0.1
"""How often a replica that stops asks what its clients have."""
MOVE_LOOKS_S: Final = (0.1, 0.2, 0.4, 0.8)
"""How long a request waits before it looks again for a subscription that has moved: all replicas know soon."""
_PASSED: Final = ("accept", "content-type", "last-event-id")

_QUESTION: Final = TypeAdapter(Question)
_HEAD: Final = TypeAdapter(AnswerHead)


class ServedElsewhereError(Exception):
    """Another replica serves what the request names."""

    def __init__(self, replica: str, key: Key | None) -> None:
        """Which replica, and the subscription that it serves, if it is about one."""
        super().__init__(replica)
        self.replica = replica
        self.key = key


class ReplicasKnown:
    """Middleware: makes the other replicas known to routes."""

    def __init__(self, app: ASGIApp, others: OtherReplicas) -> None:
        """Around the whole app."""
        self._app = app
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""
        scope[REPLICAS] = self._others
        await self._app(scope, receive, send)


def others_of(request: Request) -> OtherReplicas | None:
    """The other replicas; None where this one answers for itself."""
    found: OtherReplicas | None = request.scope.get(REPLICAS)
    return found


def check_served_here(request: Request, key: Key, *, here: bool) -> None:
    """Raise `ServedElsewhereError` for a subscription of another replica, unless only this one is asked for."""
    if here:
        request.scope[REPLICAS] = None
    others = others_of(request)
    replica = None if others is None else others.serving(key)
    if others is not None and replica not in (None, others.here):
        raise ServedElsewhereError(replica, key)


def tell_misdirected(app: FastAPI) -> None:
    """Answer what another replica has passed on, and a third one owns now, in a way that it can tell."""

    @app.exception_handler(Misdirected)
    async def misdirected(request: Request, error: Misdirected) -> Response:
        return problem(HTTPStatus.MISDIRECTED_REQUEST, str(error), request)


def pass_on_elsewhere(app: FastAPI) -> None:
    """Let requests for what another replica serves be answered by it."""

    @app.exception_handler(ServedElsewhereError)
    async def elsewhere(request: Request, error: ServedElsewhereError) -> Response:
        others = others_of(request)
        assert others is not None, "only they serve anything elsewhere"
        try:
            return await passed_on(others, error, request)
        except Unavailable as unavailable:
            return problem(unavailable.http_status, str(unavailable), request)

    @app.exception_handler(Misdirected)
    async def moved(request: Request, error: Misdirected) -> Response:
        """It has moved since the path was looked at."""
        if others_of(request) is None:
            return problem(error.http_status, str(error), request)
        return await elsewhere(request, ServedElsewhereError(error.owner, error.key))


async def passed_on(others: OtherReplicas, error: ServedElsewhereError, request: Request) -> Response:
    """Let a replica answer a request, or the one to which the subscription has moved.

    Raises `Unavailable` if it does not.
    """
    replica, key = error.replica, error.key
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    question = Question(
        request.method,
        (raw + b"?" + query if query else raw).decode("ascii"),
        caller_of(request),
        {name: request.headers[name] for name in _PASSED if name in request.headers},
        await _body(request),
    )
    head, body = await _asked(others, replica, question)
    for wait_s in MOVE_LOOKS_S:
        if key is None or head.status != HTTPStatus.MISDIRECTED_REQUEST:
            break
        body.give_up()
        await asyncio.sleep(wait_s)
        replica = others.serving(key) or replica
        if replica == others.here:
            return _AnsweredHere(question.body)
        head, body = await _asked(others, replica, question)
    if head.status == HTTPStatus.MISDIRECTED_REQUEST:
        body.give_up()
        raise Unavailable(f"another replica owns this now than {replica}, which this one does not know yet: ask again")
    if "content-length" not in head.headers:
        serves = lambda: key is None or others.serving(key) in (None, replica)  # noqa: E731 - None: it moves
        return StreamingResponse(body.stream(serves), head.status, head.headers)
    return Response(await _whole(replica, head, body), head.status, head.headers)


class _AnsweredHere(Response):
    """Of a request for what has moved to this replica: the route's own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = [{"type": "http.request", "body": self.body, "more_body": False}]

        async def body_first() -> Message:
            return left.pop() if left else await receive()

        await scope["app"].router(scope, body_first, send)


async def asked_of_each(others: Asked, target: str, request: Request) -> dict[str, bytes | str]:
    """The body of each replica's answer to a GET; or why there is none, as a text."""

    async def one(replica: str) -> bytes | str:
        try:
            head, body = await _asked(others, replica, Question("GET", target, caller_of(request)))
            whole = await _whole(replica, head, body)
        except Unavailable as error:
            return str(error)
        return whole if head.status == 200 else f"it answers {head.status}"  # noqa: PLR2004

    names = others.names()
    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


async def legs_drained(others: OtherReplicas) -> None:
    """Let the others deliver nothing more by this replica, which stops; return when its clients have nothing of theirs.

    One that does not answer is not waited for: it stops, too, or is lost.
    """
    path = f"/api/v1/legs/{quote(others.here, safe='')}/stand-down"
    left = set(others.names())
    while left:
        for replica in list(left):
            try:
                head, body = await _asked(others, replica, Question("POST", path, others.here))
                told = StandingDown.model_validate_json(await _whole(replica, head, body))
            except (Unavailable, ValidationError):
                told = StandingDown(unacked=0)
            if not told.unacked:
                left.discard(replica)
        await asyncio.sleep(LOOK_S)


async def _asked(others: Asked, replica: str, question: Question) -> tuple[AnswerHead, _Body]:
    body = _Body(replica)
    try:
        body.give_up = others.ask(replica, _QUESTION.dump_json(question), body)
        async with asyncio.timeout(ANSWER_S_MAX):
            length = int.from_bytes(await body.exactly(LENGTH_BYTES), "big")
            return _HEAD.validate_json(await body.exactly(min(length, HEAD_BYTES_MAX))), body
    except ValidationError as error:
        raise body.failure("its answer is not understood") from error
    except TimeoutError as error:
        raise body.failure(f"it says nothing for {ANSWER_S_MAX:g} s") from error
    except BaseException:
        body.give_up()
        raise


async def _whole(replica: str, head: AnswerHead, body: _Body) -> bytes:
    length = int(head.headers.get("content-length", 0))
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            whole = await body.exactly(length)
    except TimeoutError as error:
        raise body.failure(f"replica {replica} stops in the middle of its answer") from error
    body.give_up()
    return whole


class _Body:
    """An answer as it comes. Implements the hearer's part of `ports.OtherReplicas`."""

    def __init__(self, replica: str) -> None:
        self._replica = replica
        self._received = bytearray()
        self._changed = asyncio.Event()
        self._ended: str | None = None
        self.give_up: Callable[[], None] = lambda: None

    def heard(self, data: bytes) -> None:
        """The next bytes."""
        self._received += data
        if len(self._received) > ANSWER_BYTES_MAX:
            self.give_up()
            self.ended("it says more than is taken")
        self._changed.set()

    def ended(self, reason: str) -> None:
        """Nothing follows."""
        self._ended = reason
        self._changed.set()

    def failure(self, reason: str) -> Unavailable:
        """What to tell the caller; the rest of the answer is not wanted."""
        self.give_up()
        return Unavailable(f"replica {self._replica} serves this and does not answer: {reason}")

    async def exactly(self, length: int) -> bytes:
        """The next so many bytes. Raises `Unavailable` when there are fewer."""
        while len(self._received) < length:
            if self._ended is not None:
                raise self.failure(self._ended)
            await self._more()
        found = bytes(self._received[:length])
        del self._received[:length]
        return found

    async def stream(self, wanted: Callable[[], bool]) -> AsyncIterator[bytes]:
        """All that follows while it is wanted, until either side has enough."""
        try:
            while wanted() and (self._received or self._ended is None):
                if self._received:
                    yield await self.exactly(len(self._received))
                    continue
                try:
                    async with asyncio.timeout(SILENCE_S_MAX):
                        await self._more()
                except TimeoutError:
                    return
        finally:
            self.give_up()

    async def _more(self) -> None:
        self._changed.clear()
        await self._changed.wait()


async def _body(request: Request) -> bytes:
    """Of an order; its route has checked how long it is, if it reads it."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise Unavailable(f"the request has more than {BODY_BYTES_MAX} bytes and is not passed on")
    return bytes(body)
