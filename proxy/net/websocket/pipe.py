"""A connection in memory between a client session and a client that lives in the gateway itself.

A session is written for a peer that answers later, from the loop. So nothing passes through at once: each side's bytes
are gathered and handed over at the end of the loop's turn, and the end of the connection arrives behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import structlog

from proxy.net.frames_in_slices import FEW
from proxy.wire.frames import FrameSplitter

if TYPE_CHECKING:
    from proxy.net.ports import Clock, Receiver


log = structlog.get_logger("keyline.websocket")

FRAME_BYTES_MAX: Final = 1 << 31
"""What the gateway itself has made is not too large, however large: slices of batches are not compressed any more."""


class PipeClient(Protocol):
    """Who is at the other end."""

    def frames(self, frames: list[bytes]) -> None:
        """Whole frames from the session."""

    def ended(self, reason: str) -> None:
        """The session has closed the connection; called once, not after `Pipe.leave`."""


class Pipe:
    """Both ends: `ports.Transport` for the session, `send` and `leave` for the client."""

    def __init__(self, clock: Clock, peer: str) -> None:
        """Not open yet."""
        self._clock = clock
        self.peer = peer
        self._splitter = FrameSplitter(FRAME_BYTES_MAX)
        self._session: Receiver | None = None
        self._client: PipeClient | None = None
        self._to_session: list[bytes] = []
        self._to_client: list[bytes] = []
        self._due = False
        self._reading = True
        self._closed: str | None = None
        """Why, once one side has closed."""
        self._writable = True

    def open(self, session: Receiver, client: PipeClient) -> None:
        """Put the two together."""
        self._session = session
        self._client = client
        session.opened(self)

    # ---- the client's end

    def send(self, frame: bytes) -> None:
        """Queue bytes to the session."""
        if self._closed is None:
            self._to_session.append(frame)
            self._soon()

    def leave(self, reason: str) -> None:
        """Close; the session hears of it, the client hears nothing more."""
        self._client = None
        self._end(reason)

    def set_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """Whether the client takes more."""
        if writable != self._writable:
            self._writable = writable
            if self._session is not None and self._closed is None:
                self._session.writability_changed(writable)

    # ---- ports.Transport

    @property
    def peer_certificate(self) -> bytes | None:
        """As the port says: none of a browser's reaches this far."""
        return None

    @property
    def writable(self) -> bool:
        """As the port says."""
        return self._writable

    def write(self, data: bytes) -> None:
        """As the port says."""
        if self._closed is None:
            self._to_client.append(data)
            self._soon()

    def push(self) -> None:
        """What is written is passed on in the next turn in any case."""

    def limit(self, seconds: float) -> None:
        """Not as the port says: a process that stands still in this turn sends all the same."""

    def pause_reading(self) -> None:
        """As the port says."""
        self._reading = False

    def resume_reading(self) -> None:
        """As the port says."""
        self._reading = True
        self._soon()

    def close(self) -> None:
        """As the port says."""
        self._end("closed by the gateway")

    def abort(self) -> None:
        """As the port says."""
        self._to_client.clear()
        self._end("closed by the gateway")

    # ---- within

    def _end(self, reason: str) -> None:
        if self._closed is None:
            self._closed = reason
            self._soon()

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self._clock.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        self._due = False
        closed = self._closed
        try:
            self._hand_over(closed=closed is not None)
        except Exception:  # on any error, the other end must not keep waiting
            log.exception("in-memory connection failed", peer=self.peer)
            closed = self._closed = "a fault of the gateway; its log tells more"
        if closed is not None:
            self._hang_up(closed)

    def _hand_over(self, *, closed: bool) -> None:
        if self._to_client and self._client is not None:
            data, self._to_client = b"".join(self._to_client), []
            self._client.frames(self._splitter.feed(data))
        if not (self._reading or closed):
            return
        if self._to_session and self._session is not None:
            queued, self._to_session = self._to_session, []
            # In reads that are processed at once: what the client said before it left is not dropped with its end.
            for start in range(0, len(queued), FEW):
                if self._session is not None:
                    self._session.received(b"".join(queued[start : start + FEW]))

    def _hang_up(self, reason: str) -> None:
        session, self._session = self._session, None
        client, self._client = self._client, None
        if session is not None:
            session.closed(reason)
        if client is not None:
            client.ended(reason)
