"""Groups as frozen values, for the admin API and metrics: what this replica knows of each, as of one moment.

A replica knows its own session; the leader also knows all sessions, owners and progress.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from proxy.core.positions import unpack
from proxy.groups.streams import StreamState, hash_range

if TYPE_CHECKING:
    from proxy.core.positions import Position
    from proxy.groups.leader import GroupLeader
    from proxy.groups.messages import SessionId, Version
    from proxy.net.group.assignment import AssignmentCounters, GroupAssignment
    from proxy.net.group.member import GroupMember


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One group in numbers."""

    topic: str
    subscription: str
    now: float
    replica: str
    state: str
    leader: str | None
    leads: bool
    epoch: int | None
    version: int | None
    lease_left_s: float
    workers_count: int
    streams_count: int
    streams_here: int
    streams_releasing: int
    counters: AssignmentCounters

    @property
    def epoch_number(self) -> int:
        """Always a number: -1 for none."""
        return -1 if self.epoch is None else self.epoch

    @property
    def connected(self) -> bool:
        """Whether it has a lease."""
        return self.lease_left_s > 0


@dataclass(frozen=True, slots=True)
class StreamHere:
    """A stream that this replica has, or releases."""

    stream: int
    first_slot: int
    last_slot: int
    holding: str
    upstream_state: str
    upstream_error: str
    acknowledged: str | None
    unacked_messages: int
    rate: float


@dataclass(frozen=True, slots=True)
class GroupSession:
    """A session, as the leader knows it."""

    replica: str
    number: int
    state: str
    workers_count: int
    version: int | None
    streams: tuple[int, ...]
    streams_releasing: tuple[int, ...]
    heard_s: float


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """A stream, as the leader knows it."""

    stream: int
    first_slot: int
    last_slot: int
    owner: str | None
    refused: bool
    acknowledged: str | None
    unacked_messages: int
    rate: float


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leader's knowledge."""

    epoch: int
    sessions: tuple[GroupSession, ...]
    streams: tuple[StreamProgress, ...]


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """One group with everything that is known of it here."""

    summary: GroupSummary
    streams: tuple[StreamHere, ...]
    leading: Leadership | None


@dataclass(frozen=True, slots=True)
class GroupsPage:
    """Some groups, by topic and subscription; in owner mode those of `streamed_subscriptions`."""

    mode: str | None
    """How replicas share, as `groups_mode`; None for a gateway that shares nothing."""
    replica: str | None
    groups: tuple[GroupSummary, ...]
    next: str | None


def group_summary(assignment: GroupAssignment, now: float) -> GroupSummary | None:
    """Freeze its numbers; None for an assignment that is in no group now."""
    member = assignment.member
    if member is None:
        return None
    session = member.session
    version = session.version
    holdings = session.holdings
    return GroupSummary(
        topic=assignment.group.topic,
        subscription=assignment.group.subscription,
        now=now,
        replica=session.session.replica,
        state=session.state.value,
        leader=session.leader,
        leads=member.manager.leader is not None,
        epoch=_epoch(member.manager.leader, version),
        version=_number(version),
        lease_left_s=max(session.lease_until - now, 0.0),
        workers_count=session.workers_count,
        streams_count=session.streams_count,
        streams_here=len(session.leased),
        streams_releasing=len(holdings.keys() - session.leased),
        counters=replace(assignment.counters),
    )


def group_statistics(assignment: GroupAssignment, now: float) -> GroupStatistics | None:
    """Freeze everything; None for an assignment that is in no group now."""
    summary = group_summary(assignment, now)
    if summary is None or assignment.member is None:
        return None
    leader = assignment.member.manager.leader
    leading = None if leader is None else _leadership(leader, now)
    return GroupStatistics(summary, _streams_here(assignment, assignment.member), leading)


def _streams_here(assignment: GroupAssignment, member: GroupMember) -> tuple[StreamHere, ...]:
    session = member.session
    here = []
    for stream, holding in sorted(session.holdings.items()):
        span = assignment.slots_of(stream)
        upstream = assignment.upstream(stream)
        state = session.state_of(stream)
        here.append(
            StreamHere(
                stream=stream,
                first_slot=span.start,
                last_slot=span.end,
                holding=holding.value,
                upstream_state="none" if upstream is None else upstream.state.value,
                upstream_error="" if upstream is None else upstream.last_error,
                acknowledged=_position(state.acknowledged),
                unacked_messages=state.pending_count,
                rate=state.rate,
            )
        )
    return tuple(here)


def _leadership(leader: GroupLeader, now: float) -> Leadership:
    sessions = tuple(
        GroupSession(
            replica=each.session.replica,
            number=each.session.number,
            state=each.state.value,
            workers_count=each.workers_count,
            version=_number(each.version),
            streams=tuple(sorted(each.granted)),
            streams_releasing=tuple(sorted(each.revoked)),
            heard_s=now - each.heard_at,
        )
        for each in sorted(leader.sessions, key=lambda each: each.session)
    )
    owners, states, count = leader.owners, leader.states, leader.streams_count
    streams = tuple(
        _progress(states.get(stream, StreamState(stream)), owners.get(stream), count) for stream in range(count)
    )
    return Leadership(leader.epoch, sessions, streams)


def _progress(state: StreamState, owner: SessionId | None, streams_count: int) -> StreamProgress:
    span = hash_range(state.stream, streams_count)
    return StreamProgress(
        stream=state.stream,
        first_slot=span.start,
        last_slot=span.end,
        owner=None if owner is None else owner.replica,
        refused=owner is not None and state.refused,
        acknowledged=_position(state.acknowledged),
        unacked_messages=state.pending_count,
        rate=state.rate,
    )


def _epoch(leading: GroupLeader | None, version: Version | None) -> int | None:
    if leading is not None:
        return leading.epoch
    return None if version is None else version.epoch


def _number(version: Version | None) -> int | None:
    return None if version is None else version.number


def _position(position: Position | None) -> str | None:
    """As people write it, ``ledger:entry``."""
    if position is None:
        return None
    ledger, entry = unpack(position)
    return f"{ledger}:{entry}"
