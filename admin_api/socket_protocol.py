"""uvicorn's WebSockets for untrusted clients: every connection ends, and none blocks the event loop.

If a peer stops reading, a close would wait forever; such connections are aborted. A refused handshake is not an error
of the gateway, and an invalid HTTP handshake gets an answer. Input is read in slices, with a turn of the event loop in
between: 256 KiB of empty frames would block it for a second. Reading stops until the gateway has taken the frames that
were read. A message in more fragments than any client sends is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
    from websockets.frames import Frame

FAREWELL_S = 1.0
"""Time for a peer to read the close reason."""
SLICE_BYTES: Final = 2_048
"""Read in one turn of the loop: some hundred frames, if they are empty."""
FRAGMENTS_MAX: Final = 4_096
"""Of one message, which may have a MiB: clients write pieces of a kilobyte at least."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As uvicorn's."""
        super().__init__(*args, **options)
        self._unread = bytearray()
        self._reads_on = False
        self._lost: tuple[Exception | None] | None = None

    # ------------------------------------------------------------------ reading

    def data_received(self, data: bytes) -> None:
        """As uvicorn does, a slice at a time; a request that cannot be read is answered."""
        if self.handshake_initiated:
            self._unread += data
            if not self._reads_on:
                self._read_slice()
            return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_complete:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def _read_slice(self) -> None:
        self._reads_on = False
        read = bytes(self._unread[:SLICE_BYTES])
        del self._unread[:SLICE_BYTES]
        if read:
            super().data_received(read)
        if self.conn.parser_exc is not None:
            self._unread.clear()
        self._read_on()

    def _read_on(self) -> None:
        """Let the rest follow, or what the peer has not sent yet; once all is read, its end if it has gone."""
        if self._unread:
            self.transport.pause_reading()
            if not self._reads_on and (self._lost is not None or not self.read_paused):
                self._reads_on = True
                self.loop.call_soon(self._read_slice)
        elif self._lost is not None:
            lost, self._lost = self._lost, None
            super().connection_lost(*lost)
        elif not self.read_paused:
            self.transport.resume_reading()

    async def receive(self) -> ASGIReceiveEvent:
        """As uvicorn does; when all was taken, more is read."""
        message = await super().receive()
        if not self.read_paused and self._unread:
            self._read_on()
        return message

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn does, when what came before was read: it may have been acknowledgements."""
        self._lost = (exc,)
        if not self._reads_on:
            self._read_on()

    def handle_cont(self, event: Frame) -> None:
        """As uvicorn does, within a bound."""
        if len(self.frames) < FRAGMENTS_MAX:
            super().handle_cont(event)
        else:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"a message may have {FRAGMENTS_MAX} fragments")

    def send_receive_event_to_app(self) -> None:
        """As uvicorn does; text that is none ends the connection, and is nothing to log."""
        if self.curr_msg_data_type == "text":
            try:
                self.frames = [b"".join(self.frames)]
                self.frames[0].decode()
            except UnicodeDecodeError:
                self._fail(CloseCode.INVALID_DATA, "text must be UTF-8")
                return
        super().send_receive_event_to_app()

    def _fail(self, code: CloseCode, reason: str) -> None:
        self.frames = []
        self._unread.clear()
        if self.conn.close_sent is None:
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    # ------------------------------------------------------------------ ends

    def handle_ping(self) -> None:
        """As uvicorn does, unless the answers pile up unread."""
        if self.transport.is_closing():
            self.conn.data_to_send()  # no reader is left
        elif self.writable.is_set():
            super().handle_ping()
        else:
            self.transport.abort()

    def keepalive_timeout(self) -> None:
        """As uvicorn does; who does not answer may not read either."""
        super().keepalive_timeout()
        self.loop.call_later(FAREWELL_S, self._cut)

    async def send(self, message: ASGISendEvent) -> None:
        """As uvicorn does; the end of a refusal is the end of the handshake, and behind a close nothing is said."""
        if self._lost is not None or (self.close_sent and self.initial_response is None):
            raise ClientDisconnected
        await super().send(message)
        if not self.read_paused and self._unread:
            self._read_on()
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True

    async def run_asgi(self) -> None:
        """As uvicorn does; what is left of the connection then has an end too."""
        await super().run_asgi()
        self.loop.call_later(FAREWELL_S, self._cut)

    def _cut(self) -> None:
        if not self.disconnected:
            self.transport.abort()
