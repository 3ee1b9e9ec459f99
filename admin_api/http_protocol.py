"""uvicorn's HTTP for untrusted clients: ambiguous requests are refused, and silent connections are closed.

A connection without a complete head is closed after `HEAD_S_MAX`. At `CONNECTIONS_MAX`, the connection that has waited
longest without a complete request is closed for a new one: a client with a complete request is never closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from admin_api.answers import EVERY_ANSWER
from admin_api.request_head import HEAD_END, head_fault

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD_S_MAX: Final = 10.0
"""Time for a request's head, from its first byte or the start of the connection."""
HEAD_BYTES_MAX: Final = 64 * 1024
CONNECTIONS_MAX: Final = 1_000
"""HTTP connections; WebSockets are bounded like the gateway's other clients."""


class StrictConnection(h11.Connection):
    """h11 behind a check of the head: an invalid head gets 400 and a close, as other invalid HTTP."""

    def next_event(self) -> Any:
        """As h11's; raises `h11.RemoteProtocolError` for what `head_fault` names."""
        if self.their_state is h11.IDLE:
            received = self.trailing_data[0]
            end = HEAD_END.search(received)
            fault = None if end is None else head_fault(received[: end.end()])
            if fault is not None:
                raise h11.RemoteProtocolError(fault)
        return super().next_event()


class Connections:
    """The HTTP connections, the longest silent first."""

    def __init__(self, most: int = CONNECTIONS_MAX) -> None:
        """With their limit."""
        self._most = most
        self._silent: dict[StrictHttp, None] = {}
        self._answered: set[StrictHttp] = set()

    def __len__(self) -> int:
        """Number of connections."""
        return len(self._silent) + len(self._answered)

    def opened(self, connection: StrictHttp) -> bool:
        """Whether there is room for one more, possibly after closing another."""
        if len(self) >= self._most:
            if not self._silent:
                return False
            longest = next(iter(self._silent))
            self.gone(longest)
            longest.cut()
        self._silent[connection] = None
        return True

    def asks(self, connection: StrictHttp) -> None:
        """A complete request arrived and is being answered."""
        if connection in self._silent:
            del self._silent[connection]
            self._answered.add(connection)

    def is_silent(self, connection: StrictHttp) -> None:
        """It was answered, and the next request has not arrived."""
        if connection in self._answered:
            self._answered.discard(connection)
            self._silent[connection] = None

    def gone(self, connection: StrictHttp) -> None:
        """It was closed or upgraded; idempotent."""
        self._silent.pop(connection, None)
        self._answered.discard(connection)


class StrictHttp(H11Protocol):
    """One connection."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        """As uvicorn's, among others."""
        super().__init__(**options)
        self.conn = StrictConnection(h11.SERVER, HEAD_BYTES_MAX)
        self._connections = connections
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn does, if there is room."""
        super().connection_made(transport)
        if self._connections.opened(self):
            self._await_head()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn does."""
        self._connections.gone(self)
        self._heard()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As uvicorn does; the beginning of a head sets its clock."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._heard()
        if self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}:
            self._connections.asks(self)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """As uvicorn does; it speaks HTTP no more."""
        self._heard()
        self._connections.gone(self)
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """As uvicorn does; it waits for the next request, if that is not there already."""
        answered = self.cycle
        self._connections.is_silent(self)
        super().on_response_complete()
        if self.cycle is not answered and self.conn.their_state is not h11.SEND_BODY:
            self._connections.asks(self)

    def send_400_response(self, msg: str) -> None:
        """As uvicorn does, with the headers of every answer."""
        body = msg.encode("ascii")
        headers = [
            *EVERY_ANSWER.items(),
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        for event in (h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(data=body)):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.write(self.conn.send(h11.EndOfMessage()) or b"")
        self.transport.close()

    def cut(self) -> None:
        """End it now."""
        self.transport.abort()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S_MAX, self.cut)

    def _heard(self) -> None:
        timer, self._head_timer = self._head_timer, None
        if timer is not None:
            timer.cancel()


def strict_http(connections: Connections) -> Callable[..., asyncio.Protocol]:
    """What makes a connection's protocol, for uvicorn."""

    def make(**options: Any) -> asyncio.Protocol:
        return StrictHttp(connections, **options)

    return make
