"""A thousand groups on ten replicas, simulated: what they say to each other, and whether every stream stays somebody's.

`python -m tests.groups.scale --help`. All groups share their replicas, as in production: one `GroupMembers` for each
replica hears what comes to it and finds the group, the replica dies and leaves in all groups at once, and time is one.
Each group is a `World` with its own broker and its own judge, so that all that `test_lives` checks is checked here too.

Two ways to begin, because who comes first leads: `together`, where workers reach replicas in any order, and `in turn`,
where one replica has workers in every group before the next one starts, as after a deployment.

CPU seconds are of the replicas' own code alone, from bytes that came to bytes that go, without sockets and Pulsar.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import itertools
import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from proxy.groups.encoding import decode_message
from proxy.groups.messages import Disconnect, FindLeader, FromSession, SessionId, UpdateStreamStates
from proxy.groups.streams import GroupId
from proxy.net.group.member import GroupMember, Leading
from proxy.net.group.members import GroupMembers
from tests.groups.simulation import Chances, Replica, ReplicaClock, ReplicaTimer, World

TOGETHER, IN_TURN = "together", "in turn"
FROM_SESSIONS: Final = frozenset(kind.__name__ for kind in (FindLeader, UpdateStreamStates, Disconnect))
HEARTBEATS: Final = frozenset({"UpdateStreamStates", "RenewStreamLease"})
"""What is said again and again; the judge looks at the rest."""
KIND_AT: Final = len('{"kind":"')
LOOK_S: Final = 1.0
"""How often a group is judged and its messages move: its replicas need no such beat."""
STEP_S: Final = 0.5
EVEN_S = 60.0
"""For leaders to go where fewer are."""
BUSY_MESSAGES: Final = 4
"""Messages of a group each time, while replicas come and go."""
WORK_S: Final = 1.0
"""How long messages come before a change and after it."""
SETTLE_S_MAX: Final = 120.0


def kind_of(data: bytes) -> str:
    """What a message is, without reading it."""
    return data[KIND_AT : data.index(b'"', KIND_AT)].decode()


class Host:
    """One process of a gateway: all its groups live and die with it."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet = fleet
        self.name = name
        self.members = GroupMembers()
        self.leading = Leading()
        self.offset = fleet.random.uniform(0, 1_000)
        self.parts: dict[GroupId, Part] = {}
        self.alive = True
        self.busy_ns = 0

    @property
    def leads(self) -> int:
        """Groups that it leads."""
        return sum(part.manager.leader is not None for part in self.parts.values())

    def timed(self, call: Callable[[], None]) -> None:
        """Make a call of its own code."""
        began = time.perf_counter_ns()
        call()
        self.busy_ns += time.perf_counter_ns() - began


class Part(Replica):
    """One host in one group."""

    world: GroupWorld

    def __init__(self, world: GroupWorld, host: Host) -> None:
        super().__init__(world, host.name, 1)
        self.host = host
        self.offset = host.offset
        self.until = self.now
        self.members = host.members
        session = SessionId(host.name, world.number)
        streams_count = len(world.streams)
        self.member = GroupMember(
            world.group, session, streams_count, world.timing, PartClock(self), self, self.end, host.leading
        )
        host.members.add(self.member)
        host.parts[world.group] = self

    def end(self) -> None:
        """It has left."""
        super().end()
        self.host.members.remove(self.world.group)
        del self.host.parts[self.world.group]

    def send(self, replica: str, data: bytes) -> None:
        """As `GroupMail` says."""
        self._say(data)
        self.world.carry(self, replica, data)

    def send_all(self, data: bytes) -> None:
        """As `GroupMail` says."""
        self._say(data)
        for replica in list(self.world.replicas):
            self.world.carry(self, replica, data)

    def _say(self, data: bytes) -> None:
        kind = kind_of(data)
        said = self.world.fleet.said
        said.sent[kind] += 1
        said.sent_bytes += len(data)
        if kind in HEARTBEATS:
            return
        message = decode_message(data)
        if not isinstance(message, FromSession):
            self.world.judge.told(message)
        if self.manager.leader is not None:
            self.world.judge.leader(self.manager.leader)


class PartClock(ReplicaClock):
    """Counts what a replica's own timers cost."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self._part = part

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> ReplicaTimer:
        """As the port says."""
        return super().call_later(delay_s, lambda: self._part.host.timed(callback))


class GroupWorld(World):
    """One of many groups: its time is the fleet's."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self.fleet = fleet
        self.number = number
        self.group = GroupId(f"persistent://public/default/orders-{number}", "billing")
        super().__init__(number, Chances(work_s_max=1.0))

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """As a world does, by the fleet's clock."""
        self.fleet.at(self, seconds, call)

    def enter(self, host: Host) -> None:
        """Its first worker comes to this host."""
        if host.alive:
            part = self.replicas[host.name] = Part(self, host)
            host.timed(part.start)

    def give_up(self, replica: Replica) -> None:
        """The broker closes all that is this replica's; nobody will hear of a dead one again."""
        super().give_up(replica)
        if not replica.alive:
            del self.replicas[replica.name]

    def check(self) -> None:
        """Whether every stream has one owner, by all accounts, and everything was delivered."""
        assert self.settled(), f"{self.group.topic} has not settled"
        (leader,) = self.leaders
        self.judge.leader(leader)
        assert set(leader.owners) == set(range(len(self.streams))), f"streams of {self.group.topic} are nobody's"
        for number, stream in enumerate(self.streams):
            assert stream.consumer == leader.owners[number].replica, "the broker's owner and the leader's differ"
            assert set(self.judge.delivered[number]) == set(range(stream.messages_count)), "messages are missing"

    def _arrive(self, target: str, data: bytes) -> None:
        part = self.replicas.get(target)
        if part is not None and part.alive:
            assert isinstance(part, Part)
            self.fleet.said.heard[kind_of(data)] += 1
            part.host.timed(lambda: part.members.hear(data))

    def _pump(self) -> None:
        """As a world does, but only where there is something to deliver."""
        self.judge.beliefs(self)
        if self.fleet.busy:
            self.publish(BUSY_MESSAGES)
        for number, stream in enumerate(self.streams):
            replica = self.replicas.get(stream.consumer or "")
            if replica is not None and replica.alive and len(stream.acknowledged) < stream.messages_count:
                replica.deliver(number)
        self.at(self.random.uniform(0, 2 * LOOK_S), self._pump)


@dataclass(slots=True)
class Said:
    """What replicas have told each other, by kind. What goes to all is sent once and heard by each."""

    sent: Counter[str]
    heard: Counter[str]
    sent_bytes: int = 0

    def since(self, before: Said) -> Said:
        """What was said since then."""
        return Said(self.sent - before.sent, self.heard - before.heard, self.sent_bytes - before.sent_bytes)


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of the fleet's life, measured."""

    name: str
    seconds: float
    """Simulated."""
    said: Said
    records: int
    """Written to the topics of groups."""
    versions: int
    """Sets of streams that were told."""
    duplicates: int
    """Deliveries of what was delivered before."""
    cpu_s: tuple[float, ...]
    """Of each host, by its place."""
    leads: tuple[int, ...]
    """Groups that each host leads at the end."""


class Fleet:
    """Hosts by their places, groups, and one time for all."""

    def __init__(self, hosts_count: int, groups_count: int, order: str = TOGETHER, seed: int = 0) -> None:
        self.random = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self.now = 0.0
        self.busy = False
        self.said = Said(Counter(), Counter())
        self._order = itertools.count()
        self._events: list[tuple[float, int, GroupWorld, Callable[[], None]]] = []
        self._lives = itertools.count(1)
        self._begins_in_turn = order == IN_TURN
        self.worlds = [GroupWorld(self, number) for number in range(groups_count)]
        self.hosts = [self._new_host(place) for place in range(hosts_count)]

    # ---- time

    def at(self, world: GroupWorld, seconds: float, call: Callable[[], None]) -> None:
        """Let a world do something later."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), world, call))

    def pass_time(self, seconds: float) -> None:
        """Let everything happen that is due until then."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, world, call = heapq.heappop(self._events)
            world.now = self.now
            call()
        self.now = end
        for world in self.worlds:
            world.now = end

    def settle(self) -> None:
        """Until nothing moves any more in any group: in all at one moment, for a leader may give way to another."""
        end = self.now + SETTLE_S_MAX
        self.busy = False
        while unsettled := [world for world in self.worlds if not (world.settled() and len(world.leaders) == 1)]:
            assert self.now < end, f"{len(unsettled)} groups have not settled in {SETTLE_S_MAX:.0f} s"
            self.pass_time(STEP_S)

    def check(self) -> None:
        """See `GroupWorld.check`."""
        for world in self.worlds:
            world.check()

    # ---- what happens

    def begin(self) -> None:
        """Workers come to every host in every group."""
        for number, host in enumerate(self.hosts):
            self._enter(host, after_s=number * 1.0 if self._begins_in_turn else 0.0)
        self.pass_time(len(self.hosts) * 1.0 if self._begins_in_turn else 1.0)

    def kill(self, place: int) -> None:
        """SIGKILL; its workers go nowhere else."""
        host = self.hosts[place]
        host.alive = False
        for part in list(host.parts.values()):
            part.world.kill(part)
        host.parts.clear()

    def leave(self, place: int) -> None:
        """SIGTERM, until it has left all groups."""
        host = self.hosts[place]
        for part in list(host.parts.values()):
            host.timed(part.leave)
        while host.parts:
            self.pass_time(STEP_S)
        host.alive = False

    def come_back(self, place: int) -> None:
        """It starts again, and its workers come back."""
        self.hosts[place] = self._new_host(place, self.hosts[place].busy_ns)
        self._enter(self.hosts[place])

    def phase(self, name: str, live: Callable[[], None]) -> Phase:
        """Live, and measure."""
        since, said = self.now, replace(self.said, sent=self.said.sent.copy(), heard=self.said.heard.copy())
        records, versions, duplicates = self._totals()
        busy_ns = [host.busy_ns for host in self.hosts]
        began_ns, cpu_began_s = time.perf_counter_ns(), time.process_time()
        live()
        # The part of the process' CPU time that is theirs: to ask for that at each call would cost more than the call.
        per_ns = (time.process_time() - cpu_began_s) / (time.perf_counter_ns() - began_ns)
        records_now, versions_now, duplicates_now = self._totals()
        return Phase(
            name,
            self.now - since,
            self.said.since(said),
            records_now - records,
            versions_now - versions,
            duplicates_now - duplicates,
            tuple((host.busy_ns - before) * per_ns for host, before in zip(self.hosts, busy_ns, strict=True)),
            tuple(host.leads for host in self.hosts),
        )

    def _totals(self) -> tuple[int, int, int]:
        return (
            sum(len(world.topic.log) for world in self.worlds),
            sum(len(world.judge.versions) for world in self.worlds),
            sum(world.judge.again_count for world in self.worlds),
        )

    def _new_host(self, place: int, busy_ns: int = 0) -> Host:
        host = Host(self, f"replica-{place}-{next(self._lives)}")
        host.busy_ns = busy_ns
        return host

    def _enter(self, host: Host, after_s: float = 0.0) -> None:
        for world in self.worlds:
            self.at(world, after_s + self.random.uniform(0, 1.0), partial(world.enter, host))


def live(fleet: Fleet, idle_s: float, restarts_count: int) -> Iterator[Phase]:
    """A whole life, part by part; raises AssertionError where a promise is broken."""
    places = range(len(fleet.hosts))

    def change(name: str, *deeds: Callable[[], None]) -> Phase:
        def lived() -> None:
            for deed in deeds:
                fleet.busy = True
                fleet.pass_time(WORK_S)
                deed()
                fleet.pass_time(WORK_S)
                fleet.settle()
            fleet.check()

        return fleet.phase(name, lived)

    def even_out(name: str) -> Phase:
        return change(name, lambda: fleet.pass_time(EVEN_S))

    def idle(name: str) -> Phase:
        return fleet.phase(name, lambda: fleet.pass_time(idle_s))

    def restart(place: int) -> None:
        fleet.leave(place)
        fleet.come_back(place)

    yield change("begin", fleet.begin)
    yield even_out("leaders even out")
    yield idle("idle")
    victim = max(places, key=lambda place: fleet.hosts[place].leads)
    yield change("kill who leads most", lambda: fleet.kill(victim))
    yield change("it comes back", lambda: fleet.come_back(victim))
    yield change("restart in turn", *[partial(restart, place) for place in places[:restarts_count]])
    yield even_out("leaders even out again")
    yield idle("idle afterwards")


def held_bytes(groups_count: int, hosts_count: int, *, leading: bool) -> float:
    """Memory of one idle member, that of its leader included or of a session alone, by tracemalloc.

    Each group lives for some seconds, and one member is kept of it without what is around: no timers, no data plane.
    """
    kept: list[GroupMember] = []

    def keep(number: int) -> None:
        fleet = Fleet(hosts_count, 1, seed=number)
        fleet.worlds[0].group = GroupId(f"persistent://public/default/orders-{number}", "billing")
        fleet.begin()
        fleet.pass_time(6.0)
        parts = [part for host in fleet.hosts for part in host.parts.values()]
        member = next(part.member for part in parts if (part.manager.leader is not None) is leading)
        for name in ("_clock", "_mail", "_ended", "_topic", "_streams", "_timer"):
            setattr(member, name, None)
        kept.append(member)

    keep(0)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(1, groups_count + 1):
        keep(number)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (held - before) / groups_count


def lines(phase: Phase, groups_count: int) -> list[str]:
    """What was measured, for a person."""
    group_seconds = phase.seconds * groups_count
    by_leaders = sum(count for kind, count in phase.said.sent.items() if kind not in FROM_SESSIONS)
    sent, heard = phase.said.sent.total(), phase.said.heard.total()
    cpu = sorted(each / phase.seconds for each in phase.cpu_s)
    kinds = ", ".join(f"{kind} {count / groups_count:.2f}" for kind, count in phase.said.sent.most_common())
    return [
        f"{phase.name}: {phase.seconds:.1f} s",
        f"  messages sent {sent:,}, heard {heard:,}; {phase.said.sent_bytes / max(sent, 1):.0f} bytes each",
        f"  a group and second: {sent / group_seconds:.2f} sent, {by_leaders / group_seconds:.2f} by its leader",
        f"  a group: {kinds}",
        f"  a group: records {phase.records / groups_count:.2f}, sets of streams {phase.versions / groups_count:.2f}",
        f"  delivered twice, in all groups: {phase.duplicates:,}",
        f"  CPU of a replica: {sum(cpu) / len(cpu):.3f} s a second ({cpu[0]:.3f} to {cpu[-1]:.3f})",
        f"  CPU of a message sent or heard: {sum(phase.cpu_s) * 1e6 / max(sent + heard, 1):.0f} us",
        f"  groups that each replica leads: {' '.join(map(str, phase.leads))}",
    ]


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.groups.scale", description=__doc__)
    parser.add_argument("--replicas", type=int, default=10)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--order", choices=[TOGETHER, IN_TURN], default=TOGETHER, help="how replicas begin")
    parser.add_argument("--idle", type=float, default=60.0, help="simulated seconds without any change")
    parser.add_argument("--memory", action="store_true", help="measure what members hold instead")
    options = parser.parse_args()
    if options.memory:
        for name, leading in (("session", False), ("session and leader", True)):
            held = held_bytes(options.groups, options.replicas, leading=leading)
            print(f"idle {name} of {options.replicas} replicas: {held:,.0f} bytes", flush=True)
        return
    began = time.process_time()
    fleet = Fleet(options.replicas, options.groups, options.order)
    for phase in live(fleet, options.idle, options.replicas):
        print("\n".join(lines(phase, options.groups)), flush=True)
    print(f"every stream has one owner and nothing is lost; {time.process_time() - began:.0f} s of CPU altogether")


if __name__ == "__main__":
    main()
