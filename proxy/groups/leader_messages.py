"""What a leader tells sessions: their sets of streams, renewals of their leases, and that it does not know them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.groups.leader_session import LeaderSession, State
from proxy.groups.messages import (
    FromLeader,
    Header,
    Invalidate,
    LeaderBegan,
    LeaderRetires,
    LeaseStreams,
    RenewStreamLease,
    ReplicaSilent,
    Stamp,
    UpdateStreams,
)

if TYPE_CHECKING:
    from proxy.groups.messages import SessionId
    from proxy.groups.streams import GroupId


@dataclass(frozen=True, slots=True)
class Tell:
    """Let this reach the session that it names."""

    message: FromLeader


@dataclass(frozen=True, slots=True)
class Announce:
    """Let this reach all replicas."""

    message: LeaderBegan | LeaderRetires | ReplicaSilent


class LeaderMessages:
    """Writes one leader's messages. Each has a stamp above those before."""

    def __init__(self, group: GroupId, epoch: int, replica: str, streams_count: int, lease_s: float) -> None:
        """Of a leader of this epoch, on this replica, whose sessions have leases of this length."""
        self.stamps = 0
        """How many were written."""
        self._group = group
        self._epoch = epoch
        self._replica = replica
        self._streams_count = streams_count
        self._lease_s = lease_s

    def told(self, session: LeaderSession, replays: int) -> Tell:
        """Write its set of streams; `replays` is how often the group's cursor was moved."""
        assert session.version is not None
        streams = tuple(sorted(session.granted))
        header = self._header(session.session, session.heard)
        if session.version_old is None:
            return Tell(LeaseStreams(header, session.version, streams, self._streams_count, replays))
        return Tell(UpdateStreams(header, session.version_old, session.version, streams, replays))

    def renewal(self, session: LeaderSession, replays: int) -> list[Tell]:
        """Write what it is told again and again, which is the last it was told or what goes on from there."""
        assert session.version is not None
        if session.state is State.WAITING_UPDATING and session.stored:
            return [self.told(session, replays)]
        header = self._header(session.session, session.heard)
        if session.state is State.WAITING_UPDATING:  # the change is not sent before it is stored
            assert session.version_old is not None
            return [Tell(RenewStreamLease(header, session.version_old))]
        return [Tell(RenewStreamLease(header, session.version, session.version_old))] if session.stored else []

    def invalidate(self, session: SessionId, heard: int, reason: str) -> Tell:
        """Say that it has no lease, and why; `heard` is its last beat."""
        return Tell(Invalidate(self._header(session, heard), reason))

    def _header(self, session: SessionId, heard: int) -> Header:
        self.stamps += 1
        return Header(self._group, session, self._replica, Stamp(self._epoch, self.stamps), heard, self._lease_s)
