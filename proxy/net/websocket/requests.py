"""Requests of a WebSocket worker to its session, and who waits for the answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from proxy.net.broker.requests import REPLY_FIELDS, request_id_of

if TYPE_CHECKING:
    from proxy.net.websocket.pipe import Pipe
    from proxy.wire import pulsar_pb2 as pb


class Requests:
    """Everything asked and not answered."""

    def __init__(self, pipe: Pipe) -> None:
        """Ask through this."""
        self._pipe = pipe
        self._ids = count(1)
        self._waiting: dict[int, Callable[[pb.BaseCommand], None]] = {}

    def ask(self, build: Callable[[int], bytes], answered: Callable[[pb.BaseCommand], None]) -> None:
        """Send `build(request_id)`; `answered` gets the answer, an ERROR perhaps."""
        request_id = next(self._ids)
        self._waiting[request_id] = answered
        self._pipe.send(build(request_id))

    def answered(self, command: pb.BaseCommand) -> bool:
        """Pass on an answer; false if it is not one, or not awaited."""
        if command.type not in REPLY_FIELDS:
            return False
        waiting = self._waiting.pop(request_id_of(command), None)
        if waiting is None:
            return False
        waiting(command)
        return True

    def forget(self) -> None:
        """No answer is awaited any more."""
        self._waiting.clear()
