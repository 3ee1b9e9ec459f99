"""A session's side of the protocol: one replica in one group, which delivers the streams that the leader leases it.

Problem: with lost or late messages, and stopped processes, no stream may be delivered here after it may be delivered
elsewhere. Rule: a stream is delivered only in `replaying` and `updating`, only while the lease lasts by the replica's
own clock, and only if it is in the leader's last set of streams. A session in doubt goes to `connecting`, where nothing
is delivered; workers keep their messages, so that a leader that leases the same streams again causes no redelivery.

All transitions are in `session_transitions.TABLE`; messages become events in `_event`; nothing else changes the state.

Source: EIP-0028, "Protocol between Session and SGL"; where it is silent, see docs/streams.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from proxy.groups.held_streams import HeldStreams, StreamAct
from proxy.groups.messages import (
    Disconnect,
    FindLeader,
    FromLeader,
    FromSession,
    Invalidate,
    LeaderBegan,
    LeaseStreams,
    RenewStreamLease,
    Report,
    SessionId,
    Stamp,
    UpdateStreams,
    UpdateStreamStates,
    Version,
)
from proxy.groups.session_transitions import PROLONGING, TABLE, Action, Event, State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.groups.held_streams import Holding
    from proxy.groups.streams import GroupId, StreamState
    from proxy.groups.timing import GroupTiming


@dataclass(frozen=True, slots=True)
class Send:
    """Let this reach the leader."""

    message: FromSession


SessionAct: TypeAlias = Send | StreamAct


class GroupSession:
    """Every method that takes `now` returns what is to be done because of it, in order."""

    def __init__(self, group: GroupId, session: SessionId, timing: GroupTiming, workers_count: int, now: float) -> None:
        """Nothing is asked yet: `start` does that. `now` is this machine's clock, which never goes back."""
        self.group = group
        self.session = session
        self.state = State.CONNECTING
        self.version: Version | None = None
        """Of the streams that it has; in `updating` of those that it will have."""
        self.version_old: Version | None = None
        """In `updating`: of the set before."""
        self.leader: str | None = None
        """The replica that leads, as far as it is known."""
        self.reason: str | None = None
        """Why it has no lease; None before the first, and while it has one."""
        self.streams_count = 0
        """Into how many streams the group is cut; 0 before the first lease."""
        self.replays = 0
        """How often the group's cursor had been moved when it was leased its streams."""
        self.leads_count = 0
        """Groups that this replica leads, as reports say."""
        self.address = ""
        """Where other replicas find this one, as reports say."""
        self._timing = timing
        self._workers_count = workers_count
        self._leave_deadline = 0.0
        self._streams = HeldStreams(timing.drain_s)
        self._last_stamp = Stamp(-1, -1)
        self._beat = 0
        self._sent: deque[tuple[int, float]] = deque()
        """When each message was sent that the leader may not have heard."""
        self._lease_s = timing.lease_s
        """As the leader says; all sessions of a group have leases of one length."""
        self._lease_until = now
        self._find_at = now
        self._report_at = now

    # ---- the outside

    def start(self, now: float) -> list[SessionAct]:
        """Look for the leader."""
        return self._find(now)

    def receive(self, message: FromLeader, now: float) -> list[SessionAct]:
        """Hear the leader. What is not newer than its last word changes nothing."""
        acts = self._expire(now)
        if message.header.session != self.session or message.header.stamp <= self._last_stamp:
            return acts
        self._last_stamp = message.header.stamp
        return acts + self._happen(self._event(message), message, now)

    def began(self, message: LeaderBegan, now: float) -> list[SessionAct]:
        """Hear of a leader: ask it at once, unless it has been heard of; those before it are heard no more."""
        acts = self._expire(now)
        stamp = Stamp(message.epoch, 0)
        if stamp <= self._last_stamp:
            return acts
        self._last_stamp = stamp
        return acts + self._happen(Event.BEGAN, None, now)

    def tick(self, now: float) -> list[SessionAct]:
        """Do what is due; to be called when `due` says so, or later."""
        acts = self._expire(now)
        if self._streams.leaving and now >= self._leave_deadline:
            return acts + self._tear(now)
        if self.state in (State.REPLAYING, State.UPDATING) and now >= self._report_at:
            acts.append(self._report(now))
        return acts

    def due(self) -> float | None:
        """When `tick` is to be called next; None if never."""
        if self.state is State.DISCONNECTED:
            return None
        times = [self._find_at] if self.state is State.CONNECTING else [self._lease_until, self._report_at]
        return min([*times, self._leave_deadline] if self._streams.leaving else times)

    def weigh(self, workers_count: int, now: float) -> list[SessionAct]:
        """Its workers have become more or fewer."""
        if self._streams.leaving or workers_count == self._workers_count:
            return []
        self._workers_count = workers_count
        return [self._report(now)] if self.state in (State.REPLAYING, State.UPDATING) else []

    def leave(self, now: float) -> list[SessionAct]:
        """Release everything and go: other replicas take over stream by stream."""
        if self._streams.leaving or self.state is State.DISCONNECTED:
            return []
        self._streams.leaving = True
        self._workers_count = 0
        # The leader needs a moment before we may begin to drain.
        self._leave_deadline = now + self._timing.drain_s + self._lease_s
        if self.state is State.CONNECTING:
            return [*self._streams.release_all(now), *self._consider_end(now)]
        return [self._report(now)]

    # ---- what becomes of streams here

    def progressed(self, state: StreamState) -> None:
        """How far a stream is; the next report says so."""
        self._streams.progressed(state)

    def refused(self, stream: int, now: float) -> list[SessionAct]:
        """The broker does not let us have it: the leader is to know. Trying again is up to the caller."""
        return self._note(stream, now, refused=True)

    def opened(self, stream: int, now: float) -> list[SessionAct]:
        """The broker lets us have it."""
        return self._note(stream, now, refused=False)

    def released(self, stream: int, now: float) -> list[SessionAct]:
        """Nothing of it is here any more, and the broker may give it to others."""
        return self.released_each((stream,), now)

    def released_each(self, streams: Iterable[int], now: float) -> list[SessionAct]:
        """The same of many at once, which one report tells of."""
        gone = self._streams.released(streams)
        acts: list[SessionAct] = [*self._streams.open_leased()] if gone else []  # these too, if leased again meanwhile
        if self._streams.leased.issuperset(gone):
            return acts
        if self.state in (State.REPLAYING, State.UPDATING):
            acts.append(self._report(now))
        return acts + self._consider_end(now)

    # ---- reads

    @property
    def leased(self) -> frozenset[int]:
        """The streams that the leader gave it last."""
        return self._streams.leased

    @property
    def workers_count(self) -> int:
        """As the leader is told; 0 while it leaves."""
        return self._workers_count

    @property
    def lease_until(self) -> float:
        """When it must have stopped delivering, unless it hears of the leader before; by its own clock."""
        return self._lease_until

    @property
    def holdings(self) -> dict[int, Holding]:
        """What is here, by stream."""
        return self._streams.holdings

    def state_of(self, stream: int) -> StreamState:
        """How far a stream is, as the leader is told."""
        return self._streams.state_of(stream)

    # ---- events

    def _event(self, message: FromLeader) -> Event:
        if isinstance(message, LeaseStreams):
            return Event.LEASE
        if isinstance(message, Invalidate):
            return Event.INVALIDATE
        if isinstance(message, UpdateStreams):
            return self._update_event(message)
        return self._renew_event(message)

    def _update_event(self, message: UpdateStreams) -> Event:
        if self.state is State.UPDATING and (message.version_old, message.version) == (self.version_old, self.version):
            return Event.UPDATE_AGAIN
        if self.state is State.REPLAYING and message.version_old == self.version:
            return Event.UPDATE
        return Event.UPDATE_ODD

    def _renew_event(self, message: RenewStreamLease) -> Event:
        if message.version_old is None:
            return Event.RENEW if message.version == self.version else Event.RENEW_ODD
        pair = (message.version_old, message.version)
        fits = pair == (self.version_old, self.version) if self.state is State.UPDATING else self.version in pair
        return Event.RENEW_CHANGE if fits else Event.RENEW_CHANGE_ODD

    def _expire(self, now: float) -> list[SessionAct]:
        """See to it that nothing is done under a lease that is over, also if we slept through its end."""
        if self.state in (State.REPLAYING, State.UPDATING) and now >= self._lease_until:
            return self._happen(Event.LEASE_TIMEOUT, None, now)
        if self.state is State.CONNECTING and now >= self._find_at:
            return self._happen(Event.FIND_TIMEOUT, None, now)
        return []

    def _happen(self, event: Event, message: FromLeader | None, now: float) -> list[SessionAct]:
        action, self.state = TABLE[self.state][event]
        if message is not None and action in PROLONGING:
            self._rearm(message)
        if isinstance(message, LeaseStreams) and action is Action.ADOPT:
            self.reason = None
            forgotten = self._forget(message.streams_count, message.replays, now)
            return forgotten + self._adopt(message.version, message.streams, now)
        if isinstance(message, UpdateStreams) and action is Action.CHANGE:
            self.version_old = self.version
            forgotten = self._forget(self.streams_count, message.replays, now)
            return forgotten + self._adopt(message.version, message.streams, now)
        if action is Action.SETTLE:
            self.version_old = None
            self._streams.settle()
            return [self._report(now), *self._consider_end(now)]
        if action is Action.RESET:
            self.reason = message.reason if isinstance(message, Invalidate) else event.value
            return self._reset(now)
        if action is Action.FIND:
            return self._find(now)
        if action is Action.GOODBYE:
            return [self._goodbye()]
        return []

    # ---- actions

    def _rearm(self, message: FromLeader) -> None:
        self.leader = message.header.leader
        self._lease_s = message.header.lease_s or self._timing.lease_s
        while self._sent and self._sent[0][0] <= message.header.heard:
            beat, sent_at = self._sent.popleft()
            if beat == message.header.heard:
                self._lease_until = sent_at + self._lease_s

    def _forget(self, streams_count: int, replays: int, now: float) -> list[SessionAct]:
        """What is here means something else now, and goes at once, also if it comes back to us.

        The group is cut in another way than before: it has no number any more. Or the cursor was moved while no replica
        knew of us: what comes again is to be delivered again.
        """
        if (streams_count, replays) == (self.streams_count, self.replays):
            return []
        self.streams_count, self.replays = streams_count, replays
        return [*self._streams.forget(now)]

    def _adopt(self, version: Version, streams: Iterable[int], now: float) -> list[SessionAct]:
        self.version = version
        return [*self._streams.adopt(streams, now), self._report(now)]

    def _reset(self, now: float) -> list[SessionAct]:
        self.version = self.version_old = None
        acts: list[SessionAct] = [*self._streams.hold_all()]
        if self._streams.leaving:
            acts += [*self._streams.release_all(now), *self._consider_end(now)]
        return acts if self.state is State.DISCONNECTED else acts + self._find(now)

    def _find(self, now: float) -> list[SessionAct]:
        self._find_at = now + self._timing.find_leader_s
        return [Send(FindLeader(self._said(now), self._streams.held()))]

    def _tear(self, now: float) -> list[SessionAct]:
        """Leave, regardless of unacknowledged messages."""
        acts = self._streams.tear(now)
        return [*acts, *self._happen(Event.GONE, None, now)]

    def _consider_end(self, now: float) -> list[SessionAct]:
        if not self._streams.leaving or not self._streams.empty or self.state is State.UPDATING:
            return []
        return self._happen(Event.GONE, None, now)

    # ---- what is said

    def _said(self, now: float) -> Report:
        self._beat += 1
        while self._sent and self._sent[0][1] + self._lease_s <= now:
            self._sent.popleft()
        self._sent.append((self._beat, now))
        self._report_at = now + self._timing.heartbeat_s
        return Report(
            self.group, self.session, self._beat, self._workers_count, self.leads_count, self.replays, self.address
        )

    def _report(self, now: float) -> Send:
        assert self.version is not None
        return Send(UpdateStreamStates(self._said(now), self.version, self._streams.reported(), self.version_old))

    def _goodbye(self) -> Send:
        self._beat += 1
        report = Report(self.group, self.session, self._beat, 0, replays=self.replays)
        return Send(Disconnect(report, self._streams.finished()))

    def _note(self, stream: int, now: float, *, refused: bool) -> list[SessionAct]:
        news = self._streams.note(stream, refused=refused)
        return [self._report(now)] if news and self.state in (State.REPLAYING, State.UPDATING) else []
