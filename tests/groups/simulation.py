"""Whole groups, simulated: replicas that join, leave, crash, stop and are cut off, over a network that loses messages.

Everything that replicas do is the product's own code but the data plane, which is a model of a few lines: it opens,
delivers, drains and closes as it is told, and as slowly as chance wants. Every replica has a clock of its own. Judged
is what workers got and what was told, from outside (`Judge`); a seed decides everything.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proxy.groups.encoding import decode_message
from proxy.groups.leader import GroupLeader
from proxy.groups.manager import LeaderManager
from proxy.groups.manager import State as ManagerState
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import (
    FromLeader,
    FromSession,
    KeepOrders,
    LeaderBegan,
    LeaderRetires,
    LeaseStreams,
    OfLeaders,
    OfReach,
    OfReplay,
    ReplayTarget,
    ReplicaSilent,
    SessionId,
    UpdateStreams,
    Version,
)
from proxy.groups.session import GroupSession
from proxy.groups.session_transitions import State
from proxy.groups.streams import GroupId, StreamState
from proxy.groups.timing import GroupTiming
from proxy.net.group.member import GroupMember, Leading
from proxy.net.group.members import GroupMembers
from proxy.net.group.replays import GroupReplays
from tests.groups.model_pulsar import ModelGroupTopic, ModelStream
from tests.groups.rig import deliverable

GROUP = GroupId("persistent://public/default/orders", "billing")
OPEN_AGAIN_S = 0.3
CANDIDATE = ManagerState.CANDIDATE
PREFETCH = 4
"""Messages of a stream that a replica has ahead of its workers: what must not be delivered when the lease is over."""


@dataclass(frozen=True)
class Chances:
    """How rough a run is."""

    loss: float = 0.0
    """Of each message between members."""
    twice: float = 0.0
    delay_s_max: float = 0.02
    late: float = 0.0
    """How often a message is very late."""
    late_s_max: float = 10.0
    work_s_max: float = 0.3
    """How long a worker has a message."""


@dataclass
class Line:
    """One stream in a replica's data plane."""

    wanted: bool = False
    free: bool = False
    """Whether it may be delivered, as long as leases last."""
    open: bool = False
    opening: bool = False
    deadline: float = 0.0
    """When it is closed in any case, once it is not wanted."""
    ahead: dict[int, int] = field(default_factory=dict)
    """Fetched, in order, each with the stream's tenure at that time; kept when the broker gives the consumer up."""
    pending: set[int] = field(default_factory=set)
    """With workers."""
    here: bool = False
    """Whether it was leased, and has not been closed since."""
    confirmed: set[int] = field(default_factory=set)
    """What the broker had confirmed: if it sends that again it has forgotten, or the cursor was moved."""


class Judge:
    """Looks at everything from outside, and raises AssertionError at what must not be."""

    def __init__(self, streams_count: int) -> None:
        self.delivered: list[list[int]] = [[] for _ in range(streams_count)]
        self.since: list[list[int]] = [[] for _ in range(streams_count)]
        """Since the cursor was moved last."""
        self.wanted: list[set[int]] = [set() for _ in range(streams_count)]
        """What has to be delivered again since the cursor was moved last."""
        self.again_count = 0
        """Deliveries of what had been delivered since the cursor was moved last."""
        self.versions: dict[Version, tuple[SessionId, tuple[int, ...]]] = {}
        self.leaders: dict[int, str] = {}
        self.successions_count = 0
        """Announcements that another is to lead."""

    def delivery(self, world: World, replica: Replica, stream: int, message: int) -> None:
        """A worker is given a message."""
        consumer = world.streams[stream].consumer
        assert consumer in (None, replica.name), f"{replica.name} delivers {stream}, which {consumer} consumes"
        first = message not in self.delivered[stream]
        highest = max(self.delivered[stream], default=-1)
        assert not first or message == highest + 1, f"{message} of {stream} overtakes: after {highest}"
        again = message in self.since[stream]
        self.again_count += again
        assert again or message > max(self.since[stream], default=-1), f"{message} of {stream} after a later one"
        self.delivered[stream].append(message)
        self.since[stream].append(message)
        self.wanted[stream].discard(message)

    def moved(self, world: World, number: int) -> None:
        """The cursor was moved: what was delivered may be so again, in its order, and has to be.

        But for what workers have then of a replica that is frozen or cut off: if they acknowledge it, it is done.
        """
        for stream, delivered in enumerate(self.since):
            delivered.clear()
            alive = [each for each in world.replicas.values() if each.alive]
            held = {message for each in alive for message in each.lines[stream].pending}
            self.wanted[stream] = set(range(number, world.streams[stream].messages_count)) - held

    def complete(self) -> None:
        """Everything has been acknowledged: all that had to come again has come."""
        assert not any(self.wanted), f"the cursor was moved, and this did not come again: {self.wanted}"

    def told(self, message: FromLeader | OfLeaders | OfReplay | OfReach | KeepOrders) -> None:
        """A leader says something."""
        if isinstance(message, LeaderBegan):
            self.leads(message.epoch, message.leader)
            return
        if isinstance(message, OfReplay | OfReach | KeepOrders | ReplicaSilent):
            return
        if isinstance(message, LeaderRetires):
            self.successions_count += 1
            return
        if isinstance(message, (LeaseStreams, UpdateStreams)):
            said = message.header.session, message.streams
            assert self.versions.setdefault(message.version, said) == said, f"{message.version} means two things"
        self.leads(message.header.stamp.epoch, message.header.leader)

    def leads(self, epoch: int, leader: str) -> None:
        """Somebody says something as the leader of an epoch."""
        assert self.leaders.setdefault(epoch, leader) == leader, "two leaders of one epoch"

    @staticmethod
    def beliefs(world: World) -> None:
        """Who may deliver a stream, broker or no broker."""
        running = [replica for replica in world.replicas.values() if replica.alive and not replica.paused]
        for stream in range(len(world.streams)):
            deliverers = [each.name for each in running if deliverable(each.session, stream, each.now)]
            assert len(deliverers) <= 1, f"{deliverers} may deliver {stream}"

    @staticmethod
    def leader(leader: GroupLeader) -> None:
        """A leader has done something."""
        seen: dict[int, SessionId] = {}
        for session in leader.sessions:
            for stream in session.granted | session.revoked:
                assert stream not in seen, f"{stream} has two owners: {seen[stream]} and {session.session}"
                seen[stream] = session.session
        assert seen == leader.owners


class Replica:
    """One gateway: its part in the group, a model of its data plane, and the faults it suffers."""

    def __init__(self, world: World, name: str, workers_count: int) -> None:
        self.world = world
        self.name = name
        self.offset = world.random.uniform(0, 1_000)
        self.alive = True
        self.paused = False
        self.cut = False
        self.waiting: deque[Callable[[], None]] = deque()
        """What happens as soon as it runs again."""
        self.lines = [Line() for _ in world.streams]
        self.until = self.now
        self.shutting_down = False
        self.replays = GroupReplays(name, self, ReplicaClock(self), 60.0)
        self.members = GroupMembers(self.replays.heard)
        session = SessionId(name, 1)
        leading = Leading(world.random.choice([0, 0, 3, 9]))  # of other groups, so that leaders go from here to there
        self.member = GroupMember(
            GROUP, session, len(world.streams), world.timing, ReplicaClock(self), self, self.end, leading
        )
        self.members.add(self.member)
        self.workers_count = workers_count

    @property
    def session(self) -> GroupSession:
        """Its session."""
        return self.member.session

    @property
    def manager(self) -> LeaderManager:
        """Its manager."""
        return self.member.manager

    @property
    def now(self) -> float:
        """Its own clock."""
        return self.world.now + self.offset

    def run(self, call: Callable[[], None]) -> None:
        """Do something now, or as soon as it runs again; never once it is dead."""
        if not self.alive:
            return
        if self.paused:
            self.waiting.append(call)
        else:
            call()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Do something later, if it lives then."""
        self.world.at(seconds, lambda: self.run(call))

    # ---- the group

    def start(self) -> None:
        """Join."""
        self.member.join(ReplicaTopic(self), self, self.workers_count)

    def leave(self) -> None:
        """SIGTERM."""
        if not self.shutting_down:
            self.shutting_down = True
            self.member.leave()

    def end(self) -> None:
        """It has left."""
        self.world.end(self)

    def send(self, replica: str, data: bytes) -> None:
        """As `GroupMail` says."""
        message = decode_message(data)
        if not isinstance(message, FromSession):
            self.world.judge.told(message)
        if self.manager.leader is not None:
            self.world.judge.leader(self.manager.leader)
        self.world.carry(self, replica, data)

    def send_all(self, data: bytes) -> None:
        """As `GroupMail` says."""
        for replica in self.world.replicas:
            self.send(replica, data)

    # ---- the data plane

    def open(self, stream: int) -> None:
        """As `GroupStreams` says."""
        self.lines[stream].wanted = self.lines[stream].free = self.lines[stream].here = True
        self.try_to_open(stream)

    def hold(self, stream: int) -> None:
        """As `GroupStreams` says."""
        self.lines[stream].free = False

    def reposition(self, target: ReplayTarget) -> None:
        """As `GroupStreams` says."""

        def asked() -> None:
            number = target.published_ms
            assert number is not None
            consumed = any(stream.consumer is not None for stream in self.world.streams)
            if not consumed:
                for stream in self.world.streams:
                    stream.go_back(number)
                self.world.judge.moved(self.world, number)
            self.member.repositioned("a stream is consumed" if consumed else None)

        self.world.ask(self, asked, lambda: self.member.repositioned("the broker cannot be reached"))

    def changed(self) -> None:
        """As `GroupStreams` says: the judge looks by itself."""

    def deliver_until(self, until: float) -> None:
        """As `GroupStreams` says."""
        self.until = until

    def try_to_open(self, stream: int) -> None:
        """Ask the broker, if that is still wanted."""
        line = self.lines[stream]
        if line.open or line.opening or not line.wanted or not line.free:
            return
        line.opening = True

        def opened() -> None:
            line.opening = False
            accepted = self.world.streams[stream].open(self.name)
            if accepted and line.wanted and not line.free:  # held meanwhile
                self.world.streams[stream].close(self.name)
            elif accepted:
                line.open = True
                self.member.opened(stream)
                if not line.wanted:
                    self.drain(stream)
            else:
                self.member.refused(stream)
                self.later(OPEN_AGAIN_S, lambda: self.try_to_open(stream))
                if not line.wanted:
                    self.drain(stream)

        def failed() -> None:
            line.opening = False
            self.later(OPEN_AGAIN_S, lambda: self.try_to_open(stream))

        self.world.ask(self, opened, failed)

    def release(self, stream: int, deadline: float) -> None:
        """As `GroupStreams` says."""
        line = self.lines[stream]
        parked = not line.free and not line.open and not line.opening
        line.wanted = line.free = False
        line.ahead.clear()
        line.deadline = self.now if parked else deadline
        self.later(max(line.deadline - self.now, 0.0), lambda: self.drain(stream))
        self.later(0.0, lambda: self.drain(stream))

    def deliver(self, stream: int) -> None:
        """Fetch ahead, and give workers what may be given."""
        line = self.lines[stream]
        while line.open and line.wanted and not self.cut and len(line.ahead) < PREFETCH:
            message = self.world.streams[stream].take(self.name)
            if message is None:
                break
            if message in line.confirmed:
                self.world.streams[stream].acknowledged.add(message)
            elif message not in line.pending:
                line.ahead.setdefault(message, self.world.streams[stream].tenures_count)
        while line.ahead and len(line.pending) < PREFETCH and line.free and self.now < self.until:
            assert deliverable(self.session, stream, self.now), f"{self.name} was not told to stop delivering {stream}"
            message, tenure = next(iter(line.ahead.items()))
            del line.ahead[message]
            assert tenure == self.world.streams[stream].tenures_count, (
                f"{self.name} fetched {message} before others had it"
            )
            self.world.judge.delivery(self.world, self, stream, message)
            line.pending.add(message)
            work_s = self.world.random.uniform(0, self.world.chances.work_s_max)
            self.later(work_s, lambda message=message: self.ack(stream, message))  # type: ignore[misc]

    def ack(self, stream: int, message: int) -> None:
        """A worker is done with a message."""
        if self.cut:
            self.later(1.0, lambda: self.ack(stream, message))
            return
        line = self.lines[stream]
        if message not in line.pending:  # its stream has gone, and with it who had what
            return
        line.pending.discard(message)
        line.confirmed.add(message)
        self.world.streams[stream].acknowledged.add(message)
        self.session.progressed(StreamState(stream, message, len(line.pending)))
        self.drain(stream)

    def drain(self, stream: int) -> None:
        """Close what is not wanted as soon as nothing of it is pending, or its time is over."""
        line = self.lines[stream]
        if not line.wanted and not line.opening and (not line.pending or self.now >= line.deadline):
            self.close(stream)

    def close(self, stream: int) -> None:
        """Close a stream, unless it is wanted again meanwhile."""
        line = self.lines[stream]

        def closed() -> None:
            if line.wanted:
                return
            line.pending.clear()
            line.open = line.here = False
            self.world.streams[stream].close(self.name)
            if not any(each.here for each in self.lines):
                for each in self.lines:
                    each.confirmed.clear()
            self.member.released(stream)

        self.world.ask(self, closed, lambda: self.later(0.5, lambda: self.drain(stream)))

    def consumer_lost(self, stream: int) -> None:
        """The broker has given it up."""
        line = self.lines[stream]
        line.open = False
        self.try_to_open(stream)


class ReplicaClock:
    """A replica's own clock: what is due while it is stopped is done when it runs again (`ports.Clock`)."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def now(self) -> float:
        """As the port says."""
        return self._replica.now

    def time(self) -> float:
        """As the port says."""
        return self._replica.world.now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> ReplicaTimer:
        """As the port says."""
        timer = ReplicaTimer(callback)
        self._replica.later(delay_s, timer.fire)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> ReplicaTimer:
        """As the port says."""
        return self.call_later(0.0, callback)


class ReplicaTimer:
    """One call that may be cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """As the port says."""
        self._callback = None

    def fire(self) -> None:
        """It is due."""
        if self._callback is not None:
            self._callback()


class ReplicaTopic:
    """The group's topic as one replica reaches it (`group_ports.GroupTopic`)."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._world = replica.world

    def contend(self) -> None:
        """As the port says."""

        def contended() -> None:
            self._world.topic.contend(self._replica.name)
            self._world.promote()

        self._world.ask(self._replica, contended)

    def contend_later(self) -> None:
        """As the port says; this broker lets no two lead."""
        self.contend()

    def insist(self) -> None:
        """As the port says; this broker forgets nobody."""

    def fence(self) -> None:
        """As the port says."""

        def fenced() -> None:
            world = self._world
            if self._replica.manager.state is not CANDIDATE or world.topic.holder == self._replica.name:
                return
            world.fences_count += 1
            former = None if world.topic.holder is None else world.replicas[world.topic.holder]
            if former is not None and former.alive:
                world._when_connected(former, former.member.lost)
            for name in world.topic.fence(self._replica.name):
                other = world.replicas[name]
                if other.alive:
                    world.topic.contend(name)  # at once, where the product waits a moment
            self._replica.member.granted()

        self._world.ask(self._replica, fenced)

    def read(self) -> None:
        """As the port says."""
        self._world.ask(self._replica, lambda: self._replica.member.read(self._world.topic.read(self._world.now)))

    def store(self, record: GroupMemory) -> None:
        """As the port says."""
        term = self._world.topic.term

        def stored() -> None:
            if self._world.topic.store(self._replica.name, term, record):
                self._replica.member.stored()
            else:
                self._replica.member.lost()

        self._world.ask(self._replica, stored)

    def close(self) -> None:
        """As the port says."""
        self._world.topic.leave(self._replica.name)
        self._world.promote()

    def remove(self, removed: Callable[[], None]) -> None:
        """As the port says; the broker deletes the topic soon, or not before it is used again."""
        world = self._world
        term = world.topic.term

        def asked() -> None:
            if (world.topic.holder, world.topic.term) == (self._replica.name, term) and world.random.random() < 0.5:
                world.topic.log.clear()
                world.removals_count += 1
            self.close()
            removed()

        world.ask(self._replica, asked)


class World:
    """Time, chance, network, Pulsar and all replicas."""

    def __init__(self, seed: int, chances: Chances, timing: GroupTiming | None = None, streams_count: int = 16) -> None:
        self.random = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self.chances = chances
        self.timing = timing or GroupTiming()
        self.now = 0.0
        self.topic = ModelGroupTopic()
        self.streams = [ModelStream() for _ in range(streams_count)]
        self.judge = Judge(streams_count)
        self.replicas: dict[str, Replica] = {}
        self.fences_count = 0
        self.removals_count = 0
        """How often the group's topic was removed with all that it said."""
        self.replayed: Counter[bool] = Counter()
        """Answers of leaders: whether the cursor was moved."""
        self._names = itertools.count(1)
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._pump()

    # ---- time

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Call it in so many seconds."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), call))

    def pass_time(self, seconds: float) -> None:
        """Let everything happen that is due until then."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, call = heapq.heappop(self._events)
            call()
        self.now = end

    def _pump(self) -> None:
        self.judge.beliefs(self)
        for replica in list(self.replicas.values()):
            for stream in range(len(self.streams)):
                replica.run(lambda replica=replica, stream=stream: replica.deliver(stream))  # type: ignore[misc]
        self.at(0.05, self._pump)

    # ---- what people do

    def join(self, workers_count: int = 1) -> Replica:
        """One more replica."""
        name = f"replica-{next(self._names)}"
        replica = self.replicas[name] = Replica(self, name, workers_count)
        replica.start()
        return replica

    def kill(self, replica: Replica) -> None:
        """SIGKILL; the broker notices soon."""
        replica.alive = False
        self.at(self.random.uniform(0, 0.2), lambda: self.give_up(replica))

    def end(self, replica: Replica) -> None:
        """It has left; what it has still the broker closes with its connection."""
        replica.alive = False
        self.give_up(replica)

    def pause(self, replica: Replica, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later; the broker gives it up if that takes long."""
        replica.paused = True
        if seconds > 2 * self.timing.lease_s:
            self.at(2 * self.timing.lease_s, lambda: self.give_up(replica))
        self.at(seconds, lambda: self._resume(replica))

    def cut(self, replica: Replica, seconds: float) -> None:
        """Nothing reaches it, and nothing it says arrives; the broker gives it up if that takes long."""
        replica.cut = True
        if seconds > 2 * self.timing.lease_s:
            self.at(2 * self.timing.lease_s, lambda: self.give_up(replica))
        self.at(seconds, lambda: self._mend(replica))

    def replay(self, replica: Replica, number: int) -> None:
        """An operator asks one replica to let all deliver again from a message on."""

        def answered(problem: str | None) -> None:
            self.replayed[problem is None] += 1

        replica.replays.ask(GROUP, ReplayTarget(published_ms=number), answered)

    def publish(self, count: int) -> None:
        """Messages of any keys."""
        for _ in range(count):
            self.random.choice(self.streams).messages_count += 1

    def give_up(self, replica: Replica) -> None:
        """The broker closes all that is this replica's."""
        lost = [number for number, stream in enumerate(self.streams) if stream.consumer == replica.name]
        for number in lost:
            self.streams[number].close(replica.name)
            self._when_connected(replica, lambda number=number: replica.consumer_lost(number))  # type: ignore[misc]
        if self.topic.holder == replica.name or replica.name in self.topic.queue:
            self.topic.leave(replica.name)
            self._when_connected(replica, replica.member.lost)
            self.promote()

    def _when_connected(self, replica: Replica, call: Callable[[], None]) -> None:
        if replica.alive and replica.cut:
            self.at(0.1, lambda: self._when_connected(replica, call))
        else:
            replica.run(call)

    def _resume(self, replica: Replica) -> None:
        replica.paused = False
        # In any order: sockets are read before timers, or after.
        calls = list(replica.waiting)
        replica.waiting.clear()
        self.random.shuffle(calls)
        for call in calls:
            replica.run(call)

    def _mend(self, replica: Replica) -> None:
        replica.cut = False

    # ---- network and Pulsar

    def carry(self, sender: Replica, target: str, data: bytes) -> None:
        """Take a message from one member to another, or not, or twice.

        Also from a replica to itself: a leader that is cut off must not go on to renew the lease of its own session.
        """
        for _ in range(2 if self.random.random() < self.chances.twice else 1):
            if self.random.random() < self.chances.loss or sender.cut:
                continue
            late = self.random.random() < self.chances.late
            delay = self.random.uniform(0, self.chances.late_s_max if late else self.chances.delay_s_max)
            self.at(delay, lambda: self._arrive(target, data))

    def _arrive(self, target: str, data: bytes) -> None:
        replica = self.replicas.get(target)
        if replica is not None and not replica.cut:
            replica.run(lambda: replica.members.hear(data))

    def ask(self, replica: Replica, answered: Callable[[], None], failed: Callable[[], None] | None = None) -> None:
        """Ask Pulsar for something, and hear the answer."""

        def answer() -> None:
            if replica.cut:
                if failed is not None:
                    failed()
                else:
                    self.ask(replica, answered)
            else:
                answered()

        replica.later(self.random.uniform(0, self.chances.delay_s_max), answer)

    def promote(self) -> None:
        """Tell whoever has the producer now."""
        name = self.topic.promote()
        if name is None:
            return
        replica = self.replicas[name]
        if not replica.alive:
            self.topic.leave(name)
            self.promote()
            return
        delay = self.random.uniform(0, self.chances.delay_s_max)
        self.at(delay, lambda: self._when_connected(replica, replica.member.granted))

    # ---- reads

    @property
    def living(self) -> list[Replica]:
        """Replicas that are there and mean to stay."""
        return [each for each in self.replicas.values() if each.alive and not each.shutting_down]

    @property
    def leaders(self) -> list[GroupLeader]:
        """All that believe to lead."""
        found: list[Any] = [each.manager.leader for each in self.replicas.values() if each.alive]
        return [leader for leader in found if leader is not None]

    def settled(self) -> bool:
        """Whether every stream is open somewhere, evenly, and everything has been acknowledged."""
        done = all(len(stream.acknowledged) == stream.messages_count for stream in self.streams)
        counts = [sum(line.open and line.wanted for line in replica.lines) for replica in self.living]
        states = all(replica.session.state is State.REPLAYING for replica in self.living)
        even = not counts or (max(counts) - min(counts) <= 1 and sum(counts) == len(self.streams))
        return done and states and even
