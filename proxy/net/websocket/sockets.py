"""Opens workers for WebSockets: each gets a session of its own, counted and bounded like every other client's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from proxy.net.websocket.dialect_v1 import DialectV1
from proxy.net.websocket.dialect_v2 import DialectV2
from proxy.net.websocket.pipe import Pipe
from proxy.net.websocket.worker import SocketWorker

if TYPE_CHECKING:
    from proxy.net.ports import Clock, Receiver
    from proxy.net.subscription.openings import Openings
    from proxy.net.websocket.link import WorkerSocket
    from proxy.net.websocket.pipe import PipeClient
    from proxy.net.websocket.words import Dialect
    from proxy.socket_request import SocketRequest


class WorkerSockets:
    """Where the admin API brings its WebSockets."""

    def __init__(
        self,
        admit: Callable[[str], Receiver],
        closed_because: Callable[[], str | None],
        clock: Clock,
        openings: Openings,
        slot_of: Callable[[tuple[str, str], bytes], int],
    ) -> None:
        """`admit` gives a session for a client's address; `slot_of` the slot of a subscription's sticky key.

        `closed_because` is the reason why new sockets are refused now, if so.
        """
        self._admit = admit
        self._closed_because = closed_because
        self._clock = clock
        self._openings = openings
        self._slot_of = slot_of

    def open(self, request: SocketRequest, socket: WorkerSocket) -> SocketWorker:
        """Let one join; `socket` is told whether it could, from the loop."""
        dialect: Dialect = DialectV2()
        if request.dialect == "v1":
            subscription = request.topic, request.subscription
            dialect = DialectV1(partial(self._slot_of, subscription), binary=request.binary)
        pipe = self._pipe(request)
        worker = SocketWorker(request, dialect, socket, pipe, self._clock, self._openings, partial(self._dial, request))
        if (reason := self._closed_because()) is not None:
            worker.refuse(HTTPStatus.SERVICE_UNAVAILABLE, reason)
        else:
            pipe.open(self._admit(request.peer), worker)
        return worker

    def _pipe(self, request: SocketRequest) -> Pipe:
        return Pipe(self._clock, request.peer)

    def _dial(self, request: SocketRequest, client: PipeClient) -> Pipe:
        """Another connection for a worker that has one."""
        pipe = self._pipe(request)
        pipe.open(self._admit(request.peer), client)
        return pipe
