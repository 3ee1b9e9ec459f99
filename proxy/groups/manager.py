"""Finds the group's leader, or becomes it: what a replica does for one group besides its own session.

Problem: exactly one leader, without a separate store or consensus. Rule: the replica that holds the producer that
waits for exclusive access to the group's topic leads, once it has read the topic to its end and its own first record,
with a greater epoch than any before, is stored. It stops in the moment in which it hears that it has lost the producer.

A leader that stands still is not told that another has taken its producer away. So one that has done nothing for as
long as another waits with that, or hears of a later epoch, leads no more: it would speak of owners that are none.
What follows a later epoch is a broker that lets two lead: when the earlier one closes its producer, the broker takes
that for the exclusive one and promotes who waits, and again two lead (seen on 4.2.4: 625 leaders in 70 s). So it stands
back before it waits again: each round has one candidate fewer, and the last leaves one leader.

Every replica with a session waits for the producer, so that the next leader is a running replica. A session that looks
for the leader asks every replica, and the leader answers.

Source: EIP-0028, "General Idea" (SGLM); design section 5.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from proxy.groups.bundles import is_deployment
from proxy.groups.leader import GroupLeader, LeaderAct, Store
from proxy.groups.leader_messages import Announce
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import LeaderBegan

if TYPE_CHECKING:
    from proxy.groups.kept_orders import KeptOrders
    from proxy.groups.messages import FromSession, OfReach, ReplayWanted
    from proxy.groups.streams import GroupId
    from proxy.groups.timing import GroupTiming


class State(Enum):
    """Of a replica, in one group."""

    OUT = "out"
    """It has nothing to do with the group."""
    CANDIDATE = "candidate"
    """It waits for the producer."""
    READING = "reading"
    """It has the producer, and reads what the group remembers."""
    CLAIMING = "claiming"
    """Its first record is on its way to the topic."""
    LEADING = "leading"
    RETIRING = "retiring"
    """It leads until what its replica had is others', and that is in the topic."""


class Event(Enum):
    """What may happen to it."""

    WANTED = "a session of this replica begins"
    UNWANTED = "the session of this replica has ended"
    GRANTED = "the producer is granted"
    READ = "the topic is read"
    STORED = "the record is stored"
    LOST = "the producer is lost"
    IDLE = "no session for long"
    SETTLED = "all is handed over, or it took too long"
    SUCCEEDED = "another is to lead"
    STOOD_STILL = "it stood still"
    OVERTAKEN = "a later leader is heard of"


class Action(Enum):
    """What is done in a transition."""

    IGNORE = "ignore"
    CONTEND = "ask for the producer"
    READ = "read the topic"
    CLAIM = "store the first record"
    LEAD = "begin to lead"
    GO_ON = "tell the leader"
    RETIRE = "let the leader hand over"
    STOP = "close the producer"
    STOP_AND_CONTEND = "throw the leader away; ask for the producer"
    STOP_AND_CONTEND_LATER = "throw the leader away; ask for the producer in a while"


class Transition(NamedTuple):
    """What an event leads to."""

    action: Action
    state: State


def _stay(state: State) -> Transition:
    return Transition(Action.IGNORE, state)


_STOP: Final = Transition(Action.STOP, State.OUT)
_AGAIN: Final = Transition(Action.STOP_AND_CONTEND, State.CANDIDATE)
_AGAIN_LATER: Final = Transition(Action.STOP_AND_CONTEND_LATER, State.CANDIDATE)

TABLE: Final[dict[State, dict[Event, Transition]]] = {
    State.OUT: {
        Event.WANTED: Transition(Action.CONTEND, State.CANDIDATE),
        Event.UNWANTED: _stay(State.OUT),
        # It came after we had given up.
        Event.GRANTED: _STOP,
        Event.READ: _stay(State.OUT),
        Event.STORED: _stay(State.OUT),
        Event.LOST: _stay(State.OUT),
        Event.IDLE: _stay(State.OUT),
        Event.SETTLED: _stay(State.OUT),
        Event.SUCCEEDED: _stay(State.OUT),
        Event.STOOD_STILL: _stay(State.OUT),
        Event.OVERTAKEN: _stay(State.OUT),
    },
    State.CANDIDATE: {
        Event.WANTED: _stay(State.CANDIDATE),
        Event.UNWANTED: _STOP,
        Event.GRANTED: Transition(Action.READ, State.READING),
        Event.READ: _stay(State.CANDIDATE),
        Event.STORED: _stay(State.CANDIDATE),
        Event.LOST: Transition(Action.CONTEND, State.CANDIDATE),
        Event.IDLE: _stay(State.CANDIDATE),
        Event.SETTLED: _stay(State.CANDIDATE),
        Event.SUCCEEDED: _AGAIN,
        Event.STOOD_STILL: _stay(State.CANDIDATE),
        Event.OVERTAKEN: _stay(State.CANDIDATE),
    },
    State.READING: {
        Event.WANTED: _stay(State.READING),
        Event.UNWANTED: _STOP,
        Event.GRANTED: _stay(State.READING),
        Event.READ: Transition(Action.CLAIM, State.CLAIMING),
        Event.STORED: _stay(State.READING),
        Event.LOST: _AGAIN,
        Event.IDLE: _stay(State.READING),
        Event.SETTLED: _stay(State.READING),
        Event.SUCCEEDED: _stay(State.READING),
        Event.STOOD_STILL: _stay(State.READING),
        Event.OVERTAKEN: _stay(State.READING),
    },
    State.CLAIMING: {
        Event.WANTED: _stay(State.CLAIMING),
        Event.UNWANTED: _STOP,
        Event.GRANTED: _stay(State.CLAIMING),
        Event.READ: _stay(State.CLAIMING),
        Event.STORED: Transition(Action.LEAD, State.LEADING),
        Event.LOST: _AGAIN,
        Event.IDLE: _stay(State.CLAIMING),
        Event.SETTLED: _stay(State.CLAIMING),
        Event.SUCCEEDED: _stay(State.CLAIMING),
        Event.STOOD_STILL: _stay(State.CLAIMING),
        Event.OVERTAKEN: _stay(State.CLAIMING),
    },
    State.LEADING: {
        Event.WANTED: _stay(State.LEADING),
        Event.UNWANTED: Transition(Action.RETIRE, State.RETIRING),
        Event.GRANTED: _stay(State.LEADING),
        Event.READ: _stay(State.LEADING),
        Event.STORED: Transition(Action.GO_ON, State.LEADING),
        Event.LOST: _AGAIN,
        # With a session here that it does not hear of, another may be luckier.
        Event.IDLE: _AGAIN,
        Event.SETTLED: _stay(State.LEADING),
        Event.SUCCEEDED: _AGAIN,
        Event.STOOD_STILL: _AGAIN,
        Event.OVERTAKEN: _AGAIN_LATER,
    },
    State.RETIRING: {
        Event.WANTED: _stay(State.RETIRING),
        Event.UNWANTED: _stay(State.RETIRING),
        Event.GRANTED: _stay(State.RETIRING),
        Event.READ: _stay(State.RETIRING),
        Event.STORED: Transition(Action.GO_ON, State.RETIRING),
        Event.LOST: _STOP,
        Event.IDLE: _STOP,
        Event.SETTLED: _STOP,
        Event.SUCCEEDED: _stay(State.RETIRING),
        Event.STOOD_STILL: _STOP,
        Event.OVERTAKEN: _STOP,
    },
}


class Errand(Enum):
    """What is to be done for the manager, besides what a leader wants."""

    CONTEND = "contend"
    """Ask for the producer, waiting for it; then say `granted`, or `lost` when it cannot be had."""
    CONTEND_LATER = "contend later"
    """The same in a while: meanwhile others have their turn."""
    READ = "read"
    """Read the group's topic to its end; then say `read`."""
    CLOSE = "close"
    """Close the producer, or stop waiting for it."""
    REMOVE = "remove"
    """Remove the group's topic, which no replica needs any more, and close the producer."""


ManagerAct: TypeAlias = Errand | LeaderAct
_AFTER_STOP: Final[dict[Action, list[Errand]]] = {
    Action.STOP: [],
    Action.STOP_AND_CONTEND: [Errand.CONTEND],
    Action.STOP_AND_CONTEND_LATER: [Errand.CONTEND_LATER],
}


class LeaderManager:
    """Of one group on one replica. Every method that takes `now` returns what is to be done, in order."""

    def __init__(self, group: GroupId, replica: str, streams_count: int, timing: GroupTiming) -> None:
        """No session of this replica is in the group yet."""
        self.group = group
        self.state = State.OUT
        self.leader: GroupLeader | None = None
        """While it leads."""
        self._replica = replica
        self._streams_count = streams_count
        self._timing = timing
        self._granted_at = self._retired_until = 0.0
        self._announce_at = self._announce_until = 0.0
        """It says again that it leads: who has not heard goes on under the leader before, if that lives."""
        self._ran_at = 0.0
        """When the leader here did something last."""
        self._memory = GroupMemory()

    # ---- this replica

    def want(self, now: float) -> list[ManagerAct]:
        """A session of this replica begins."""
        return self._happen(Event.WANTED, now)

    def unwant(self, now: float) -> list[ManagerAct]:
        """The session of this replica has ended, and the leader has heard so: `OUT` is reached, perhaps later."""
        return self._happen(Event.UNWANTED, now)

    # ---- the group's topic

    def granted(self, now: float) -> list[ManagerAct]:
        """This replica holds the producer."""
        if self.state is State.CANDIDATE:
            self._granted_at = now
        return self._happen(Event.GRANTED, now)

    def read(self, memory: GroupMemory, now: float) -> list[ManagerAct]:
        """All records of the topic, read after this replica got the producer."""
        if self.state is State.READING:
            self._memory = memory
        return self._happen(Event.READ, now)

    def stored(self, now: float) -> list[ManagerAct]:
        """The last record is in the topic."""
        if self.state in (State.LEADING, State.RETIRING):
            acts = self._wake(now)
            if self.leader is None:
                return acts
        return self._happen(Event.STORED, now)

    def lost(self, now: float) -> list[ManagerAct]:
        """This replica no longer holds the producer, or a record could not be stored."""
        return self._happen(Event.LOST, now)

    def let_lead(self, replica: str, now: float) -> list[ManagerAct]:
        """A leader wants this one to lead next: who waits before it waits behind it from now on."""
        waits_too = self.state is State.CANDIDATE and replica != self._replica
        return self._happen(Event.SUCCEEDED, now) if waits_too else []

    def began(self, epoch: int, now: float) -> list[ManagerAct]:
        """Some replica leads since, with this epoch."""
        overtaken = self.leader is not None and epoch > self.leader.epoch
        return self._happen(Event.OVERTAKEN, now) if overtaken else []

    # ---- the leader

    def receive(self, message: FromSession, now: float) -> list[ManagerAct]:
        """Hear a session, from wherever; who does not lead cannot answer: the session asks again."""
        acts = self._wake(now)
        if self.leader is None:
            return acts
        return [*self.leader.receive(message, now), *self._retired(now)]

    def want_replay(self, wanted: ReplayWanted, now: float) -> list[ManagerAct]:
        """A replica asks the leader for a replay."""
        acts = self._wake(now)
        return acts if self.leader is None else [*self.leader.want_replay(wanted, now)]

    def keep_orders(self, orders: KeptOrders, now: float) -> list[ManagerAct]:
        """A replica wants orders to be kept; it asks again until they are."""
        acts = self._wake(now)
        return acts if self.leader is None else [*self.leader.keep_orders(orders, now)]

    def hear_reach(self, message: OfReach, now: float) -> list[ManagerAct]:
        """A replica says whom it reaches, for workers that wait."""
        acts = self._wake(now)
        return acts if self.leader is None else [*self.leader.hear_reach(message, now)]

    def repositioned(self, problem: str | None, now: float) -> list[ManagerAct]:
        """The cursor was moved, or could not be; ignored if this replica has stopped leading."""
        acts = self._wake(now)
        return acts if self.leader is None else [*self.leader.repositioned(problem, now)]

    def tick(self, now: float) -> list[ManagerAct]:
        """Do what is due; to be called when `due` says so, or later."""
        acts = self._wake(now)
        if self.leader is None:
            return acts
        if self.leader.idle(now):
            return self._happen(Event.IDLE, now)
        if self.leader.succeeded(now):
            return self._happen(Event.SUCCEEDED, now)
        return [*self._announced_again(now), *self.leader.tick(now), *self._retired(now)]

    def due(self) -> float | None:
        """When `tick` is to be called next; None if never."""
        if self.leader is None:
            return None
        due = self.leader.due()
        if self._announce_at <= self._announce_until:
            due = min(due, self._announce_at)
        return min(due, self._retired_until) if self.state is State.RETIRING else due

    # ---- within

    def _wake(self, now: float) -> list[ManagerAct]:
        """Before the leader does anything."""
        if self.leader is None:
            return []
        stood_still = now - self._ran_at > self._timing.silent_s
        self._ran_at = now
        return self._happen(Event.STOOD_STILL, now) if stood_still else []

    def _announced_again(self, now: float) -> list[ManagerAct]:
        if self.leader is None or not self._announce_at <= min(now, self._announce_until):
            return []
        self._announce_at = now + self._timing.renew_s
        return [Announce(LeaderBegan(self.group, self._replica, self.leader.epoch))]

    def _happen(self, event: Event, now: float) -> list[ManagerAct]:
        action, self.state = TABLE[self.state][event]
        if action is Action.CONTEND:
            return [Errand.CONTEND]
        if action is Action.READ:
            return [Errand.READ]
        if action is Action.CLAIM:
            return [self._claim()]
        if action is Action.LEAD:
            self.leader = GroupLeader(self.group, self._memory, self._timing, self._granted_at, now)
            self._ran_at = now
            self._announce_at, self._announce_until = now + self._timing.renew_s, now + self._timing.drop_s
            return [*self.leader.tick(now)]
        if action is Action.GO_ON:
            assert self.leader is not None
            return [*self.leader.stored(now), *self._retired(now)]
        if action is Action.RETIRE:
            assert self.leader is not None
            self._retired_until = now + self._timing.retire_s
            return [*self.leader.retire(now), *self._retired(now)]
        if action in _AFTER_STOP:
            ended = event is Event.SETTLED and self.leader is not None and self.leader.ended
            self.leader = None
            self._memory = GroupMemory()
            if ended and not is_deployment(self.group):  # which comes back, with all that it knows of operators' orders
                return [Errand.REMOVE]
            return [Errand.CLOSE, *_AFTER_STOP[action]]
        return []

    def _claim(self) -> Store:
        before = self._memory
        cut = before.cut(self._streams_count)
        had = before.had if cut == before.streams_count else ()  # of another cut, streams are others
        self._memory = replace(
            before, epoch=before.epoch + 1, leader=self._replica, number=0, streams_count=cut, had=had
        )
        return Store(self._memory)

    def _retired(self, now: float) -> list[ManagerAct]:
        """Go, if it may."""
        if self.state is not State.RETIRING or self.leader is None:
            return []
        over = self.leader.settled or now >= self._retired_until
        return self._happen(Event.SETTLED, now) if over else []
