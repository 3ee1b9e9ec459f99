"""Short names for what tests do with WebSockets, by a client library that is not ours."""

from __future__ import annotations

import base64
import json
from contextlib import ExitStack
from typing import Any, Self
from urllib.parse import urlencode

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

PATIENCE_S = 60.0
"""How long a message that must come may take; only a fault exhausts it."""
QUIET_S = 0.5
"""How long nothing must come where nothing may come."""
FRAME_BYTES_MAX = 64 << 20


class Socket:
    """One connection; use it as a context manager."""

    def __init__(self, admin_url: str, path: str, *, origin: str | None = None, **query: object) -> None:
        """`path` is what stands behind the address, ``/ws/v2/consumer/...``."""
        url = f"{admin_url.replace('http://', 'ws://')}{path}{'?' * bool(query)}{urlencode(query)}"
        self._url = url
        self._origin = origin
        self._stack = ExitStack()
        self._socket: ClientConnection

    def __enter__(self) -> Self:
        """Connect."""
        wanted = connect(
            self._url,
            origin=Origin(self._origin) if self._origin else None,
            max_size=FRAME_BYTES_MAX,
            proxy=None,
            open_timeout=PATIENCE_S,
        )
        self._socket = self._stack.enter_context(wanted)
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self._stack.close()

    def say(self, **words: object) -> None:
        """Send one JSON object."""
        self._socket.send(json.dumps(words))

    def say_raw(self, frame: str | bytes) -> None:
        """Send anything."""
        self._socket.send(frame)

    def hear(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """Receive one JSON object; of a binary frame its header, with the payload's Base64 in it."""
        frame = self._socket.recv(timeout=timeout_s)
        if isinstance(frame, str):
            words: dict[str, Any] = json.loads(frame)
            return words
        size = int.from_bytes(frame[:4], "big")
        header: dict[str, Any] = json.loads(frame[4 : 4 + size])
        return header | {"payload": base64.b64encode(frame[4 + size :]).decode()}

    def hear_nothing(self) -> bool:
        """Whether nothing comes for a while."""
        try:
            self.hear(QUIET_S)
        except TimeoutError:
            return True
        return False

    def acknowledge(self, message: dict[str, Any]) -> None:
        """In Pulsar's language."""
        self.say(messageId=message["messageId"])

    def closed_with(self) -> tuple[int, str]:
        """Wait for the other side to close; its code and reason."""
        try:
            while True:
                self._socket.recv(timeout=PATIENCE_S)
        except ConnectionClosed as closed:
            if closed.rcvd is None:
                message = "the connection was cut without a word"
                raise AssertionError(message) from closed
            return closed.rcvd.code, closed.rcvd.reason


def worker_path(dialect: str, topic: str, subscription: str) -> str:
    """The path of a worker."""
    return f"/ws/{dialect}/consumer/{topic.replace('://', '/')}/{subscription}"


def worker(admin_url: str, dialect: str, topic: str, subscription: str = "s", **query: object) -> Socket:
    """A Key_Shared worker from the topic's beginning."""
    wanted = {"subscriptionType": "Key_Shared", "subscriptionInitialPosition": "Earliest", **query}
    return Socket(admin_url, worker_path(dialect, topic, subscription), origin=None, **wanted)


def refusal(socket: Socket) -> tuple[int, str]:
    """Status and detail with which the upgrade is refused."""
    try:
        with socket:
            message = "the upgrade was granted"
            raise AssertionError(message)
    except InvalidStatus as refused:
        answer: dict[str, Any] = json.loads(refused.response.body or b"{}")
        return refused.response.status_code, str(answer.get("detail"))


def payload(message: dict[str, Any]) -> bytes:
    """What the producer sent."""
    return base64.b64decode(message["payload"])
