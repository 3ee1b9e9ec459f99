"""The leader's side of one session: what it was told, what it has confirmed, what it has to release.

All transitions are in `TABLE`. A change of streams is one excursion from `replaying` and back: no second one begins
before the session has released what was revoked and said so with the new version.

Source: EIP-0028 as implemented in EMQX 5.8 (the text has no leader side); where it is silent, see docs/streams.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.groups.messages import UpdateStreamStates, Version

if TYPE_CHECKING:
    from proxy.groups.messages import Report, SessionId
    from proxy.groups.timing import GroupTiming


class State(Enum):
    """Of a session, as the leader sees it."""

    WAITING_REPLAYING = "waiting_replaying"
    """It was told its streams and has not confirmed them."""
    REPLAYING = "replaying"
    WAITING_UPDATING = "waiting_updating"
    """It was told a change and has not confirmed it."""
    UPDATING = "updating"
    """It releases what was revoked."""
    DROPPED = "dropped"


class Event(Enum):
    """What may happen to it. `odd` is what does not fit the streams that it was told."""

    FIND = "find_leader"
    STATES = "update_stream_states"
    STATES_OLD = "update_stream_states, of before the change"
    STATES_ODD = "update_stream_states, odd"
    CHANGING = "update_stream_states of the change"
    CHANGED = "update_stream_states of the change, everything finished"
    CHANGING_ODD = "update_stream_states of a change, odd"
    REBALANCE = "other streams for it"
    TIMEOUT = "not heard of, or not replaying, for too long"
    DISCONNECT = "disconnect"


class Action(Enum):
    """What is done in a transition. States of streams are noted before."""

    IGNORE = "ignore"
    NOTE = "note how far it is"
    LEASE = "send lease_streams"
    UPDATE = "send update_streams"
    RELEASE = "take back what is finished"
    SETTLE = "take back what is finished; send renew_stream_lease"
    DROP = "take everything back; send invalidate"
    FORGET = "take everything back"


class Transition(NamedTuple):
    """What an event leads to."""

    action: Action
    state: State


_LEASE: Final = Transition(Action.LEASE, State.WAITING_REPLAYING)
_DROP: Final = Transition(Action.DROP, State.DROPPED)
_FORGET: Final = Transition(Action.FORGET, State.DROPPED)

TABLE: Final[dict[State, dict[Event, Transition]]] = {
    State.WAITING_REPLAYING: {
        Event.FIND: _LEASE,
        Event.STATES: Transition(Action.NOTE, State.REPLAYING),
        Event.STATES_OLD: _DROP,
        Event.STATES_ODD: _DROP,
        # It has not heard that its change is over.
        Event.CHANGING: Transition(Action.NOTE, State.WAITING_REPLAYING),
        Event.CHANGED: Transition(Action.NOTE, State.WAITING_REPLAYING),
        Event.CHANGING_ODD: _DROP,
        Event.REBALANCE: Transition(Action.IGNORE, State.WAITING_REPLAYING),
        Event.TIMEOUT: _DROP,
        Event.DISCONNECT: _FORGET,
    },
    State.REPLAYING: {
        Event.FIND: _LEASE,
        Event.STATES: Transition(Action.NOTE, State.REPLAYING),
        Event.STATES_OLD: _DROP,
        Event.STATES_ODD: _DROP,
        Event.CHANGING: Transition(Action.NOTE, State.REPLAYING),
        Event.CHANGED: Transition(Action.NOTE, State.REPLAYING),
        Event.CHANGING_ODD: _DROP,
        Event.REBALANCE: Transition(Action.UPDATE, State.WAITING_UPDATING),
        Event.TIMEOUT: _DROP,
        Event.DISCONNECT: _FORGET,
    },
    State.WAITING_UPDATING: {
        Event.FIND: _LEASE,
        Event.STATES: _DROP,
        Event.STATES_OLD: Transition(Action.NOTE, State.WAITING_UPDATING),
        Event.STATES_ODD: _DROP,
        Event.CHANGING: Transition(Action.RELEASE, State.UPDATING),
        Event.CHANGED: Transition(Action.SETTLE, State.WAITING_REPLAYING),
        Event.CHANGING_ODD: _DROP,
        Event.REBALANCE: Transition(Action.IGNORE, State.WAITING_UPDATING),
        Event.TIMEOUT: _DROP,
        Event.DISCONNECT: _FORGET,
    },
    State.UPDATING: {
        Event.FIND: _LEASE,
        Event.STATES: _DROP,
        Event.STATES_OLD: _DROP,
        Event.STATES_ODD: _DROP,
        Event.CHANGING: Transition(Action.RELEASE, State.UPDATING),
        Event.CHANGED: Transition(Action.SETTLE, State.WAITING_REPLAYING),
        Event.CHANGING_ODD: _DROP,
        Event.REBALANCE: Transition(Action.IGNORE, State.UPDATING),
        Event.TIMEOUT: _DROP,
        Event.DISCONNECT: _FORGET,
    },
    State.DROPPED: dict.fromkeys(Event, Transition(Action.IGNORE, State.DROPPED)),
}


@dataclass(slots=True, eq=False)
class LeaderSession:
    """What a leader knows of one session."""

    session: SessionId
    heard: int
    """Its last beat."""
    heard_at: float
    not_replaying_since: float | None
    """None while it replays."""
    workers_count: int
    state: State = State.WAITING_REPLAYING
    leads_count: int = 0
    """Groups that its replica leads."""
    version: Version | None = None
    version_old: Version | None = None
    """Before the change that it was told last."""
    held: frozenset[int] = frozenset()
    """What it said to have still, when it looked for the leader last."""
    granted: frozenset[int] = frozenset()
    """What it is to have."""
    revoked: set[int] = field(default_factory=set)
    """What it has to release, and has not."""
    stored: bool = False
    """Whether the version is in the group's records; it is not sent before that."""
    confirmed: bool = False
    """Whether it has shown, since it looked for the leader last, that it hears it."""

    @classmethod
    def begun(cls, report: Report, now: float) -> LeaderSession:
        """One that has just been heard for the first time."""
        return cls(report.session, report.beat, now, now, report.workers_count, leads_count=report.leads_count)

    @property
    def changing(self) -> bool:
        """Whether a change is under way."""
        return self.state in (State.WAITING_UPDATING, State.UPDATING)

    @property
    def deaf(self) -> bool:
        """Whether it was told its streams, and has not shown that it heard that."""
        return self.stored and not self.confirmed

    def hear(self, report: Report, now: float) -> bool:
        """Record that it is alive; False if this message was overtaken or duplicated."""
        if report.beat <= self.heard:
            return False
        self.heard, self.heard_at, self.workers_count = report.beat, now, report.workers_count
        self.leads_count = report.leads_count
        return True

    def asked(self, held: frozenset[int]) -> None:
        """It looks for the leader, and says what it has still."""
        self.held = held
        self.confirmed = False

    def confirms(self, event: Event) -> bool:
        """Whether this report is the first since it looked for the leader that shows that it hears it."""
        first = not self.confirmed and event not in (Event.STATES_ODD, Event.CHANGING_ODD)
        self.confirmed |= first
        return first

    def overdue_at(self, timing: GroupTiming) -> float:
        """When it will have been silent, or not replayed, for too long."""
        silent_at, since = self.heard_at + timing.drop_s, self.not_replaying_since
        if since is None:
            return silent_at
        return min(silent_at, since + (timing.drop_s if self.deaf else timing.not_replaying_s))

    def event(self, message: UpdateStreamStates) -> Event:
        """What a report of it is, given what it was told."""
        if message.version_old is None:
            return self._states_event(message.version)
        if message.version != self.version:
            return Event.CHANGING_ODD
        if not self.changing:  # of the change before, which is over
            return Event.CHANGING
        if message.version_old != self.version_old:
            return Event.CHANGING_ODD
        finished = {state.stream for state in message.states if state.finished}
        return Event.CHANGED if self.revoked <= finished else Event.CHANGING

    def _states_event(self, version: Version) -> Event:
        if version == self.version:
            return Event.STATES
        if self.changing and version == self.version_old:
            return Event.STATES_OLD
        return Event.STATES_ODD
