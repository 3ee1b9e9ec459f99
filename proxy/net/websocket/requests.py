"""Requests of a WebSocket worker to its session, and who waits for the answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.websocket.pipe import Pipe

_T = pb.BaseCommand
_BODIES: Final = {
    _T.SUCCESS: "success",
    _T.ERROR: "error",
    _T.ACK_RESPONSE: "ackResponse",
    _T.PARTITIONED_METADATA_RESPONSE: "partitionMetadataResponse",
    _T.LOOKUP_RESPONSE: "lookupTopicResponse",
    _T.PRODUCER_SUCCESS: "producer_success",
}


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
        """Hand an answer over; false if it is none, or nobody waits for it."""
        name = _BODIES.get(command.type)
        if name is None:
            return False
        body: Any = getattr(command, name)
        waiting = self._waiting.pop(body.request_id, None)
        if waiting is None:
            return False
        waiting(command)
        return True

    def forget(self) -> None:
        """Nobody waits any more."""
        self._waiting.clear()
