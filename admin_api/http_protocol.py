"""uvicorn's HTTP for untrusted clients: ambiguous requests are refused, and connections that wait for a client end.

A connection without a complete head is closed after `HEAD_S_MAX`. One whose client leaves answers unread is aborted
after one to two `STALL_S`: between two looks, so far apart, it must take `TAKEN_BYTES_MIN` of what waits for it. A byte
now and then is not enough, and a long answer may take its time. At `CONNECTIONS_MAX`, the connection that has waited
longest for its client, to send a complete request or to read, is closed for a new one: a client that is being answered
and reads is never closed. Looks alone would not do: a client that is cut may come again at once.
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
STALL_S: Final = 30.0
"""Between two looks at whether a client takes what waits for it."""
TAKEN_BYTES_MIN: Final = 64 * 1024
"""Of what waits for a client, to be taken between two looks, or all if that is less: some 2 KiB a second."""
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
    """The HTTP connections, those that have waited longest for their clients first."""

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
        """A complete request arrived and is being answered, and the client takes the answer."""
        if connection in self._silent:
            del self._silent[connection]
            self._answered.add(connection)

    def is_silent(self, connection: StrictHttp) -> None:
        """It was answered, and the next request has not arrived; or the client leaves the answer unread."""
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
        self._look_timer: asyncio.TimerHandle | None = None
        self._waited_bytes = 0
        """What waited for the client at the last look; 0 once it was taken."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn does, if there is room."""
        super().connection_made(transport)
        if self._connections.opened(self):
            self._await_head()
            self._look_later()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn does."""
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As uvicorn does; the beginning of a head sets its clock."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._heard()
        self._stand()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """As uvicorn does; it speaks HTTP no more."""
        self._leave()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """As uvicorn does; it waits for the next request, if that is not there already."""
        super().on_response_complete()
        self._stand()

    def pause_writing(self) -> None:
        """As uvicorn does; it waits for its client."""
        super().pause_writing()
        self._stand()

    def resume_writing(self) -> None:
        """As uvicorn does; it waits no more."""
        super().resume_writing()
        self._waited_bytes = 0
        self._stand()

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

    def _stand(self) -> None:
        """Tell who is waited for: us, or the client."""
        begun = self.cycle is not None  # not before the first request, whatever its type says
        asked = begun and not self.cycle.response_complete and self.conn.their_state != h11.SEND_BODY
        if asked and not self.flow.write_paused:
            self._connections.asks(self)
        else:
            self._connections.is_silent(self)

    def _leave(self) -> None:
        """Nothing is done here any more."""
        self._connections.gone(self)
        self._heard()
        if self._look_timer is not None:
            self._look_timer.cancel()

    def _look_later(self) -> None:
        self._look_timer = self.loop.call_later(STALL_S, self._look)

    def _look(self) -> None:
        """End it if its client does not take what waits for it.

        Only what waits while nothing is added is looked at: until writing may go on, or behind the last byte.
        """
        waits = self.flow.write_paused or self.transport.is_closing()
        left = self.transport.get_write_buffer_size() if waits else 0
        if left and self._waited_bytes and self._waited_bytes - left < TAKEN_BYTES_MIN:
            self.cut()
            return
        self._waited_bytes = left
        self._look_later()

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
