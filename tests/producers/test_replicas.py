"""Replicas that tell each other who waits: one owner, the best of all, in time, whatever is lost on the way."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proxy.producers.announcer import ROUNDING_S
from proxy.producers.election import YIELDS_MAX, Hold, Stage
from tests.lives import lives
from tests.producers.replicas import IDLE_S_MAX, LATE_S, PATIENCE_S, STEP_S, Replica, World

REPLICAS = 3
SETTLED_S = PATIENCE_S + IDLE_S_MAX
TOGETHER_S = STEP_S + ROUNDING_S
"""Of equals that come so close to each other any may be the first."""
YIELDS_IN_A_ROW = 2 * REPLICAS * YIELDS_MAX
"""News of an owner of before, that come late, let a replica count from the beginning."""


class Lives(RuleBasedStateMachine):
    """Rules are what producers, the broker and the network may do."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(REPLICAS)
        self.idle_since: float | None = None
        """Since when nobody is asked for, nobody having left meanwhile."""
        self.vacant_since: float | None = None
        """Since when nobody is asked for, while one and the same waits."""
        self.witness: object = None

    def some(self, data: st.DataObject) -> Replica:
        """Any replica."""
        return data.draw(st.sampled_from(self.world.replicas))

    @rule(data=st.data(), priority=st.integers(0, 3))
    def arrive(self, data: st.DataObject, priority: int) -> None:
        """One more waits."""
        self.some(data).arrive(priority)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Anybody."""
        replica = self.some(data)
        if replica.contenders:
            replica.leave(data.draw(st.sampled_from(replica.contenders)))
            self.idle_since = None

    @rule()
    def leave_as_owner(self) -> None:
        """Who owns the topic."""
        for replica in self.world.replicas:
            if replica.election.owner is not None:
                replica.leave(replica.election.owner)
                self.idle_since = None

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """A process dies, and with it all that were connected."""
        self.world.crash(self.some(data))
        self.idle_since = None

    @rule(data=st.data())
    def broker_reads(self, data: st.DataObject) -> None:
        """One command."""
        replica = self.some(data)
        if replica.commands:
            replica.write()

    @rule(data=st.data())
    def replica_reads(self, data: st.DataObject) -> None:
        """One answer."""
        replica = self.some(data)
        if replica.answers:
            replica.read()

    @rule(data=st.data(), lost=st.booleans(), twice=st.booleans())
    def mail(self, data: st.DataObject, *, lost: bool, twice: bool) -> None:
        """One message comes, any of those under way; or is lost, or comes again later."""
        replica = self.some(data)
        if replica.inbox:
            place = data.draw(st.integers(0, len(replica.inbox) - 1))
            _, announcement = replica.inbox[place]
            if lost or not twice:
                del replica.inbox[place]
            if not lost:
                replica.hear(announcement)

    @rule(data=st.data())
    def lose_mail(self, data: st.DataObject) -> None:
        """All that is under way to one."""
        self.some(data).inbox.clear()

    @rule(data=st.data(), held=st.sampled_from([Hold.NONE, *Hold]))
    def hold(self, data: st.DataObject, held: Hold) -> None:
        """A replica expects an owner back, or its broker has trouble."""
        replica = self.some(data)
        replica.do(replica.election.hold(held))

    @rule(seconds=st.sampled_from([STEP_S, 0.3, 1.0, 3.0]), dry=st.booleans())
    def pass_time(self, seconds: float, *, dry: bool) -> None:
        """With the broker answering or not; no mail comes."""
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.step()
            if dry:
                self.world.run_dry()
            self.note()

    @rule()
    def settle(self) -> None:
        """Nothing is lost for a while: somebody owns the topic, and the best of all follows."""
        world = self.world
        for replica in world.replicas:
            replica.do(replica.election.hold(Hold.NONE))
        world.run_dry()
        world.settle(SETTLED_S)
        self.note()
        if world.broker.owner is None:
            assert not world.waiting(), "they wait for nobody"
            return
        waiting = world.waiting()
        owner = world.broker.owner
        owner.replica.leave(owner.contender)
        world.run_dry()
        assert waiting == [] or world.broker.owner is not None, "nobody follows"
        if waiting and world.broker.owner is not None:
            followed = world.broker.owner.contender
            best = waiting[0][1]
            assert followed.rank[:2] == best.rank[:2], f"{followed} is not the best: {waiting}"
            assert followed.since - best.since <= TOGETHER_S, f"{followed} was not there first: {waiting}"
            assert followed.stage is Stage.OWNER

    @invariant()
    def note(self) -> None:
        """Nobody waits for nothing, but for so long."""
        world = self.world
        held = any(each.election.held is not Hold.NONE for each in world.replicas)
        if held or not world.idle:
            self.idle_since = self.vacant_since = self.witness = None
            return
        waiting = [contender for _, contender in world.waiting()]
        if self.witness not in waiting:
            self.witness, self.vacant_since = waiting[0], world.now
        if self.idle_since is None:
            self.idle_since = world.now
        assert self.vacant_since is not None
        assert world.now - self.idle_since <= IDLE_S_MAX, "nobody is asked for"
        assert world.now - self.vacant_since <= PATIENCE_S + IDLE_S_MAX, "one waits for others that come and go"

    @invariant()
    def turns_are_given_away_a_few_times_only(self) -> None:
        """Before somebody owns the topic."""
        assert self.world.yields <= YIELDS_IN_A_ROW

    @invariant()
    def one_owner_at_most(self) -> None:
        """The broker's."""
        owners = [each for each in self.world.replicas if each.election.owner is not None]
        for each in owners:
            assert each.handle is not None
            assert self.world.broker.owner is each.handle
        assert len(owners) <= 1


TestLives = Lives.TestCase
TestLives.settings = lives(100, 60)


def test_an_order_over_all_replicas() -> None:
    """Whoever came in whatever order to whichever replica, the best of all is next; equals in order of arrival."""
    world = World(REPLICAS)
    world.replicas[0].arrive(0)
    world.settle(1)
    for number, priority in enumerate((1, 5, 3, 5, 2, 9, 0, 7, 9)):
        world.replicas[number % REPLICAS].arrive(priority)
        world.settle(0.2)
    promoted = []
    while world.broker.owner is not None:
        owner = world.broker.owner
        promoted.append(-owner.contender.rank[1])
        owner.replica.leave(owner.contender)
        world.settle(0.2)
    assert promoted == [0, 9, 9, 7, 5, 5, 3, 2, 1, 0]
    assert world.yields == 0


def test_when_the_replica_of_the_best_dies_the_next_is_promoted_in_time() -> None:
    """Whether the best waited at the broker, or with the owner's replica."""
    for owners in (0, 1):
        world = World(REPLICAS)
        world.replicas[owners].arrive(0)
        world.settle(1)
        world.replicas[1].arrive(9)
        world.settle(1)
        world.replicas[2].arrive(5)
        world.settle(1)
        world.crash(world.replicas[1])
        if owners == 0:
            assert world.broker.owner is not None
            world.replicas[0].leave(world.broker.owner.contender)
        world.settle(IDLE_S_MAX)
        assert world.broker.owner is not None
        assert world.broker.owner.replica is world.replicas[2]


def test_mail_that_is_lost_costs_the_order_and_nobody_their_turn() -> None:
    """A replica that hears nothing asks for its own; one that is heard of no more is not waited for."""
    world = World(2)
    for replica, priority in zip(world.replicas, (1, 9), strict=True):
        replica.arrive(priority)
    for _ in range(int(2 * (IDLE_S_MAX + LATE_S) / STEP_S)):
        world.step()
        world.run_dry()
        for replica in world.replicas:
            replica.inbox.clear()
    assert world.broker.owner is not None
    assert len(world.broker.line) == 1
