"""uvicorn's WebSockets for untrusted clients: every connection ends, and none blocks the event loop.

If a peer stops reading, a close would wait forever; such connections are aborted. A refused handshake is not an error
of the gateway, and an invalid HTTP handshake gets an answer. Input is read in slices, with a turn of the event loop in
between: 256 KiB of empty frames would block it for a second. Reading stops until the gateway has taken the frames that
were read. A message in more fragments than any client sends is refused.

Messages go past ASGI, which has an event, a task's turn and a write for each: the route finds this connection in its
scope, takes each message as it is read, and writes all that a turn of the loop has made at once. The handshake and the
ends stay ASGI's.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode
from websockets.protocol import OPEN

from admin_api.socket_frames import FrameReader, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
    from websockets.frames import Frame
    from websockets.http11 import Request

    from admin_api.ports import Frame as Message

FAREWELL_S = 1.0
"""Time for a peer to read the close reason."""
SLICE_BYTES: Final = 2_048
"""Read in one turn of the loop: some hundred frames, if they are empty."""
FRAGMENTS_MAX: Final = 4_096
"""Of one message, which may have a MiB: clients write pieces of a kilobyte at least."""
EXTENSION: Final = "keyline.socket"
PROTOCOL: Final = "protocol"
"""Where a scope has its `SocketProtocol`: in this extension, by this name."""
_HEAD_END: Final = b"\r\n\r\n"


class SocketProtocol(WebSocketsSansIOProtocol):
    """One connection; implements `socket_frames.FrameTaker`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As uvicorn's."""
        super().__init__(*args, **options)
        self._unread = bytearray()
        self._reads_on = False
        self._lost: tuple[Exception | None] | None = None
        self._reader: FrameReader | None = None
        """None if the library has read a part of a frame with the request."""
        self._heard: Callable[[Message], None] | None = None
        self._held: deque[Message] = deque()
        """What was read in the slice in which reading had to stop."""
        self._may_write: Callable[[], None] = _nothing_waits

    # ------------------------------------------------------------------ past ASGI

    def handle_connect(self, event: Request) -> None:
        """As uvicorn does; the route finds this connection."""
        super().handle_connect(event)
        if not self.close_sent:
            assert self.scope["extensions"] is not None
            self.scope["extensions"][EXTENSION] = {PROTOCOL: self}

    def hear(self, heard: Callable[[Message], None]) -> None:
        """Hand over messages from now on, as they are read. It must not raise."""
        self._heard = heard

    def write_when_read(self, may_write: Callable[[], None]) -> None:
        """`may_write` is called when `is_read` has become true."""
        self._may_write = may_write

    @property
    def is_read(self) -> bool:
        """Whether little waits for the peer to read it."""
        return self.writable.is_set()

    def write(self, messages: Iterable[Message]) -> None:
        """Send messages; nothing where the end has begun, of which ASGI tells."""
        if self._lost is None and not self.close_sent and self.conn.state is OPEN and not self.disconnected:
            self.transport.write(written(messages))

    def resume_writing(self) -> None:
        """As uvicorn does."""
        super().resume_writing()
        self._may_write()

    def set_reading(self, reads: bool) -> None:  # noqa: FBT001 - one bit of news
        """Whether to hand over more. What comes before the peer's own end is handed over all the same."""
        self.read_paused = not reads
        if reads:
            while self._held and not self.read_paused:
                self._say(self._held.popleft())
        if self.read_paused:
            self.transport.pause_reading()
        else:
            self._read_on()

    def _say(self, message: Message) -> None:
        if self._heard is not None:
            self._heard(message)

    def _say_held(self) -> None:
        """Hand over what came before an end."""
        while self._held:
            self._say(self._held.popleft())

    # ------------------------------------------------------------------ reading

    def data_received(self, data: bytes) -> None:
        """As uvicorn does, a slice at a time; a request that cannot be read is answered."""
        if self.handshake_initiated:
            self._unread += data
            if not self._reads_on:
                self._read_slice()
            return
        super().data_received(data)
        if data.find(_HEAD_END) + len(_HEAD_END) == len(data):
            self._reader = FrameReader(self)
        if self.conn.handshake_exc is not None and not self.handshake_complete:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def _read_slice(self) -> None:
        self._reads_on = False
        read = bytes(self._unread[:SLICE_BYTES])
        del self._unread[:SLICE_BYTES]
        if read:
            (self.other if self._reader is None else self._reader.feed)(read)
        if self.conn.parser_exc is not None:
            self._unread.clear()
        self._read_on()

    @property
    def takes_texts(self) -> bool:
        """As the port says: not behind an end, and not within another message."""
        return self.conn.state is OPEN and self.conn.current_size is None

    def text(self, data: bytes) -> None:
        """As the port says."""
        self.curr_msg_data_type = "text"
        self.frames = [data]
        self.send_receive_event_to_app()

    def other(self, data: bytes) -> None:
        """As the port says."""
        super().data_received(data)

    def _read_on(self) -> None:
        """Let the rest follow, or what the peer has not sent yet; once all is read, its end if it has gone."""
        if self._unread:
            self.transport.pause_reading()
            if not self._reads_on and (self._lost is not None or not self.read_paused):
                self._reads_on = True
                self.loop.call_soon(self._read_slice)
        elif self._lost is not None:
            self._say_held()
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
        """As uvicorn does, or past it; text that is none ends the connection, and is nothing to log."""
        data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
        message: Message = data
        if self.curr_msg_data_type == "text":
            try:
                message = data.decode()
            except UnicodeDecodeError:
                self._fail(CloseCode.INVALID_DATA, "text must be UTF-8")
                return
        if self._heard is None:
            super().send_receive_event_to_app()
            return
        self.frames = []
        if self.read_paused:
            self._held.append(message)
        elif not self.close_sent:
            self._heard(message)

    def _fail(self, code: CloseCode, reason: str) -> None:
        self.frames = []
        self._unread.clear()
        if self.conn.close_sent is None:
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    # ------------------------------------------------------------------ ends

    def handle_close(self, event: Frame) -> None:
        """As uvicorn does, behind what came before."""
        self._say_held()
        super().handle_close(event)

    def shutdown(self) -> None:
        """As uvicorn does; where the peer has begun the end, its library would refuse to send a second one."""
        if self.handshake_complete and self.conn.state is not OPEN:
            self.close_sent = True
        super().shutdown()

    def handle_parser_exception(self) -> None:
        """As uvicorn does, behind what came before."""
        self._say_held()
        super().handle_parser_exception()

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


def _nothing_waits() -> None:
    """Nothing is to be written yet."""
