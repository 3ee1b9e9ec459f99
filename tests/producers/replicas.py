"""Three replicas' elections of one topic, a broker that promotes in order of arrival, and a network that loses mail.

The broker makes sure that there is one owner at most; what is judged is who that is, and that there is one. Messages
between replicas are lost, doubled, late and overtaken; what is later than `LATE_S` counts as lost.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from proxy.producers.announcement import Announcement
from proxy.producers.announcer import DAMPING_S, Announcer
from proxy.producers.election import Act, Acts, Contender, Election, Stage
from proxy.producers.rivals import EXPIRY_S, Rivals
from proxy.producers.standing import Place
from proxy.producers.waiting import rank_of

TOPIC = "t"
LATE_S = 0.5
PATIENCE_S = 2 * EXPIRY_S
STEP_S = 0.05
"""How often replicas look at their clocks."""
IDLE_S_MAX = EXPIRY_S + LATE_S + DAMPING_S + 4 * STEP_S
"""How long nobody is asked for though somebody waits and nobody has left."""


@dataclass(eq=False)
class Handle:
    """A request at the broker."""

    replica: Replica
    contender: Contender[str]
    alive: bool = True


@dataclass
class Broker:
    """One topic at the broker: whoever is asked for waits in line, whatever its priority."""

    owner: Handle | None = None
    line: deque[Handle] = field(default_factory=deque)

    def ask(self, handle: Handle) -> None:
        """Promote it or let it wait."""
        if self.owner is None:
            self.promote(handle)
        else:
            self.line.append(handle)
            handle.replica.answers.append(("queued", handle))

    def close(self, handle: Handle) -> None:
        """It leaves; one that waits keeps its place, and is found dead when its turn comes."""
        handle.alive = False
        if self.owner is handle:
            self.owner = None
            while self.line and self.owner is None:
                self.promote(self.line.popleft())

    def promote(self, handle: Handle) -> None:
        """It owns the topic, unless it is dead: that costs an epoch and no more."""
        if handle.alive:
            self.owner = handle
            handle.replica.answers.append(("granted", handle))


class Replica:
    """One gateway: what `producer_election` and `producer_rivalry` make of the pure parts, without their waits."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.election: Election[str] = Election(name)
        self.announcer = Announcer(name)
        self.rivals = Rivals(name)
        self.contenders: list[Contender[str]] = []
        self.handle: Handle | None = None
        """What the broker knows of us."""
        self.commands: deque[tuple[str, Handle]] = deque()
        self.answers: deque[tuple[str, Handle]] = deque()
        self.inbox: list[tuple[float, Announcement]] = []
        """When it was said, and what; in any order."""
        self.say_at: float | None = None
        self.outranked_since: float | None = None
        self.arrivals = 0

    def arrive(self, priority: int) -> None:
        """One more waits here."""
        self.arrivals += 1
        contender = Contender(rank_of(priority, self.arrivals), f"{self.name}-{self.arrivals}", since=self.world.now)
        self.contenders.append(contender)
        self.do(self.election.arrive(contender))

    def leave(self, contender: Contender[str]) -> None:
        """It closes, or its connection breaks."""
        self.contenders.remove(contender)
        handle = self.handle
        if handle is not None and handle.contender is contender:
            if ("ask", handle) in self.commands:
                self.commands.remove(("ask", handle))
            if contender.stage is not Stage.WITHDRAWING:
                self.commands.append(("close", handle))
            self.handle = None
        self.do(self.election.left(contender))

    def do(self, acts: Acts[str]) -> None:
        """Carry out what comes of a change, and tell others."""
        for act, contender in acts:
            if act is Act.ASK:
                self.handle = Handle(self, contender)
                self.commands.append(("ask", self.handle))
            elif act in (Act.WITHDRAW, Act.YIELD):
                assert self.handle is not None
                self.world.yields += act is Act.YIELD
                self.commands.append(("close", self.handle))
        election, owned = self.election, self.election.owner is not None
        best = election.best
        concerns = best is not None or (owned and election.elsewhere.best is not None)
        place = Place(None if best is None else election.standing(best), owned)
        if self.announcer.tell(TOPIC, place if concerns else None) and self.say_at is None:
            self.say_at = self.world.now + DAMPING_S
        if not election.outranked or election.elsewhere.owned:
            self.outranked_since = None
        elif self.outranked_since is None:
            self.outranked_since = self.world.now

    def write(self) -> None:
        """The broker reads one command."""
        kind, handle = self.commands.popleft()
        if kind == "ask":
            self.world.broker.ask(handle)
        else:
            self.world.broker.close(handle)
            self.answers.append(("closed", handle))

    def read(self) -> None:
        """Read one answer of the broker's."""
        kind, handle = self.answers.popleft()
        contender = handle.contender
        if contender.stage is Stage.GONE:
            return
        if kind == "granted":
            self.do(self.election.granted(contender))
            self.world.yields *= contender.stage is not Stage.OWNER
        elif kind == "queued":
            self.do(self.election.queued(contender))
        else:
            self.handle = None
            self.do(self.election.withdrawn(contender))

    def hear(self, announcement: Announcement) -> None:
        """One message comes."""
        if self.rivals.hear(announcement, self.world.now):
            self.look()

    def look(self) -> None:
        """At what is known."""
        self.do(self.election.hear(self.rivals.place(TOPIC)))

    def pass_time(self) -> None:
        """Forget, lose patience, say what is due."""
        now = self.world.now
        self.inbox = [(said_at, each) for said_at, each in self.inbox if said_at + LATE_S > now]
        if self.rivals.expire(now):
            self.look()
        if self.outranked_since is not None and now - self.outranked_since >= PATIENCE_S:
            self.outranked_since = None
            self.do(self.election.lose_patience())
        if (self.say_at is None or self.say_at <= now) and (announcement := self.announcer.next(now)) is not None:
            self.world.post(self, announcement)
        self.say_at = None


class World:
    """All of it."""

    def __init__(self, replicas: int) -> None:
        self.now = 1_000.0
        self.broker = Broker()
        self.yields = 0
        """Turns given away in a row."""
        self.names = 0
        self.replicas = [self.new_replica() for _ in range(replicas)]

    def new_replica(self) -> Replica:
        """One whose name nobody had before."""
        self.names += 1
        return Replica(f"r{self.names}", self)

    def post(self, sender: Replica, announcement: Announcement) -> None:
        """It is on its way to all others."""
        for each in self.replicas:
            if each is not sender:
                each.inbox.append((self.now, announcement))

    def crash(self, replica: Replica) -> None:
        """Its process dies: the broker takes off what it had, and others hear nothing more of it."""
        for kind, handle in replica.commands:
            if kind == "close":
                self.broker.close(handle)
        if replica.handle is not None:
            self.broker.close(replica.handle)
        self.replicas[self.replicas.index(replica)] = self.new_replica()

    def waiting(self) -> list[tuple[Replica, Contender[str]]]:
        """All that wait, anywhere, the first of all first."""
        found = [
            (each, contender)
            for each in self.replicas
            for contender in each.contenders
            if contender.stage is not Stage.OWNER
        ]
        return sorted(found, key=lambda pair: pair[0].election.standing(pair[1]))

    @property
    def idle(self) -> bool:
        """Whether somebody waits, and nobody owns the topic or is at the broker or on the way."""
        busy = self.broker.owner is not None or any(
            each.handle or each.commands or each.answers for each in self.replicas
        )
        return not busy and bool(self.waiting())

    def run_dry(self) -> None:
        """The broker and all replicas read what is there."""
        while any(each.commands or each.answers for each in self.replicas):
            for each in self.replicas:
                while each.commands:
                    each.write()
                while each.answers:
                    each.read()

    def deliver_all(self) -> None:
        """Every message comes, in order."""
        for each in self.replicas:
            inbox, each.inbox = each.inbox, []
            for _, announcement in inbox:
                each.hear(announcement)

    def settle(self, seconds: float) -> None:
        """Time passes and nothing is lost."""
        until = self.now + seconds
        while self.now < until:
            self.step()
            self.deliver_all()
            self.run_dry()

    def step(self) -> None:
        """A moment passes."""
        self.now += STEP_S
        for each in self.replicas:
            each.pass_time()
