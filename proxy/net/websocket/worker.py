"""A worker whose client is at the other end of a WebSocket.

Towards the session it is a Pulsar client like any other: it joins (`joining`), grants permits (`permits`), opens
entries and hands their messages on one by one (`deliveries`), acknowledges and gives back (`settling`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog

from proxy.net.alarm import Alarm
from proxy.net.websocket.deliveries import Deliveries
from proxy.net.websocket.joining import Joining, connect_frame, http_status
from proxy.net.websocket.link import CloseCode
from proxy.net.websocket.permits import Permits
from proxy.net.websocket.requests import Requests
from proxy.net.websocket.settling import Settling
from proxy.net.websocket.words import Acknowledge, AskEndOfTopic, Permit, Refuse, Word, WordError
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import frame_type, parse_command

if TYPE_CHECKING:
    from proxy.net.ports import Clock
    from proxy.net.subscription.openings import Openings
    from proxy.net.websocket.link import Frame, WorkerSocket
    from proxy.net.websocket.message import SocketMessage
    from proxy.net.websocket.message_position import MessagePosition
    from proxy.net.websocket.pipe import Pipe, PipeClient
    from proxy.net.websocket.words import Dialect
    from proxy.socket_request import SocketRequest

log = structlog.get_logger("keyline.websocket")

_T = pb.BaseCommand
JOIN_S_MAX: Final = 30.0
"""As long as Pulsar's clients wait for an answer."""
REASON_BYTES_MAX: Final = 123
"""What RFC 6455 leaves for words in a close frame."""


class SocketWorker:
    """One client's worker; implements `pipe.PipeClient`."""

    def __init__(
        self,
        request: SocketRequest,
        dialect: Dialect,
        socket: WorkerSocket,
        pipe: Pipe,
        clock: Clock,
        openings: Openings,
        dial: Callable[[PipeClient], Pipe],
    ) -> None:
        """Begin to join as soon as the pipe is open; `dial` opens another."""
        self._request = request
        self._dialect = dialect
        self._socket = socket
        self._pipe = pipe
        self._clock = clock
        self._requests = Requests(pipe)
        self._joining: Joining | None = Joining(request, self._requests, self._joined, self.refuse)
        self._topics: list[tuple[str, int]] = []
        permits = self._permits = Permits(request.outstanding_max, pull=request.pull)
        self._deliveries = Deliveries(request, pipe, permits, clock, openings, self._deliver, self._close)
        self._settling = Settling(request, pipe, self._requests, permits, clock, dial, self._deliveries)
        self._ended_topics: set[int] = set()
        self._ended = False
        self._unsubscribing = False
        self._connected = False
        self._last_error: pb.CommandError | None = None
        self._timer = Alarm(clock)
        self._timer.set(JOIN_S_MAX, self._too_late)
        pipe.send(connect_frame(request))

    # ---- the socket's side

    def received(self, frame: Frame) -> None:
        """The client said something; what makes no sense is answered, or ends the connection."""
        if self._ended or self._joining is not None:
            return
        try:
            self._obey(self._dialect.read(frame))
        except WordError as error:
            answer = self._dialect.mistake(error)
            if answer is None:
                self._close(CloseCode.INVALID_DATA, str(error))
            else:
                self._socket.send(answer)

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """A client that reads nothing gets nothing more from its subscription either."""
        if not self._ended:
            self._pipe.set_writable(writable)
            if writable:
                self._deliveries.soon()

    def closed(self, reason: str) -> None:
        """The client has gone."""
        if not self._ended:
            self._end(reason)

    # ---- the session's side

    def frames(self, frames: list[bytes]) -> None:
        """As the port says. Messages are put aside, the rest is settled at once."""
        for frame in frames:
            kind = frame_type(frame)
            if kind == _T.MESSAGE:
                self._deliveries.came(frame)
            elif kind == _T.PING:
                self._pipe.send(commands.pong())
            else:
                self._command(parse_command(frame))
            if self._ended:
                return

    def ended(self, reason: str) -> None:
        """As the port says."""
        if self._ended:
            return
        error = self._last_error
        if self._joining is None:
            self._close(CloseCode.SERVICE_RESTART, error.message if error is not None else reason)
        elif error is not None:
            self.refuse(http_status(error.error, connected=self._connected), error.message)
        else:
            self.refuse(http_status(pb.ServiceNotReady), reason)

    def _command(self, command: pb.BaseCommand) -> None:
        if self._requests.answered(command):
            return
        if command.type == _T.CONNECTED and self._joining is not None:
            self._connected = True
            self._joining.connected()
        elif command.type == _T.ERROR:
            self._last_error = command.error
        elif command.type == _T.CLOSE_CONSUMER:
            self._consumer_closed()
        elif command.type == _T.REACHED_END_OF_TOPIC:
            self._ended_topics.add(command.reachedEndOfTopic.consumer_id)
            if self._joining is None and self._at_end:
                self._say(self._dialect.end_of_topic(reached=True, asked=False))

    def _consumer_closed(self) -> None:
        reason = "the consumer was closed: connect again"
        if self._joining is None:
            self._close(CloseCode.SERVICE_RESTART, reason)
        else:
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, reason)

    @property
    def _at_end(self) -> bool:
        return len(self._ended_topics) == len(self._topics)

    # ---- joining and ending

    def _joined(self, topics: list[tuple[str, int]]) -> None:
        self._joining = None
        self._topics = topics
        self._timer.cancel()
        self._permits.open(len(topics))
        self._settling.open(partition for _, partition in topics)
        self._socket.accept()
        self._say(self._dialect.joined([topic for topic, _ in topics]))
        self._deliveries.open(topics)

    def _too_late(self) -> None:
        self.refuse(HTTPStatus.GATEWAY_TIMEOUT, f"the subscription was not ready in {JOIN_S_MAX:g} s")

    def refuse(self, status: int, detail: str) -> None:
        """It cannot join."""
        if not self._ended:
            self._socket.refuse(status, detail)
            self._end(detail)

    def _close(self, code: int, reason: str) -> None:
        log.info("websocket closed", peer=self._request.peer, code=code, reason=reason)
        self._socket.close(code, reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore"))
        self._end(reason)

    def _end(self, reason: str) -> None:
        self._ended = True
        self._joining = None
        self._timer.cancel()
        self._settling.stop()
        self._deliveries.stop()
        self._requests.forget()
        self._pipe.leave(reason)

    def _say(self, frame: Frame | None) -> None:
        if frame is not None:
            self._socket.send(frame)

    # ---- words and messages

    def _obey(self, word: Word) -> None:
        match word:
            case Acknowledge(positions, request_id):
                told = None if request_id is None else partial(self._receipt, request_id)
                self._settling.acknowledge(positions, told)
            case Refuse(positions):
                self._settling.refuse(positions)
            case Permit(messages):
                self._permits.permitted(messages)
            case AskEndOfTopic():
                self._say(self._dialect.end_of_topic(reached=self._at_end, asked=True))
                self._ask_for_time()
            case _:
                self._unsubscribe()
        self._deliveries.soon()

    def _receipt(self, request_id: int, not_held: list[str], error: str | None) -> None:
        self._say(self._dialect.receipt(request_id, not_held, error))

    def _ask_for_time(self) -> None:
        """Extend the ack leases of all that the client holds, by the call that other clients have for it."""
        for consumer_id in range(len(self._topics)):
            self._requests.ask(partial(commands.get_last_message_id, consumer_id), lambda _: None)

    def _unsubscribe(self) -> None:
        """Delete the subscription of every partition; the connection ends with it, or says why it was refused."""
        if self._unsubscribing:
            return
        self._unsubscribing = True
        self._settling.flush()
        left = len(self._topics)

        def answered(answer: pb.BaseCommand) -> None:
            nonlocal left
            left -= 1
            if answer.type == _T.ERROR:
                self._close(CloseCode.POLICY, f"not unsubscribed: {answer.error.message}")
            elif not left:
                self._close(CloseCode.NORMAL, "unsubscribed")

        for consumer_id in range(len(self._topics)):
            self._requests.ask(partial(commands.unsubscribe, consumer_id), answered)

    def _deliver(self, message: SocketMessage, chunks: tuple[MessagePosition, ...]) -> int:
        frame = self._dialect.message(message)
        self._settling.sent(message, chunks)
        self._socket.send(frame)
        return len(frame)
