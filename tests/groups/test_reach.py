"""Where a leader lets bundles go whose owner some replicas do not reach."""

from __future__ import annotations

from proxy.groups.bundles import bundle_of
from proxy.groups.kept_orders import KeptOrders
from proxy.groups.messages import OfReach, SessionId, WorkersServed, WorkersWait
from proxy.groups.reach import FRESH_S, PIN_S, Reach
from tests.groups.rig import ALICE, BOB, CAROL, GROUP, TIMING, LeaderRig

DELAY = TIMING.balance_delay_s
MINE = 3
"""A bundle of Alice's."""


def wait(replica: str, *reached: str, owner: str = "a", bundles: tuple[int, ...] = (MINE,)) -> WorkersWait:
    """Workers at a replica wait for what Alice has."""
    return WorkersWait(GROUP, replica, owner, bundles, reached)


def serve(*reached: str, served: bool, owner: str = "a") -> WorkersServed:
    """Alice's answer."""
    return WorkersServed(GROUP, owner, (MINE,), (MINE,) if served else (), reached)


def chosen(*said: OfReach, replicas: tuple[SessionId, ...] = (ALICE, BOB), owner: SessionId = ALICE) -> str:
    """Who is to have it after all that; the owner if it stays."""
    reach, sessions = Reach(), {each.replica: each for each in replicas}
    for each in said:
        reach.hear(each, {MINE: owner}, sessions, 0.0)
    return reach.wanted(sessions, 0.0, {}).get(MINE, owner).replica


def test_it_goes_where_its_only_workers_are() -> None:
    """As soon as the owner says that it has none, and not before it says anything."""
    assert chosen(wait("b"), serve(served=False)) == "b"
    assert chosen(serve(served=False), wait("b")) == "b"
    assert chosen(wait("b")) == "a"
    assert chosen(serve(served=False)) == "a"


def test_it_stays_with_an_owner_that_has_workers_of_it_unless_one_is_between() -> None:
    """No replica is better off: that would go back and forth. A third one that both reach serves both."""
    everybody = (ALICE, BOB, CAROL)
    assert chosen(wait("b"), serve(served=True)) == "a"
    assert chosen(wait("b"), serve("c", served=True), replicas=everybody) == "a"
    assert chosen(wait("b", "c"), serve(served=True), replicas=everybody) == "a"
    assert chosen(wait("b", "c"), serve("c", served=True), replicas=everybody) == "c"
    assert chosen(wait("b", "c"), serve("c", served=True)) == "a", "one that takes part no more"


def test_it_goes_to_the_one_that_most_of_them_reach() -> None:
    """Of several that do not reach the owner."""
    everybody = (ALICE, BOB, CAROL, SessionId("d", 1))
    assert chosen(wait("b", "c"), wait("c"), serve("c", "d", served=False), replicas=everybody) == "c"
    assert chosen(wait("b", "d"), wait("c", "d"), serve("d", served=True), replicas=everybody) == "d"


def test_only_what_the_owner_has_still_moves() -> None:
    """A word that is late is about an owner of before."""
    assert chosen(wait("c"), serve(served=False), owner=BOB) == "b"


def test_a_word_counts_for_a_while() -> None:
    """It is repeated as long as it is true."""
    reach, sessions = Reach(), {"a": ALICE, "b": BOB}
    assert not reach.hear(wait("b"), {MINE: ALICE}, sessions, 0.0)
    assert not reach.hear(serve(served=False), {MINE: ALICE}, sessions, FRESH_S)
    assert reach.hear(wait("b"), {MINE: ALICE}, sessions, FRESH_S + 1.0)
    assert not reach.hear(wait("b"), {MINE: ALICE}, sessions, FRESH_S + 1.5), "said before"


def test_what_moved_stays_for_a_while() -> None:
    """So that no balance gives it back meanwhile."""
    reach, sessions = Reach(), {"a": ALICE, "b": BOB}
    reach.hear(wait("b"), {MINE: ALICE}, sessions, 0.0)
    reach.hear(serve(served=False), {MINE: ALICE}, sessions, 0.0)
    assert reach.wanted(sessions, PIN_S - 1.0, {}) == {MINE: BOB}
    assert reach.wanted({"a": ALICE}, PIN_S - 1.0, {}) == {}
    assert reach.wanted(sessions, PIN_S, {}) == {}


def parted() -> tuple[LeaderRig, int]:
    """Alice and Bob share four bundles and do not reach each other; one of Alice's."""
    rig = LeaderRig()
    for each in (ALICE, BOB):
        rig.joined(each)
    rig.wait(DELAY)
    for each in (ALICE, BOB):
        rig.confirm(each)
    return rig, next(stream for stream, owner in rig.leader.owners.items() if owner == ALICE)


def test_a_leader_moves_it_as_it_moves_any() -> None:
    """Alice is told to give it back, and only then Bob gets it; each keeps its share."""
    rig, bundle = parted()
    rig.take(rig.leader.hear_reach(wait("b", bundles=(bundle,)), rig.now))
    rig.take(rig.leader.hear_reach(WorkersServed(GROUP, "a", (bundle,), (), ()), rig.now))
    assert ("update", "a") in [said[:2] for said in rig.wait(DELAY)]
    assert rig.leader.owners[bundle] == ALICE
    back = next(stream for stream, owner in rig.leader.owners.items() if owner == BOB)
    rig.confirm(ALICE, bundle)
    rig.confirm(BOB, back)
    rig.wait(DELAY)
    assert rig.leader.owners[bundle] == BOB


def test_an_operators_order_is_stronger() -> None:
    """The operator says where it is to be, and takes that back: it stays there."""
    rig, bundle = parted()
    name = next(f"t{number}" for number in range(1_000) if _bundle(f"t{number}") == bundle)
    rig.take(rig.leader.keep_orders(KeptOrders(name, "s", 1, "text", replica="a"), rig.now))
    rig.take(rig.leader.hear_reach(wait("b", bundles=(bundle,)), rig.now))
    rig.take(rig.leader.hear_reach(WorkersServed(GROUP, "a", (bundle,), (), ()), rig.now))
    assert [said for said in rig.wait(DELAY) if said[0] == "update"] == []
    rig.take(rig.leader.keep_orders(KeptOrders(name, "s", 2, "text"), rig.now))
    assert [said for said in rig.wait(DELAY) if said[0] == "update"] == []


def _bundle(topic: str) -> int:
    return bundle_of(topic, "s", 4)
