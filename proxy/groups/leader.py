"""The leader of a group: it alone assigns streams to sessions, and has the progress of the whole group.

Problem: streams move between sessions while messages are lost and members stop, pause or return, and a new leader knows
only the records of the group's topic. Rules: a stream has at most one owner, which keeps it until it has released it,
has left, or has certainly stopped; a set of streams is stored in the topic before it is announced; each session has one
change at a time. A stream whose session may still be running is *reserved*: it goes back to that session if it asks in
time, and to any session later. A session does not continue a stream that another session had in between: it discards
its state, and gets the stream like any other session.

`GroupLeader` is the only one that changes `StreamOwners`. When its producer is lost it is discarded.

Source: EIP-0028, "General Idea"; facts 1.4 and 1.6 for what the text leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from proxy.groups import balance
from proxy.groups.leader_messages import Announce, LeaderMessages, Tell
from proxy.groups.leader_record import LeaderRecord
from proxy.groups.leader_session import TABLE, Action, Event, LeaderSession, State
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import (
    Disconnect,
    FindLeader,
    FromSession,
    LeaderBegan,
    LeaderRetires,
    OfReach,
    ReplayWanted,
    ReplicaSilent,
    Report,
    SessionId,
    UpdateStreamStates,
)
from proxy.groups.reach import Reach
from proxy.groups.replay import Answer, GroupReplay, ReplayAct, Reposition
from proxy.groups.silences import Silences
from proxy.groups.stream_owners import StreamOwners
from proxy.groups.succession import draws, successor

if TYPE_CHECKING:
    from proxy.groups.kept_orders import KeptOrders
    from proxy.groups.streams import GroupId, StreamState
    from proxy.groups.timing import GroupTiming


@dataclass(frozen=True, slots=True)
class Store:
    """Write this to the group's topic, then say `stored`. There is one at a time."""

    record: GroupMemory


LeaderAct: TypeAlias = Tell | Store | Announce | ReplayAct


class GroupLeader:
    """Every method that takes `now` returns what is to be done because of it, in order."""

    def __init__(self, group: GroupId, memory: GroupMemory, timing: GroupTiming, granted_at: float, now: float) -> None:
        """Lead with a new epoch.

        Args:
            group: whose leader this is.
            memory: this leader's first record, which is in the group's topic: its epoch and replica, and what it knows
                of the leaders before.
            timing: the same for all members.
            granted_at: when this replica was given the producer: the leader before leases nothing after that.
            now: this machine's clock, which never goes back.
        """
        assert memory.leader is not None
        self.group = group
        self.epoch = memory.epoch
        self.streams_count = memory.streams_count
        self._replica = memory.leader
        self._timing = timing
        self._sessions: dict[SessionId, LeaderSession] = {}
        self._owners = StreamOwners(memory, timing.kept_until(memory.lease_s, granted_at, now))
        self._record = LeaderRecord(memory, self._owners, timing, now)
        self._retiring = False
        self._replay = GroupReplay(timing)
        self._reach = Reach()
        self._silences = Silences(timing, now)
        self._to_reposition: list[LeaderAct] = []
        """What is done as soon as it is stored that the cursor is about to be moved."""
        self._announced = False
        self._messages = LeaderMessages(group, memory.epoch, memory.leader, memory.streams_count, timing.lease_s)
        self._balance_at: float | None = None
        self._renew_at = now
        self._idle_since: float | None = now
        self._hand_over_from = now + timing.lead_s
        self._gives_way_at: float | None = None
        """When another may lead, once it was said who."""

    # ---- the outside

    def receive(self, message: FromSession, now: float) -> list[LeaderAct]:
        """Hear a session. What is not newer than its last word changes nothing.

        Who was to be dropped by now is, also if we slept through that time: nothing that was leased before counts.
        """
        acts: list[LeaderAct] = []
        report = message.report
        self._record.note_address(report)
        session = self._sessions.get(report.session)
        if session is not None and now >= session.overdue_at(self._timing):
            acts += self._happen(session, Event.TIMEOUT, now)
            session = None
        if isinstance(message, FindLeader):
            acts += self._find(session, message, now)
        elif session is None:
            acts = acts or [self._messages.invalidate(report.session, report.beat, "this leader does not know it")]
        elif self._hear(session, report, now):
            acts += self._hear_known(session, message, now)
        return acts + self._work(now)

    def stored(self, now: float) -> list[LeaderAct]:
        """The record is in the topic: now its sets of streams may be told."""
        acts, self._to_reposition = self._to_reposition, []
        acts += [self._messages.told(session, self._record.replays) for session in self._record.written(now)]
        return acts + self._work(now)

    def tick(self, now: float) -> list[LeaderAct]:
        """Do what is due; to be called when `due` says so, or later."""
        acts: list[LeaderAct] = []
        for session in list(self._sessions.values()):
            if now >= session.overdue_at(self._timing):
                acts += self._happen(session, Event.TIMEOUT, now)
        if self._owners.end_reservations(now):
            self._balance_at = now
        acts += self._silent(now)
        if now >= self._renew_at:
            self._renew_at = now + self._timing.renew_s
            acts += self._announcement()
            for session in self._sessions.values():
                acts += self._messages.renewal(session, self._record.replays)
            acts += self._hand_over(now)
        return acts + self._work(now)

    def due(self) -> float:
        """When `tick` is to be called next: also at each end of a wait that keys may stand still for."""
        times = [self._renew_at, self._balance_at, self._gives_way_at, self._owners.reservations_end_at]
        times += [session.overdue_at(self._timing) for session in self._sessions.values()]
        times += self._silences.due(self._sessions, self._owners.reserved_for)
        return min(time for time in times if time is not None)

    def keep_orders(self, orders: KeptOrders, now: float) -> list[LeaderAct]:
        """Have them in the next record, unless they are there."""
        if self._record.keep_orders(orders):
            self._balance_soon(now)
        return self._work(now)

    def hear_reach(self, said: OfReach, now: float) -> list[LeaderAct]:
        """Replicas do not reach each other: bundles may have to go where workers are served."""
        if self._reach.hear(said, self._owners.by_stream, self._taking(), now):
            self._balance_soon(now)
        return self._work(now)

    def want_replay(self, wanted: ReplayWanted, now: float) -> list[LeaderAct]:
        """Revoke all streams, let the cursor be moved, and lease everything again."""
        acts: list[LeaderAct] = [*self._replay.want(wanted, now)]
        self._balance_at = now
        return acts + self._work(now)

    def repositioned(self, problem: str | None, now: float) -> list[LeaderAct]:
        """The cursor was moved, or could not be."""
        acts: list[LeaderAct] = [*self._replay.repositioned(problem)]
        if not acts:
            return []
        if problem is None:
            self._record.repositioned()
        self._balance_at = now
        return acts + self._work(now)

    def retire(self, now: float) -> list[LeaderAct]:
        """Another is to lead as soon as `settled`: from now on every change of owners is stored."""
        self._retiring = True
        self._gives_way_at = None  # the first waiting replica leads next
        if self._balance_at is not None:
            self._balance_at = now
        return self._work(now)

    # ---- reads

    @property
    def owners(self) -> dict[int, SessionId]:
        """Who has which stream, or will be told that it has."""
        return self._owners.by_stream

    def streams_of(self, replica: str) -> list[int]:
        """What a replica has, or may still have."""
        return [stream for stream, session in self._owners.known() if session.replica == replica]

    @property
    def sessions(self) -> tuple[LeaderSession, ...]:
        """All that are connected."""
        return tuple(self._sessions.values())

    @property
    def states(self) -> dict[int, StreamState]:
        """How far each stream is, as far as it was ever said."""
        return self._record.states

    @property
    def settled(self) -> bool:
        """Whether all sessions have their intended streams, and the topic has exactly that for the next leader."""
        if self._replay.under_way:
            return False
        moving = any(session.state is not State.REPLAYING for session in self._sessions.values())
        waiting = self._balance_at is not None or self._record.under_way
        return not moving and not waiting and self._record.complete

    @property
    def ended(self) -> bool:
        """Whether no session has a stream any more, nor may have one: the topic says nothing that is needed."""
        return self.settled and not self._sessions and not self._record.needed

    def succeeded(self, now: float) -> bool:
        """Whether it has let another lead, which begins when the producer is free."""
        return self._gives_way_at is not None and now >= self._gives_way_at

    def idle(self, now: float) -> bool:
        """Whether it has been unused long enough to be removed."""
        return self._idle_since is not None and now >= self._idle_since + self._timing.idle_s

    # ---- what sessions say

    def _hear(self, session: LeaderSession, report: Report, now: float) -> bool:
        before = session.workers_count
        if not session.hear(report, now):
            return False
        if session.workers_count != before:
            self._balance_soon(now)
        return True

    def _find(self, session: LeaderSession | None, message: FindLeader, now: float) -> list[LeaderAct]:
        """Lease it the streams that it still has and no other session may have; the next balance adds the rest."""
        report = message.report
        if session is None:
            session = self._sessions[report.session] = LeaderSession.begun(report, now)
            self._idle_since = None
        elif not self._hear(session, report, now):
            return []
        held = frozenset(state.stream for state in message.held)
        answered = held <= session.granted or held == session.held
        if session.state is State.WAITING_REPLAYING and session.version is not None and answered:
            # The answer was lost, or is on its way.
            return [self._messages.told(session, self._record.replays)] if session.stored else []
        if session.version is not None:
            self._owners.free(session)  # it delivers nothing now, so streams that it does not have are free
        # Else the leader before may have leased it more since it said this: that stays reserved until it confirms.
        session.asked(held)
        self._owners.own(session, frozenset() if self._replay.moving else self._owners.kept(session))
        self._record.note(report, message.held)
        self._balance_soon(now)
        return self._happen(session, Event.FIND, now)

    def _hear_known(
        self, session: LeaderSession, message: UpdateStreamStates | Disconnect, now: float
    ) -> list[LeaderAct]:
        if isinstance(message, UpdateStreamStates):
            return self._hear_states(session, message, now)
        self._record.note(message.report, message.states)
        return self._happen(session, Event.DISCONNECT, now)

    def _hear_states(self, session: LeaderSession, message: UpdateStreamStates, now: float) -> list[LeaderAct]:
        event = session.event(message)
        self._record.note(message.report, message.states)
        if session.confirms(event):
            self._balance_soon(now)
        if TABLE[session.state][event].action in (Action.RELEASE, Action.SETTLE):
            for stream in session.revoked & {state.stream for state in message.states if state.finished}:
                session.revoked.discard(stream)
                self._owners.take_back(stream)
                self._balance_at = now
        return self._happen(session, event, now)

    # ---- transitions

    def _happen(self, session: LeaderSession, event: Event, now: float) -> list[LeaderAct]:
        before = session.state
        action, session.state = TABLE[before][event]
        if before is State.WAITING_REPLAYING and session.state is State.REPLAYING:
            session.not_replaying_since = None
            self._owners.unreserve(session)
            self._balance_at = now if self._balance_at is None else self._balance_at
        if action is Action.LEASE:
            session.version_old = None
            session.revoked.clear()
            self._record.renumber(session, now)
        elif action is Action.UPDATE:
            session.version_old = session.version
            self._record.renumber(session, now)
        elif action is Action.SETTLE:
            session.version_old = None
            return [*self._messages.renewal(session, self._record.replays)]
        elif action is Action.DROP:
            self._owners.reserve_all(session, session.heard_at + self._timing.drop_s, now, returns=not session.deaf)
            self._remove(session, now)
            return [self._messages.invalidate(session.session, session.heard, event.value)]
        elif action is Action.FORGET:
            self._owners.free(session)
            self._remove(session, now)
        return []

    def _remove(self, session: LeaderSession, now: float) -> None:
        del self._sessions[session.session]
        self._balance_soon(now)
        if not self._sessions:
            self._idle_since = now

    # ---- balance

    def _balance_soon(self, now: float) -> None:
        """Joins and leaves come in crowds: they are one change."""
        if self._balance_at is None:
            self._balance_at = now + self._timing.balance_delay_s

    def _balance(self, now: float) -> list[LeaderAct]:
        """Begin the changes that are wanted, of sessions that are not changing; the others come when they are done."""
        taking = self._taking()
        planned = balance.plan(
            self.sessions,
            self._owners.by_stream,
            self._owners.free_streams(),
            self._reach.wanted(taking, now, self._record.wanted(self.streams_count, taking)),
            {stream: state.rate for stream, state in self._record.states.items()},
            0 if self._replay.under_way else self.streams_count,
        )
        return [act for session, streams in planned for act in self._change(session, streams, now)]

    def _taking(self) -> dict[str, SessionId]:
        """Sessions that may be given streams, by replica."""
        sessions = () if self._replay.under_way else self._sessions.values()
        return {each.session.replica: each.session for each in sessions if each.workers_count and each.confirmed}

    def _change(self, session: LeaderSession, streams: frozenset[int], now: float) -> list[LeaderAct]:
        if streams == session.granted:
            return []
        session.revoked = set(session.granted - streams)
        self._owners.own(session, streams)
        return self._happen(session, Event.REBALANCE, now)

    # ---- what is due

    def _work(self, now: float) -> list[LeaderAct]:
        acts: list[LeaderAct] = []
        if self._balance_at is not None and now >= self._balance_at:
            self._balance_at = None
            acts += self._balance(now)
        return acts + self._store(now) + self._go_on_with_replay(now)

    def _go_on_with_replay(self, now: float) -> list[LeaderAct]:
        if not self._replay.under_way:
            return []
        known = self._owners.known()
        free = not known and not self._record.under_way
        had = ", ".join(sorted({owner.replica for _, owner in known})) or "the topic is being written"
        acts = self._replay.free(free=free, had=had, now=now)
        if any(isinstance(act, Answer) for act in acts):
            self._balance_at = now
        if not any(isinstance(act, Reposition) for act in acts):
            return [*acts]
        self._to_reposition = [*acts]
        return [Store(self._record.before_reposition(self._replicas()))]

    def _store(self, now: float) -> list[LeaderAct]:
        record = self._record.due(self._replicas(), now, retiring=self._retiring)
        return [] if record is None else [Store(record)]

    def _replicas(self) -> set[str]:
        return {session.replica for session in self._sessions}

    def _hand_over(self, now: float) -> list[LeaderAct]:
        """Let a replica lead that leads fewer groups."""
        if self._retiring or self._gives_way_at is not None or now < self._hand_over_from:
            return []
        leads = {session.session.replica: session.leads_count for session in self._sessions.values()}
        chosen = successor(leads, self._replica, draws(f"{self.group} {self.epoch} {self._messages.stamps}"))
        if chosen is None or not self.settled:  # in this order: the one looks at sessions, the other at every stream
            return []
        self._gives_way_at = now + self._timing.give_way_s
        return [Announce(LeaderRetires(self.group, chosen))]

    # ---- what is told

    def _silent(self, now: float) -> list[LeaderAct]:
        found = self._silences.look(self._sessions, self._owners.reserved_for, now, again=now >= self._renew_at)
        return [Announce(ReplicaSilent(self.group, replica)) for replica in found]

    def _announcement(self) -> list[LeaderAct]:
        """Once, and repeated while a session with streams may not know."""
        if self._announced and not self._owners.reserved_for:
            return []
        self._announced = True
        return [Announce(LeaderBegan(self.group, self._replica, self.epoch))]
