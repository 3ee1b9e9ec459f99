"""Publishes a group's changes at this replica as events: leases, and the leader.

After each step the state machines are inspected, and each change is published once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from proxy.groups.messages import Version
    from proxy.groups.streams import GroupId
    from proxy.net.events import Events
    from proxy.net.group.member import GroupMember


class _Session(NamedTuple):
    connecting: bool
    leader: str | None
    version: Version | None


class GroupAuditLog:
    """The audit log of one group."""

    def __init__(self, events: Events, group: GroupId) -> None:
        """Nothing published yet."""
        self._events = events
        self._group = group
        self._session = _Session(connecting=True, leader=None, version=None)
        self._leads = False

    def began(self, member: GroupMember) -> None:
        """A session begins, without a lease."""
        self._session = _Session(connecting=True, leader=None, version=None)
        self._leads = False
        self._events.happened("group_joined", self._group, replica=member.session.session.replica)

    def ended(self, member: GroupMember) -> None:
        """It is over."""
        self._events.happened("group_left", self._group, replica=member.session.session.replica)

    def look(self, member: GroupMember) -> None:
        """Publish the changes."""
        leading = member.manager.leader
        if (leading is not None) != self._leads:
            self._leads = leading is not None
            epoch = None if leading is None else leading.epoch
            self._events.happened("group_leader", self._group, leads=self._leads, epoch=epoch)
        session = member.session
        connecting = session.version is None
        now = _Session(connecting, None if connecting else session.leader, session.version)
        if now != self._session:
            self._session = now
            self._tell(member)

    def released(self, stream: int, duration_s: float, *, overdue: bool) -> None:
        """A stream is closed here, `duration_s` after it was revoked."""
        self._events.happened(
            "group_stream_released", self._group, stream=stream, duration_s=duration_s, overdue=overdue
        )

    def replayed(self, problem: str | None) -> None:
        """The subscription's cursor was moved while no replica consumed it, or could not be."""
        self._events.happened("group_replayed", self._group, problem=problem)

    def _tell(self, member: GroupMember) -> None:
        session, version = member.session, self._session.version
        self._events.happened(
            "group_session",
            self._group,
            replica=session.session.replica,
            state=session.state.value,
            leader=self._session.leader,
            epoch=None if version is None else version.epoch,
            version=None if version is None else version.number,
            streams_count=session.streams_count,
            streams=sorted(session.leased),
            reason=session.reason,
        )
