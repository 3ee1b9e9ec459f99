"""A leg whose client has gone: the owner ends it, when it has read what the client acknowledged before.

A connection that is closed while its peer writes to it takes with it what the peer has not read yet, and over TLS
nothing brings that back. A client that goes has acknowledged what it worked on just before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.alarm import Alarm
from proxy.wire import commands

if TYPE_CHECKING:
    from proxy.net.ports import Clock
    from proxy.net.relay.leg import UpstreamLeg
    from proxy.wire import pulsar_pb2 as pb

LEAVES_S_MAX: Final = 5.0
"""How long the owner has for it."""


class LeavingLeg:
    """Implements `relay.leg.LegOwner`; keeps the leg until it ends."""

    def __init__(self, leg: UpstreamLeg, clock: Clock) -> None:
        """`leg` is ready."""
        self._late = Alarm(clock)
        self._late.set(LEAVES_S_MAX, leg.close)
        leg.owned_by(self)
        leg.client_asked = None
        leg.resume_reading()
        leg.write(commands.client_gone())

    def leg_lost(self, reason: str, refusal: pb.CommandError | None) -> None:
        """The owner has read it, or is gone, too."""
        _ = reason, refusal
        self._late.cancel()

    def leg_command(self, command: pb.BaseCommand, frame: bytes) -> None:
        """What was on its way is dropped."""

    def leg_data(self, data: bytes, frame_count: int) -> None:
        """Likewise."""

    def leg_connected(self, connected: pb.CommandConnected) -> None:
        """It was, before."""

    def leg_challenged(self, frame: bytes) -> None:
        """There is no client that could answer."""

    def leg_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """What is written is written."""
