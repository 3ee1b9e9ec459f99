"""Answers what other replicas pass on to this one, for itself alone (`admin_api.replicas` is the other end)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import structlog
from pydantic import TypeAdapter, ValidationError

from admin_api.access.caller import NO_PORT
from admin_api.access.roles import READS
from admin_api.replicas import LENGTH_BYTES
from admin_api.schemas.replicas import AnswerHead, Question

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Scope

    from admin_api.ports import Saying

_QUESTION: Final = TypeAdapter(Question)
_HEAD: Final = TypeAdapter(AnswerHead)
_TOLD: Final = (b"content-type", b"content-length", b"x-accel-buffering")

log = structlog.get_logger("keyline.admin")


class ReplicaAnswers:
    """Implements `questions.AnswerQuestion` by an app that needs no token: its caller is a replica."""

    def __init__(self, app: ASGIApp) -> None:
        """`app` from `admin_api.app.replica_app`."""
        self._app = app
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, question: bytes, saying: Saying) -> Callable[[], None]:
        """Begin to; the result ends it."""
        task = asyncio.create_task(self._answer(question, saying), name="question of a replica")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def give_up() -> None:
            task.cancel()

        return give_up

    async def _answer(self, data: bytes, saying: Saying) -> None:
        try:
            question = _QUESTION.validate_json(data)
        except ValidationError as error:
            log.warning("replica question not understood", reason=error.errors(include_url=False)[0]["msg"])
            saying.end()
            return
        if question.method not in READS:
            log.info("admin request", method=question.method, path=question.target, caller=question.caller)
        try:
            await self._app(_scope(question), _receiver(question), _sender(saying))
        except Exception:
            log.exception("replica question failed", path=question.target)
        finally:
            saying.end()


def _scope(question: Question) -> Scope:
    path, _, query = question.target.partition("?")
    headers = [(b"host", b"replica"), (b"content-length", b"%d" % len(question.body))]
    headers += [(name.encode(), value.encode("latin-1")) for name, value in question.headers.items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": question.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": headers,
        "client": (question.caller, NO_PORT),
        "server": None,
    }


def _receiver(question: Question) -> Any:
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:  # the task is cancelled when the other end is gone
            await asyncio.Event().wait()
        given = True
        return {"type": "http.request", "body": bytes(question.body), "more_body": False}

    return receive


def _sender(saying: Saying) -> Any:
    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = {
                name.decode(): value.decode("latin-1") for name, value in message["headers"] if name.lower() in _TOLD
            }
            head = _HEAD.dump_json(AnswerHead(message["status"], headers))
            saying.say(len(head).to_bytes(LENGTH_BYTES, "big") + head)
        elif message.get("body"):
            saying.say(message["body"])

    return send
