"""A connection from another replica, as if the client whose it is had come itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.net.owner.proof import Told
    from proxy.net.ports import Transport


class ToldTransport:
    """Implements `ports.Transport`: the replica's connection with the client's address and certificate."""

    __slots__ = ("_standing_down", "_transport", "abort", "close", "limit", "paused", "peer", "peer_certificate",
                 "push", "write")  # fmt: skip

    def __init__(self, transport: Transport, told: Told) -> None:
        """What is told was proven by a replica, which has verified it."""
        self._transport = transport
        self._standing_down = False
        self.paused = False
        """Whether nothing is read from it now."""
        self.peer = told.peer
        """As the port says."""
        self.peer_certificate = None if told.certificate is None else bytes(told.certificate)
        """As the port says."""
        # Bound once: each message is a `write`.
        self.write = transport.write
        self.push = transport.push
        self.limit = transport.limit
        self.close = transport.close
        self.abort = transport.abort

    @property
    def writable(self) -> bool:
        """As the port says."""
        return self._transport.writable and not self._standing_down

    def pause_reading(self) -> None:
        """As the port says."""
        self.paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """As the port says."""
        self.paused = False
        self._transport.resume_reading()

    def stand_down(self) -> None:
        """The replica at the client's side stops: no more messages for the client."""
        self._standing_down = True
