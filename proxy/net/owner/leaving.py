"""A leg whose client has gone: the owner closes its consumers, and only then the connection ends.

A connection that is closed while its peer writes to it takes with it what the peer has not read yet, and over TLS
nothing brings that back. A client that goes has acknowledged what it worked on just before. So CLOSE_CONSUMER of each
goes behind these, and its answer says that the owner has read both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from proxy.net.alarm import Alarm
from proxy.wire import commands
from proxy.wire.client_commands import UNASKED, body_of

if TYPE_CHECKING:
    from proxy.net.ports import Clock
    from proxy.net.relay.leg import UpstreamLeg
    from proxy.wire import pulsar_pb2 as pb

LEAVES_S_MAX: Final = 5.0
"""How long an owner has for its answers."""


class LeavingLeg:
    """Implements `relay.leg.LegOwner`; keeps the leg until it ends."""

    def __init__(self, leg: UpstreamLeg, consumers: Iterable[int], clock: Clock) -> None:
        """`leg` is ready; the ids of `consumers` are those that stand at the owner, or may."""
        self._leg = leg
        self._late = Alarm(clock)
        leg.owned_by(self)
        leg.client_asked = None
        leg.resume_reading()
        requests = {UNASKED - number: each for number, each in enumerate(consumers, 1)}
        self._unanswered = set(requests)
        leg.write(b"".join(commands.close_consumer(each, request_id) for request_id, each in requests.items()))
        self._late.set(LEAVES_S_MAX, leg.close)

    def leg_command(self, command: pb.BaseCommand, frame: bytes) -> None:
        """End with the last answer."""
        _ = frame
        self._unanswered.discard(getattr(body_of(command), "request_id", UNASKED))
        if not self._unanswered:
            self._late.cancel()
            self._leg.close()

    def leg_lost(self, reason: str, refusal: pb.CommandError | None) -> None:
        """The owner has gone, too."""
        _ = reason, refusal
        self._late.cancel()

    def leg_connected(self, connected: pb.CommandConnected) -> None:
        """It was, before."""

    def leg_challenged(self, frame: bytes) -> None:
        """There is no client that could answer."""

    def leg_data(self, data: bytes, frame_count: int) -> None:
        """For nobody: what was on its way."""

    def leg_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """What is written is written."""
