"""The leader of a group: it alone assigns streams to sessions, and has the progress of the whole group.

Problem: streams move between sessions while messages are lost and members stop, pause or return, and a new leader knows
only the records of the group's topic. Rules: a stream has at most one owner, which keeps it until it has given it back,
has left, or has certainly stopped; a set of streams is stored in the topic before it is announced; each session has one
change at a time. A stream whose session may still be running is *reserved*: it goes back to that session if it asks in
time, and to any session later. A session does not continue a stream that another session had in between: it discards
its state, and gets the stream like any other session.

`GroupLeader` is the only one that changes owners. When its producer is lost it is discarded.

Source: EIP-0028, "General Idea"; facts 1.4 and 1.6 for what the text leaves out.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from proxy.groups import balance
from proxy.groups.kept_orders import OrdersKept
from proxy.groups.leader_session import TABLE, Action, Event, LeaderSession, State
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import (
    Disconnect,
    FindLeader,
    FromLeader,
    FromSession,
    Header,
    Invalidate,
    LeaderBegan,
    LeaderRetires,
    LeaseStreams,
    RenewStreamLease,
    ReplayWanted,
    ReplicaSilent,
    Report,
    SessionId,
    Stamp,
    UpdateStreams,
    UpdateStreamStates,
    Version,
)
from proxy.groups.replay import Answer, GroupReplay, ReplayAct, Reposition
from proxy.groups.succession import successor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.groups.kept_orders import KeptOrders
    from proxy.groups.streams import GroupId, StreamState
    from proxy.groups.timing import GroupTiming


@dataclass(frozen=True, slots=True)
class Tell:
    """Let this reach the session that it names."""

    message: FromLeader


@dataclass(frozen=True, slots=True)
class Store:
    """Write this to the group's topic, then say `stored`. There is one at a time."""

    record: GroupMemory


@dataclass(frozen=True, slots=True)
class Announce:
    """Let this reach all replicas."""

    message: LeaderBegan | LeaderRetires | ReplicaSilent


LeaderAct: TypeAlias = Tell | Store | Announce | ReplayAct


@dataclass(frozen=True, slots=True)
class _Reservation:
    session: SessionId
    until: float


class GroupLeader:
    """Every method that takes `now` returns what is to be done because of it, in order."""

    def __init__(self, group: GroupId, memory: GroupMemory, timing: GroupTiming, now: float) -> None:
        """Lead with a new epoch.

        Args:
            group: whose leader this is.
            memory: this leader's first record, which is in the group's topic: its epoch and replica, and what it knows
                of the leaders before.
            timing: the same for all members.
            now: this machine's clock, which never goes back.
        """
        assert memory.leader is not None
        self.group = group
        self.epoch = memory.epoch
        self.streams_count = memory.streams_count
        self._replica = memory.leader
        self._timing = timing
        self._sessions: dict[SessionId, LeaderSession] = {}
        self._owners: dict[int, SessionId] = {}
        until = now + timing.last_lease_s(memory.lease_s)
        self._reserved = {stream: _Reservation(owner, until) for stream, owner in memory.owners}
        self._had_last = dict(memory.had + memory.owners)
        """Who was the last that was given a stream, or may have been."""
        self._states = {state.stream: state for state in memory.states}
        self._states_stored = dict(self._states)
        self._addresses = dict(memory.addresses)
        self._orders = OrdersKept(memory.orders)
        self._orders_unstored = False
        self._owners_stored = memory.owners
        self._retiring = False
        self._replay = GroupReplay(timing)
        self._replays = memory.replays
        self._to_reposition: list[LeaderAct] = []
        """What is done as soon as it is stored that the cursor is about to be moved."""
        self._announced = False
        self._numbers = 0
        self._stamps = 0
        self._storing = False
        self._unstored: list[LeaderSession] = []
        """Whose sets of streams are not in the topic yet."""
        self._being_stored: list[LeaderSession] = []
        self._balance_at: float | None = None
        self._began_at = self._renew_at = now
        self._checkpoint_at = now + timing.checkpoint_s
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
        if report.address:
            self._addresses[report.session.replica] = report.address
        session = self._sessions.get(report.session)
        if session is not None and self._overdue(session, now):
            acts += self._happen(session, Event.TIMEOUT, now)
            session = None
        if isinstance(message, FindLeader):
            acts += self._find(session, message, now)
        elif session is None:
            acts = acts or [self._invalidate(report.session, report.beat, "this leader does not know it")]
        elif self._hear(session, report, now):
            acts += self._hear_known(session, message, now)
        return acts + self._work(now)

    def stored(self, now: float) -> list[LeaderAct]:
        """The record is in the topic: now its sets of streams may be told."""
        self._storing = False
        told, self._being_stored = self._being_stored, []
        acts, self._to_reposition = self._to_reposition, []
        for session in told:
            if session.state is not State.DROPPED and session not in self._unstored:
                session.stored = True
                acts.append(self._told(session))
        return acts + self._work(now)

    def tick(self, now: float) -> list[LeaderAct]:
        """Do what is due; to be called when `due` says so, or later."""
        acts: list[LeaderAct] = []
        for session in list(self._sessions.values()):
            if self._overdue(session, now):
                acts += self._happen(session, Event.TIMEOUT, now)
        self._end_reservations(now)
        if now >= self._renew_at:
            self._renew_at = now + self._timing.renew_s
            acts += self._announcement()
            acts += [renewal for session in self._sessions.values() for renewal in self._renewal(session)]
            acts += self._silent(now)
            acts += self._hand_over(now)
        return acts + self._work(now)

    def due(self) -> float:
        """When `tick` is to be called next."""
        times = (self._renew_at, self._balance_at, self._gives_way_at)
        return min(time for time in times if time is not None)

    def keep_orders(self, orders: KeptOrders, now: float) -> list[LeaderAct]:
        """Have them in the next record, unless they are there."""
        if self._orders.keep(orders):
            self._orders_unstored = True
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
            self._states.clear()
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
        return dict(self._owners)

    @property
    def sessions(self) -> tuple[LeaderSession, ...]:
        """All that are connected."""
        return tuple(self._sessions.values())

    @property
    def states(self) -> dict[int, StreamState]:
        """How far each stream is, as far as it was ever said."""
        return dict(self._states)

    @property
    def settled(self) -> bool:
        """Whether all sessions have their intended streams, and the topic has exactly that for the next leader."""
        if self._replay.under_way:
            return False
        moving = any(session.state is not State.REPLAYING for session in self._sessions.values())
        waiting = self._balance_at is not None or self._storing or self._unstored
        return not moving and not waiting and self._owners_known() == self._owners_stored

    @property
    def ended(self) -> bool:
        """Whether no session has a stream any more, nor may have one: the topic says nothing that is needed."""
        return self.settled and not self._sessions and not self._owners_stored

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
            session = LeaderSession(
                report.session, report.beat, now, now, report.workers_count, leads_count=report.leads_count
            )
            self._sessions[report.session] = session
            self._idle_since = None
        elif not self._hear(session, report, now):
            return []
        held = frozenset(state.stream for state in message.held)
        answered = held <= session.granted or held == session.held
        if session.state is State.WAITING_REPLAYING and session.version is not None and answered:
            return [self._told(session)] if session.stored else []  # the answer was lost, or is on its way
        if session.version is not None:
            self._free(session)  # it delivers nothing now, so streams that it does not have are free
        # Else the leader before may have leased it more since it said this: that stays reserved until it confirms.
        session.held = held
        self._own(session, frozenset() if self._replay.moving else self._kept(session))
        self._note(session, report, message.held)
        self._balance_soon(now)
        return self._happen(session, Event.FIND, now)

    def _hear_known(
        self, session: LeaderSession, message: UpdateStreamStates | Disconnect, now: float
    ) -> list[LeaderAct]:
        if isinstance(message, UpdateStreamStates):
            return self._hear_states(session, message, now)
        self._note(session, message.report, message.states)
        return self._happen(session, Event.DISCONNECT, now)

    def _hear_states(self, session: LeaderSession, message: UpdateStreamStates, now: float) -> list[LeaderAct]:
        event = session.event(message)
        self._note(session, message.report, message.states)
        if TABLE[session.state][event].action in (Action.RELEASE, Action.SETTLE):
            for stream in session.revoked & {state.stream for state in message.states if state.finished}:
                session.revoked.discard(stream)
                del self._owners[stream]
                self._balance_at = now
        return self._happen(session, event, now)

    def _note(self, session: LeaderSession, report: Report, states: Iterable[StreamState]) -> None:
        """Only of what it owns; and acknowledged is acknowledged, until the cursor is moved."""
        if report.replays != self._replays:
            return
        for state in states:
            if self._owners.get(state.stream) != session.session:
                continue
            before = self._states.get(state.stream, state).acknowledged
            known = [position for position in (before, state.acknowledged) if position is not None]
            self._states[state.stream] = replace(state, acknowledged=max(known, default=None), finished=False)

    # ---- transitions

    def _happen(self, session: LeaderSession, event: Event, now: float) -> list[LeaderAct]:
        before = session.state
        action, session.state = TABLE[before][event]
        if before is State.WAITING_REPLAYING and session.state is State.REPLAYING:
            session.not_replaying_since = None
            self._unreserve(session)
            self._balance_at = now if self._balance_at is None else self._balance_at
        if action is Action.LEASE:
            session.version_old = None
            session.revoked.clear()
            self._renumber(session, now)
        elif action is Action.UPDATE:
            session.version_old = session.version
            self._renumber(session, now)
        elif action is Action.SETTLE:
            session.version_old = None
            return self._renewal(session)
        elif action is Action.DROP:
            self._drop(session, now)
            return [self._invalidate(session.session, session.heard, event.value)]
        elif action is Action.FORGET:
            self._free(session)
            self._remove(session, now)
        return []

    def _renumber(self, session: LeaderSession, now: float) -> None:
        """A new set of streams: it is told when it is stored."""
        self._numbers += 1
        session.version = Version(self.epoch, self._numbers)
        session.stored = False
        session.not_replaying_since = now
        self._unstored.append(session)

    def _drop(self, session: LeaderSession, now: float) -> None:
        """No other session gets its streams before it has certainly stopped."""
        until = session.heard_at + self._timing.drop_s
        for stream in self._owned(session):
            del self._owners[stream]
            if until > now:
                self._reserved[stream] = _Reservation(session.session, until)
        self._remove(session, now)

    def _remove(self, session: LeaderSession, now: float) -> None:
        del self._sessions[session.session]
        self._balance_soon(now)
        if not self._sessions:
            self._idle_since = now

    # ---- owners

    def _owned(self, session: LeaderSession) -> list[int]:
        return [stream for stream, owner in self._owners.items() if owner == session.session]

    def _is_free(self, stream: int) -> bool:
        return 0 <= stream < self.streams_count and stream not in self._owners and stream not in self._reserved

    def _free(self, session: LeaderSession) -> None:
        """Nothing is its own any more, nor kept for it."""
        for stream in self._owned(session):
            del self._owners[stream]
        self._unreserve(session)
        session.granted = frozenset()

    def _unreserve(self, session: LeaderSession) -> None:
        for stream, reservation in list(self._reserved.items()):
            if reservation.session == session.session:
                del self._reserved[stream]

    def _kept(self, session: LeaderSession) -> frozenset[int]:
        """The streams that it still has and no other session can have had; they are no longer reserved."""
        mine = frozenset(stream for stream in session.held if self._had_last.get(stream) == session.session)
        for stream in mine:
            self._reserved.pop(stream, None)  # only for its last owner
        return mine

    def _own(self, session: LeaderSession, streams: frozenset[int]) -> None:
        for stream in streams:
            assert self._owners.get(stream, session.session) == session.session, "a stream has one owner"
            self._owners[stream] = self._had_last[stream] = session.session
        session.granted = streams

    def _end_reservations(self, now: float) -> None:
        for stream, reservation in list(self._reserved.items()):
            if now >= reservation.until:
                del self._reserved[stream]
                self._balance_at = now

    # ---- balance

    def _balance_soon(self, now: float) -> None:
        """Joins and leaves come in crowds: they are one change."""
        if self._balance_at is None:
            self._balance_at = now + self._timing.balance_delay_s

    def _balance(self, now: float) -> list[LeaderAct]:
        """Begin the changes that are wanted, of sessions that are not changing; the others come when they are done."""
        rates = {stream: state.rate for stream, state in self._states.items()}
        weights = {each.session: each.workers_count for each in self._sessions.values()}
        held = {each.session: len(each.granted) for each in self._sessions.values()}
        shares = dict.fromkeys(weights, 0)
        if not self._replay.under_way:
            shares = balance.quotas(weights, held, self.streams_count)
        per_worker = sum(rates.get(stream, 0.0) for stream in range(self.streams_count)) / max(sum(weights.values()), 1)
        stable = [each for each in self._sessions.values() if each.state is State.REPLAYING]
        wanted = self._orders.wanted(self.streams_count, self._taking())
        due = Counter(session for stream, session in wanted.items() if self._owners.get(stream) != session)
        # Who is to get a certain stream makes room for it, so that the others keep their shares.
        spare = {each.session: shares[each.session] - len(each.granted) - due[each.session] for each in stable}
        lacking = {session: max(count, 0) for session, count in spare.items()}
        loads = {
            each.session: sum(rates.get(stream, 0.0) for stream in each.granted) / max(each.workers_count, 1)
            for each in stable
        }
        free = [stream for stream in range(self.streams_count) if self._is_free(stream)]
        given = balance.granted([stream for stream in free if stream not in wanted], lacking, loads, rates)
        for stream in free:
            if wanted.get(stream) in given:
                given[wanted[stream]].append(stream)
        acts: list[LeaderAct] = []
        for each in stable:
            elsewhere = {stream for stream in each.granted if wanted.get(stream, each.session) != each.session}
            movable = each.granted - wanted.keys()
            surplus = min(max(-spare[each.session] - len(elsewhere), 0), len(movable))
            aim = per_worker * each.workers_count
            gone = elsewhere | set(balance.surrendered(movable, rates, surplus, aim))
            acts += self._change(each, each.granted - gone | frozenset(given[each.session]), now)
        return acts

    def _taking(self) -> dict[str, SessionId]:
        """Sessions that may be given streams, by replica."""
        sessions = () if self._replay.under_way else self._sessions.values()
        return {each.session.replica: each.session for each in sessions if each.workers_count}

    def _change(self, session: LeaderSession, streams: frozenset[int], now: float) -> list[LeaderAct]:
        if streams == session.granted:
            return []
        session.revoked = set(session.granted - streams)
        self._own(session, streams)
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
        known = self._owners_known()
        free = not known and not self._storing and not self._unstored
        had = ", ".join(sorted({owner.replica for _, owner in known})) or "the topic is being written"
        acts = self._replay.free(free=free, had=had, now=now)
        if any(isinstance(act, Answer) for act in acts):
            self._balance_at = now
        if not any(isinstance(act, Reposition) for act in acts):
            return [*acts]
        # Stored before it is done: who comes back to the next leader must not take what comes again for a repetition.
        self._replays += 1
        self._to_reposition = [*acts]
        return [self._store_all()]

    def _store(self, now: float) -> list[LeaderAct]:
        if self._storing:
            return []
        if self._unstored:
            self._being_stored, self._unstored = self._unstored, []
            return [self._store_all()]
        if self._orders_unstored or (self._retiring and self._owners_known() != self._owners_stored):
            return [self._store_all()]
        if now < self._checkpoint_at:
            return []
        self._checkpoint_at = now + self._timing.checkpoint_s
        return [] if self._states == self._states_stored else [self._store_all()]

    def _store_all(self) -> Store:
        self._storing = True
        self._states_stored = dict(self._states)
        self._owners_stored = owners = self._owners_known()
        states = tuple(state for _, state in sorted(self._states.items()))
        had = tuple(sorted(self._had_last.items() - owners))
        record = GroupMemory(
            self.epoch, self._replica, self._numbers, self.streams_count, owners, states, self._replays, had
        )
        self._orders_unstored = False
        addresses, orders = self._addresses_of(owners), self._orders.all()
        return Store(replace(record, addresses=addresses, orders=orders, lease_s=self._timing.lease_s))

    def _addresses_of(self, owners: Iterable[tuple[int, SessionId]]) -> tuple[tuple[str, str], ...]:
        """Of these and of all sessions, once for each; those that have gone are forgotten."""
        here = {session.replica for session in self._sessions} | {owner.replica for _, owner in owners}
        self._addresses = {replica: at for replica, at in self._addresses.items() if replica in here}
        return tuple(sorted(self._addresses.items()))

    def _owners_known(self) -> tuple[tuple[int, SessionId], ...]:
        """Who may have which stream, as a record says it."""
        reserved = {stream: reservation.session for stream, reservation in self._reserved.items()}
        return tuple(sorted((reserved | self._owners).items()))

    def _overdue(self, session: LeaderSession, now: float) -> bool:
        since = session.not_replaying_since
        late = since is not None and now >= since + self._timing.not_replaying_s
        return late or now >= session.heard_at + self._timing.drop_s

    def _hand_over(self, now: float) -> list[LeaderAct]:
        """Let a replica lead that leads fewer groups."""
        if self._retiring or self._gives_way_at is not None or now < self._hand_over_from:
            return []
        leads = {session.session.replica: session.leads_count for session in self._sessions.values()}
        chosen = successor(leads, self._replica, self._draws())
        if chosen is None or not self.settled:  # in this order: the one looks at sessions, the other at every stream
            return []
        self._gives_way_at = now + self._timing.give_way_s
        return [Announce(LeaderRetires(self.group, chosen))]

    def _draws(self) -> tuple[float, float]:
        """Chance that is the same whenever the same happens."""
        seed = f"{self.group} {self.epoch} {self._stamps}".encode()
        first, second = struct.unpack(">II", hashlib.blake2b(seed, digest_size=8).digest())
        return first / 2**32, second / 2**32

    # ---- what is told

    def _silent(self, now: float) -> list[LeaderAct]:
        """Replicas that have something, and say nothing: the others prepare for taking it over."""
        silent = {
            each.session.replica
            for each in self._sessions.values()
            if each.granted and now - each.heard_at >= self._timing.silent_s
        }
        if now >= self._began_at + self._timing.renew_s:  # by then those that are well have found this leader
            silent |= {each.session.replica for each in self._reserved.values() if each.session not in self._sessions}
        return [Announce(ReplicaSilent(self.group, replica)) for replica in sorted(silent)]

    def _announcement(self) -> list[LeaderAct]:
        """Once, and repeated while a session with streams may not know."""
        if self._announced and not self._reserved:
            return []
        self._announced = True
        return [Announce(LeaderBegan(self.group, self._replica, self.epoch))]

    def _told(self, session: LeaderSession) -> Tell:
        """Its set of streams."""
        assert session.version is not None
        streams = tuple(sorted(session.granted))
        header = self._header(session.session, session.heard)
        if session.version_old is None:
            return Tell(LeaseStreams(header, session.version, streams, self.streams_count, self._replays))
        return Tell(UpdateStreams(header, session.version_old, session.version, streams, self._replays))

    def _renewal(self, session: LeaderSession) -> list[LeaderAct]:
        """What it is told again and again, which is the last it was told or what goes on from there."""
        assert session.version is not None
        if session.state is State.WAITING_UPDATING and session.stored:
            return [self._told(session)]
        header = self._header(session.session, session.heard)
        if session.state is State.WAITING_UPDATING:  # the change is not sent before it is stored
            assert session.version_old is not None
            return [Tell(RenewStreamLease(header, session.version_old))]
        return [Tell(RenewStreamLease(header, session.version, session.version_old))] if session.stored else []

    def _invalidate(self, session: SessionId, heard: int, reason: str) -> Tell:
        return Tell(Invalidate(self._header(session, heard), reason))

    def _header(self, session: SessionId, heard: int) -> Header:
        self._stamps += 1
        return Header(self.group, session, self._replica, Stamp(self.epoch, self._stamps), heard, self._timing.lease_s)
