"""A session and a leader by hand: what is said to them, and what they do, in few words."""

from __future__ import annotations

from dataclasses import replace

from proxy.groups.held_streams import Hold, Holding, Open, Release
from proxy.groups.leader import GroupLeader, LeaderAct, Store
from proxy.groups.leader_messages import Announce, Tell
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import (
    Disconnect,
    FindLeader,
    FromLeader,
    FromSession,
    Header,
    Invalidate,
    LeaderBegan,
    LeaseStreams,
    RenewStreamLease,
    ReplayDone,
    ReplayTarget,
    ReplayWanted,
    ReplicaSilent,
    Report,
    SessionId,
    Stamp,
    UpdateStreams,
    UpdateStreamStates,
    Version,
)
from proxy.groups.replay import Answer, Reposition
from proxy.groups.session import GroupSession, Send, SessionAct
from proxy.groups.session_transitions import State
from proxy.groups.streams import GroupId, StreamState
from proxy.groups.timing import GroupTiming

GROUP = GroupId("persistent://public/default/orders", "billing")
TIMING = GroupTiming()
ALICE, BOB, CAROL = SessionId("a", 1), SessionId("b", 1), SessionId("c", 1)


def version(number: int, epoch: int = 1) -> Version:
    """Of epoch 1 unless said otherwise."""
    return Version(epoch, number)


def deliverable(session: GroupSession, stream: int, now: float) -> bool:
    """Whether a message of that stream may go to a worker now, by what the session says of itself."""
    leased = session.state in (State.REPLAYING, State.UPDATING) and now < session.lease_until
    return leased and session.holdings.get(stream) is Holding.OPEN


class SessionRig:
    """One session, and a leader that says whatever the test wants."""

    def __init__(self, workers_count: int = 1) -> None:
        self.now = 100.0
        self.session = GroupSession(GROUP, ALICE, TIMING, workers_count, self.now)
        self.stamps = 0
        self.said: list[FromSession] = []
        self.deeds: list[str] = []
        self.take(self.session.start(self.now))

    def take(self, acts: list[SessionAct]) -> None:
        """Note what it does."""
        for act in acts:
            if isinstance(act, Send):
                self.said.append(act.message)
            elif isinstance(act, Release):
                self.deeds.append(f"release {act.stream}")
            else:
                assert isinstance(act, (Open, Hold))
                self.deeds.append(f"{type(act).__name__.lower()} {act.stream}")

    def done(self) -> list[str]:
        """Deeds since the last look."""
        deeds, self.deeds = self.deeds, []
        return deeds

    def heard(self) -> list[str]:
        """Kinds of what it said since the last look."""
        said, self.said = self.said, []
        return [type(message).__name__ for message in said]

    @property
    def beat(self) -> int:
        """Of what it said last."""
        return self.said[-1].report.beat if self.said else self.session._beat

    def header(self, *, epoch: int = 1, stamp: int | None = None, heard: int | None = None) -> Header:
        """Of the leader's next message, which has heard everything."""
        self.stamps += 1
        number = self.stamps if stamp is None else stamp
        return Header(GROUP, ALICE, "b", Stamp(epoch, number), self.beat if heard is None else heard)

    def hear(self, message: FromLeader) -> list[str]:
        """Let it hear the leader, and give what it does."""
        self.take(self.session.receive(message, self.now))
        return self.done()

    def lease(self, number: int, *streams: int, epoch: int = 1) -> list[str]:
        """LEASE_STREAMS."""
        return self.hear(LeaseStreams(self.header(epoch=epoch), version(number, epoch), streams, 16))

    def update(self, old: int, new: int, *streams: int, epoch: int = 1) -> list[str]:
        """UPDATE_STREAMS."""
        return self.hear(UpdateStreams(self.header(epoch=epoch), version(old, epoch), version(new, epoch), streams))

    def renew(self, number: int, old: int | None = None, *, epoch: int = 1) -> list[str]:
        """RENEW_STREAM_LEASE in both forms."""
        before = None if old is None else version(old, epoch)
        return self.hear(RenewStreamLease(self.header(epoch=epoch), version(number, epoch), before))

    def began(self, epoch: int) -> list[str]:
        """Another leader, told to all."""
        self.take(self.session.began(LeaderBegan(GROUP, "another", epoch), self.now))
        return self.done()

    def invalidate(self) -> list[str]:
        """INVALIDATE."""
        return self.hear(Invalidate(self.header(), "a test"))

    def wait(self, seconds: float) -> list[str]:
        """Time goes by, with a tick at its end."""
        self.now += seconds
        self.take(self.session.tick(self.now))
        return self.done()

    def released(self, stream: int) -> list[str]:
        """Its data plane is done with a stream."""
        self.take(self.session.released(stream, self.now))
        return self.done()


class LeaderRig:
    """A leader, and sessions that say whatever the test wants."""

    def __init__(self, streams_count: int = 4, memory: GroupMemory | None = None, epoch: int = 1) -> None:
        self.now = 100.0
        first = replace(memory or GroupMemory(), epoch=epoch, leader="leader", streams_count=streams_count)
        self.leader = GroupLeader(GROUP, first, TIMING, self.now, self.now)
        self.beats = 0
        self.workers_count = 1
        self.unstored: list[Store] = []
        self.auto = True
        """Whether records are stored at once."""
        self.told: list[FromLeader] = []
        self.announced: list[int] = []
        """Epochs, each time."""
        self.successors: list[str] = []
        self.silent: list[str] = []
        """Replicas of which nothing was heard, each time that it was said."""
        self.leads: dict[str, int] = {}
        """How many groups replicas lead, as they report."""
        self.repositions: list[ReplayTarget] = []
        self.answers: list[ReplayDone] = []

    def take(self, acts: list[LeaderAct]) -> None:
        """Note what it does, and store what is to be stored."""
        for act in acts:
            if isinstance(act, Tell):
                self.told.append(act.message)
            elif isinstance(act, Announce):
                if isinstance(act.message, LeaderBegan):
                    self.announced.append(act.message.epoch)
                elif isinstance(act.message, ReplicaSilent):
                    self.silent.append(act.message.replica)
                else:
                    self.successors.append(act.message.successor)
            elif isinstance(act, Reposition):
                self.repositions.append(act.target)
            elif isinstance(act, Answer):
                self.answers.append(act.message)
            else:
                self.unstored.append(act)
                if self.auto:
                    self.store()

    def replay(self, number: int, target: ReplayTarget, asker: str = "a") -> list[tuple[str, ...]]:
        """A replica wants a replay."""
        self.take(self.leader.want_replay(ReplayWanted(GROUP, asker, number, target), self.now))
        return self.says()

    def repositioned(self, problem: str | None = None) -> list[tuple[str, ...]]:
        """The cursor was moved, or not."""
        self.take(self.leader.repositioned(problem, self.now))
        return self.says()

    def settled(self) -> bool:
        """Whether it may go."""
        return self.leader.settled

    def store(self) -> None:
        """The record is in the topic."""
        self.unstored.pop()
        self.take(self.leader.stored(self.now))

    def says(self) -> list[tuple[str, ...]]:
        """What it told since the last look: kind, session's replica, and what it is about."""
        told, self.told = self.told, []
        return [_words(message) for message in told]

    def report(self, session: SessionId, beat: int | None = None) -> Report:
        """Of a session's next message."""
        self.beats += 1
        leads_count = self.leads.get(session.replica, 0)
        return Report(GROUP, session, self.beats if beat is None else beat, self.workers_count, leads_count)

    def hear(self, message: FromSession) -> list[tuple[str, ...]]:
        """Let it hear a session."""
        self.take(self.leader.receive(message, self.now))
        return self.says()

    def find(self, session: SessionId, *held: int) -> list[tuple[str, ...]]:
        """FIND_LEADER."""
        return self.hear(FindLeader(self.report(session), tuple(StreamState(stream) for stream in held)))

    def states(
        self, session: SessionId, number: int, *states: StreamState, old: int | None = None
    ) -> list[tuple[str, ...]]:
        """UPDATE_STREAM_STATES in both forms."""
        epoch = self.leader.epoch
        before = None if old is None else version(old, epoch)
        return self.hear(UpdateStreamStates(self.report(session), version(number, epoch), states, before))

    def disconnect(self, session: SessionId) -> list[tuple[str, ...]]:
        """DISCONNECT."""
        return self.hear(Disconnect(self.report(session), ()))

    def wait(self, seconds: float) -> list[tuple[str, ...]]:
        """Time goes by, with a tick at its end."""
        self.now += seconds
        self.take(self.leader.tick(self.now))
        return self.says()

    def sleep(self, until: float, *heard: SessionId) -> None:
        """Time goes by; it does something only when it asked to be woken, and hears these whenever it is."""
        while (due := self.leader.due()) <= until:
            assert due >= self.now
            self.now = due
            for session in heard:
                self.report_as_told(session)
            self.take(self.leader.tick(self.now))
        self.now = until

    def report_as_told(self, session: SessionId) -> None:
        """It has what it was told to have, and gives nothing back."""
        (changing,) = [each.changing for each in self.leader.sessions if each.session == session]
        if changing:
            self.confirm(session)
        else:
            self.states(session, self.number(session))

    def joined(self, session: SessionId, *held: int) -> int:
        """Let a session join and confirm; the number of its version."""
        self.find(session, *held)
        number = self.number(session)
        self.states(session, number)
        return number

    def old(self, session: SessionId) -> int:
        """Number of the version before the change that it was told last."""
        (found,) = [each.version_old for each in self.leader.sessions if each.session == session]
        assert found is not None
        return found.number

    def confirm(self, session: SessionId, *given_back: int) -> list[tuple[str, ...]]:
        """Let a session finish a change, and replay."""
        finished = [StreamState(stream, finished=True) for stream in given_back]
        said = self.states(session, self.number(session), *finished, old=self.old(session))
        return said + self.states(session, self.number(session))

    def number(self, session: SessionId) -> int:
        """Of the last version of a session."""
        (found,) = [each.version for each in self.leader.sessions if each.session == session]
        assert found is not None
        return found.number


def _words(message: FromLeader) -> tuple[str, ...]:
    session = message.header.session.replica
    if isinstance(message, LeaseStreams):
        return ("lease", session, *map(str, message.streams))
    if isinstance(message, UpdateStreams):
        return ("update", session, *map(str, message.streams))
    if isinstance(message, RenewStreamLease):
        return ("renew", session) if message.version_old is None else ("renew change", session)
    return ("invalidate", session)
