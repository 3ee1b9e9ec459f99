"""A connection from another replica, as if the client whose it is had come itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.net.owner.proof import Told
    from proxy.net.ports import Transport


class ToldTransport:
    """Implements `ports.Transport`: the replica's connection with the client's address and certificate."""

    __slots__ = ("_standing_down", "_transport", "abort", "close", "limit", "pause_reading", "peer", "peer_certificate",
                 "resume_reading", "write")  # fmt: skip

    def __init__(self, transport: Transport, told: Told) -> None:
        """What is told was proven by a replica, which has verified it."""
        self._transport = transport
        self._standing_down = False
        self.peer = told.peer
        """As the port says."""
        self.peer_certificate = None if told.certificate is None else bytes(told.certificate)
        """As the port says."""
        # Bound once: each message is a `write`.
        self.write = transport.write
        self.limit = transport.limit
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.close = transport.close
        self.abort = transport.abort

    @property
    def writable(self) -> bool:
        """As the port says."""
        return self._transport.writable and not self._standing_down

    def stand_down(self) -> None:
        """The replica at the client's side stops: no more messages for the client."""
        self._standing_down = True
