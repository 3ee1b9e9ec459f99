"""Messages between the members of a group: one-way, without answers; any may be lost or duplicated.

Two numbers simplify the rest of the protocol. Sessions and leaders number their messages: a message that is not newer
than the last one was overtaken or duplicated, and is ignored; the rest is in order, so a message that does not fit is
*odd*. And each message of a leader has the number of the session's last received message: a lease lasts from when
*that* was sent, by the session's own clock. The leader counts from when it received it, which is later, and waits
longer (`GroupTiming.drop_s`): so a session has stopped before its streams go to others, however late the messages were,
and no clocks are compared.

The leader's epoch is part of every version and every stamp, so that messages of an earlier leader are recognised.

Source: EIP-0028, "Protocol between Session and SGL".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from proxy.groups.kept_orders import KeptOrders
from proxy.groups.streams import GroupId, StreamState


class SessionId(NamedTuple):
    """One replica's part in one group, for as long as it takes part; no two are ever the same."""

    replica: str
    number: int


class Version(NamedTuple):
    """Of the set of streams that a session has. Later is greater; no leader gives one twice."""

    epoch: int
    number: int


class Stamp(NamedTuple):
    """When a leader said something. Later is greater."""

    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class Report:
    """What every message of a session says of it."""

    group: GroupId
    session: SessionId
    beat: int
    """Greater with each message of the session."""
    workers_count: int
    """What its share is in proportion to. 0 as soon as it wants to leave."""
    leads_count: int = 0
    """Groups that its replica leads."""
    replays: int = 0
    """Of the last lease that it had: how far it is, is how far it was since then."""
    address: str = ""
    """Where other replicas find this one, as ``host:port``; empty if nowhere."""


@dataclass(frozen=True, slots=True)
class FindLeader:
    """A session looks for the leader."""

    report: Report
    held: tuple[StreamState, ...]
    """What it has still, of an earlier lease; nothing of it is delivered meanwhile."""


@dataclass(frozen=True, slots=True)
class UpdateStreamStates:
    """A session reports its progress, or only that it is alive."""

    report: Report
    version: Version
    states: tuple[StreamState, ...]
    version_old: Version | None = None
    """Of the set before, while it gives streams away; these are among `states` until they are finished."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """A session has nothing any more and leaves."""

    report: Report
    states: tuple[StreamState, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """What every message of a leader says."""

    group: GroupId
    session: SessionId
    leader: str
    """Its replica."""
    stamp: Stamp
    heard: int
    """The last of the session's beats."""
    lease_s: float = 0.0
    """How long a lease of this leader lasts, from when that beat was sent; 0 from a release that does not say it."""


@dataclass(frozen=True, slots=True)
class LeaseStreams:
    """The answer to `FindLeader`."""

    header: Header
    version: Version
    streams: tuple[int, ...]
    streams_count: int
    """Streams that the group is cut into."""
    replays: int = 0
    """How often the cursor was moved: who knows of fewer forgets what it has."""


@dataclass(frozen=True, slots=True)
class RenewStreamLease:
    """The lease goes on; with `version_old` while the session's streams are being changed."""

    header: Header
    version: Version
    version_old: Version | None = None


@dataclass(frozen=True, slots=True)
class UpdateStreams:
    """Change the set of streams; it is the whole new one."""

    header: Header
    version_old: Version
    version: Version
    streams: tuple[int, ...]
    replays: int = 0
    """As in `LeaseStreams`."""


@dataclass(frozen=True, slots=True)
class Invalidate:
    """The leader has dropped the session: it must start again."""

    header: Header
    reason: str


@dataclass(frozen=True, slots=True)
class LeaderBegan:
    """To all replicas: there is a new leader; every session of the group should ask it for its streams.

    The text has no such message. Without it a session that has lost its leader, or that waits for the first, asks in
    vain until its next try, and its keys stand still.
    """

    group: GroupId
    leader: str
    """Its replica."""
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaderRetires:
    """To all replicas: who waits to lead is to let this one lead next. The text has no such message."""

    group: GroupId
    successor: str
    """A replica."""


@dataclass(frozen=True, slots=True)
class ReplicaSilent:
    """To all replicas: nothing is heard of this one, which may stand still or be cut off.

    The text has no such message.
    """

    group: GroupId
    replica: str


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """Where the subscription is to go on; one of both is given."""

    position: tuple[int, int] | None = None
    """Ledger and entry of the first message to be delivered."""
    published_ms: int | None = None
    """The first message published then or later, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class ReplayWanted:
    """To all replicas, for the leader: deliver again from there. Repeated until it is answered."""

    group: GroupId
    asker: str
    """A replica."""
    number: int
    """Of the asker's requests."""
    target: ReplayTarget


@dataclass(frozen=True, slots=True)
class ReplayDone:
    """The leader's answer, when the streams are being leased again."""

    group: GroupId
    asker: str
    number: int
    problem: str | None
    """Why it was not done; None if it was."""


@dataclass(frozen=True, slots=True)
class KeepOrders:
    """To the leader: have these orders in the group's topic. Repeated until a record has them, or later ones."""

    group: GroupId
    orders: KeptOrders


@dataclass(frozen=True, slots=True)
class WorkersWait:
    """To the leader and the owner: workers of a replica wait for streams whose owner it does not reach.

    Repeated while they wait. The text has no such message, nor the next one.
    """

    group: GroupId
    replica: str
    owner: str
    streams: tuple[int, ...]
    reached: tuple[str, ...]
    """Other replicas that it does reach."""


@dataclass(frozen=True, slots=True)
class WorkersServed:
    """To the leader: what the owner of streams says when workers elsewhere wait for them."""

    group: GroupId
    owner: str
    streams: tuple[int, ...]
    """Of those that were named, the ones that it has."""
    served: tuple[int, ...]
    """Of these, the ones that it has workers of."""
    reached: tuple[str, ...]
    """Other replicas that it reaches."""


FromSession: TypeAlias = FindLeader | UpdateStreamStates | Disconnect
FromLeader: TypeAlias = LeaseStreams | RenewStreamLease | UpdateStreams | Invalidate
OfReplay: TypeAlias = ReplayWanted | ReplayDone
OfLeaders: TypeAlias = LeaderBegan | LeaderRetires | ReplicaSilent
OfReach: TypeAlias = WorkersWait | WorkersServed
