"""The gateway's whole path of a message to a worker on a WebSocket, and of its acknowledgement, in one process.

As `path`, with a client at the end that speaks Pulsar's language and acknowledges each message by itself. The WebSocket
is not in it: frames go in and out whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from integration.bench import frames_made
from integration.bench.path import GatewayPath, StillClock
from proxy.net.session.session import ClientSession
from proxy.net.websocket.sockets import WorkerSockets
from proxy.socket_request import SocketRequest

if TYPE_CHECKING:
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.net.websocket.link import Frame

PEER = "192.0.2.9:40000"


class _Socket:
    """The client's end: keeps the messages."""

    def __init__(self) -> None:
        """None yet."""
        self.frames: list[Frame] = []
        self.accepted = False

    def accept(self) -> None:
        """As the port says."""
        self.accepted = True

    def refuse(self, status: int, detail: str) -> None:
        """Not expected."""
        raise AssertionError(f"refused: {status} {detail}")

    def send(self, frame: Frame) -> None:
        """As the port says."""
        self.frames.append(frame)

    def close(self, code: int, reason: str) -> None:
        """Not expected."""
        raise AssertionError(f"closed: {code} {reason}")


class SocketPath(GatewayPath):
    """A gateway whose only worker is on a WebSocket."""

    def __init__(self, clock: StillClock | None = None, subscriptions: SubscriptionSettings | None = None) -> None:
        """Let it join."""
        super().__init__(0, clock=clock, subscriptions=subscriptions)
        self._socket = _Socket()
        services = self.services
        sockets = WorkerSockets(
            lambda _peer: ClientSession(services, lambda _ended: None),
            lambda: None,
            self._clock,
            self.openings,
            lambda _, key: len(key),
        )
        request = SocketRequest("v2", frames_made.TOPIC, frames_made.SUBSCRIPTION, PEER, earliest=True)
        self._worker = sockets.open(request, self._socket)
        self._settle()
        assert self._socket.accepted

    def _settle(self) -> None:
        self._clock.settle()
        self._tell(self.broker.answers())

    def _acknowledge(self) -> int:
        """The client acknowledges what it got, each message in a frame of its own."""
        frames, self._socket.frames = self._socket.frames, []
        acks = [json.dumps({"messageId": json.loads(frame)["messageId"]}) for frame in frames]
        with self.inside():
            for ack in acks:
                self._worker.received(ack)
            self._clock.settle()
        self._tell(self.broker.answers())
        return len(frames)
