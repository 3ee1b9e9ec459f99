"""The table of owners that every replica keeps, and what makes it: a leader of 1,024 bundles."""

from __future__ import annotations

from proxy.groups.bundles import BUNDLES_DEFAULT, DEPLOYMENT, bundle_of
from proxy.groups.encoding import encode
from proxy.groups.held_streams import Release
from proxy.groups.kept_orders import KeptOrders
from proxy.groups.leader import GroupLeader, LeaderAct, Store
from proxy.groups.leader_messages import Tell
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import (
    FromLeader,
    FromSession,
    LeaseStreams,
    SessionId,
    UpdateStreams,
)
from proxy.groups.ownership import Owner, OwnershipTable
from proxy.groups.session import GroupSession, Send
from proxy.groups.timing import GroupTiming
from tests.groups.rig import ALICE, BOB

TIMING = GroupTiming()
KIB = 1024


def record(epoch: int, *owners: tuple[int, SessionId], addresses: dict[str, str] | None = None) -> GroupMemory:
    """Of eight bundles."""
    return GroupMemory(epoch, "a", 1, 8, owners, addresses=tuple((addresses or {}).items()))


def test_nothing_is_known_at_first() -> None:
    """Neither owners nor how many bundles there are."""
    table = OwnershipTable()
    assert (table.bundles_count, table.epoch, table.leader, table.owner(0)) == (0, 0, None, None)


def test_the_table_says_who_has_a_bundle_and_where() -> None:
    """By the last record; a bundle that is not in it is nobody's, or moves."""
    table = OwnershipTable()
    assert table.learn(record(1, (0, ALICE), (3, BOB), addresses={"a": "10.0.0.1:6670"}))
    assert table.owner(0) == Owner("a", "10.0.0.1:6670", 1)
    assert table.owner(3) == Owner("b", "", 1)
    assert table.owner(1) is None
    assert (table.bundles_count, table.epoch, table.leader) == (8, 1, "a")
    assert table.shares() == [("a", "10.0.0.1:6670", 1), ("b", "", 1)]
    assert table.learn(record(1, (3, ALICE)))
    assert table.owner(0) is None
    assert table.shares() == [("a", "", 1)]


def test_what_a_former_leader_says_late_changes_nothing() -> None:
    """Whatever is of an epoch that is over."""
    table = OwnershipTable()
    table.learn(record(2, (0, BOB)))
    assert not table.learn(record(1, (0, ALICE)))
    assert table.owner(0) == Owner("b", "", 2)


def test_a_record_that_says_the_same_is_no_news() -> None:
    """Those that wait for a change are not woken for it."""
    table = OwnershipTable()
    table.learn(record(1, (0, BOB)))
    assert not table.learn(record(1, (0, BOB)))


class Deployment:
    """A leader and its sessions, all of which hear each other at once."""

    def __init__(self) -> None:
        self.now = 100.0
        self.leader = GroupLeader(DEPLOYMENT, GroupMemory(1, "r0", 0, BUNDLES_DEFAULT), TIMING, self.now, self.now)
        self.sessions: dict[SessionId, GroupSession] = {}
        self.records: list[bytes] = []
        self.said: list[FromSession | FromLeader] = []
        self.table = OwnershipTable()
        self.moved = 0

    def join(self, replica: str) -> None:
        """One more replica."""
        session = SessionId(replica, 1)
        self.sessions[session] = joined = GroupSession(DEPLOYMENT, session, TIMING, 1, self.now)
        joined.address = f"{replica}:6670"
        self.from_session(joined, [*joined.start(self.now)])

    def from_session(self, session: GroupSession, acts: list[object]) -> None:
        """Carry out what it wants; what it is to release has gone at once."""
        released = [act.stream for act in acts if isinstance(act, Release)]
        for act in acts:
            if isinstance(act, Send):
                self.said.append(act.message)
                self.from_leader(self.leader.receive(act.message, self.now))
        if released:
            self.moved += len(released)
            self.from_session(session, [*session.released_each(released, self.now)])

    def from_leader(self, acts: list[LeaderAct]) -> None:
        """The same; what it stores is stored at once."""
        for act in acts:
            if isinstance(act, Store):
                self.records.append(encode(act.record, DEPLOYMENT))
                self.table.learn(act.record)
                self.from_leader(self.leader.stored(self.now))
            elif isinstance(act, Tell):
                self.said.append(act.message)
                session = self.sessions[act.message.header.session]
                self.from_session(session, [*session.receive(act.message, self.now)])

    def live(self, seconds: int) -> None:
        """So long, a tenth of a second at a time."""
        for _ in range(10 * seconds):
            self.now += 0.1
            self.from_leader(self.leader.tick(self.now))
            for session in self.sessions.values():
                self.from_session(session, [*session.tick(self.now)])


def test_replicas_share_all_bundles_evenly_with_few_moves() -> None:
    """Every replica finds every bundle's owner and its address; who comes gets a third, and nothing else moves."""
    deployment = Deployment()
    deployment.join("r0")
    deployment.join("r1")
    deployment.live(3)
    assert deployment.moved == 0
    deployment.join("r2")
    deployment.live(3)
    assert deployment.moved == 341
    assert [replica for replica, _, _ in deployment.table.shares()] == ["r0", "r1", "r2"]
    assert sorted(bundles for _, _, bundles in deployment.table.shares()) == [341, 341, 342]
    owner = deployment.table.owner(0)
    assert owner is not None
    assert owner.address == f"{owner.replica}:6670"
    assert max(map(len, deployment.records)) < 6 * KIB


def test_a_replica_without_weight_owns_nothing_and_is_still_found() -> None:
    """An operator has drained it; it leads workers to others, which find it."""
    deployment = Deployment()
    for replica in ("r0", "r1", "r2"):
        deployment.join(replica)
    deployment.live(3)
    drained = deployment.sessions[SessionId("r1", 1)]
    deployment.from_session(drained, [*drained.weigh(0, deployment.now)])
    deployment.live(3)
    assert deployment.table.shares() == [("r0", "r0:6670", 512), ("r1", "r1:6670", 0), ("r2", "r2:6670", 512)]
    deployment.from_session(drained, [*drained.weigh(1, deployment.now)])
    deployment.live(3)
    assert sorted(bundles for _, _, bundles in deployment.table.shares()) == [341, 341, 342]


def test_a_subscription_is_moved_to_a_certain_replica_and_stays() -> None:
    """Its bundle goes there and another comes back; when that replica comes again by its name, it goes there again."""
    deployment = Deployment()
    for replica in ("r0-aa", "r1-bb", "r2-cc"):
        deployment.join(replica)
    deployment.live(3)
    # One of the first bundles: those are given away first.
    name = next(name for name in map(str, range(10_000)) if bundle_of("topic", name, BUNDLES_DEFAULT) < 3)
    bundle = bundle_of("topic", name, BUNDLES_DEFAULT)
    owner = deployment.table.owner(bundle)
    assert owner is not None
    target = next(replica for replica, _, _ in deployment.table.shares() if replica != owner.replica)
    deployment.moved = 0
    wish = KeptOrders("topic", name, 1, "{}", target.partition("-")[0])
    deployment.from_leader(deployment.leader.keep_orders(wish, deployment.now))
    deployment.live(3)
    moved = deployment.table.owner(bundle)
    assert moved is not None
    assert moved.replica == target
    assert deployment.moved == 2
    assert sorted(bundles for _, _, bundles in deployment.table.shares()) == [341, 341, 342]
    deployment.live(20)
    assert deployment.moved == 2, "it stays"
    deployment.join("r3-ee")
    deployment.live(3)
    assert deployment.table.owner(bundle) == moved
    assert deployment.moved == 2 + BUNDLES_DEFAULT // 4, "it is not given away and taken back"
    session = deployment.sessions[SessionId(target, 1)]
    deployment.from_session(session, [*session.leave(deployment.now)])
    deployment.live(3)
    elsewhere = deployment.table.owner(bundle)
    assert elsewhere is not None
    assert elsewhere.replica != target
    again = target.partition("-")[0] + "-dd"
    deployment.join(again)
    deployment.live(3)
    back = deployment.table.owner(bundle)
    assert back is not None
    assert back.replica == again
    counts = [bundles for replica, _, bundles in deployment.table.shares() if replica != target]
    assert max(counts) - min(counts) <= 1


def test_an_idle_deployment_says_little_and_stores_nothing() -> None:
    """A report and a renewal a second for each replica, a few hundred bytes each, however many bundles there are."""
    deployment = Deployment()
    for number in range(3):
        deployment.join(f"r{number}")
    deployment.live(3)
    deployment.said.clear()
    deployment.records.clear()
    deployment.live(20)
    assert not deployment.records
    assert len(deployment.said) <= 3 * 2 * 21
    assert max(len(encode(message, DEPLOYMENT)) for message in deployment.said) < KIB // 2
    assert not any(isinstance(message, LeaseStreams | UpdateStreams) for message in deployment.said)
