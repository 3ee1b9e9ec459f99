"""Operators' orders of a deployment: whichever replica serves a subscription, and whichever leads, they stand."""

from __future__ import annotations

import random
from itertools import count

import pytest

from proxy.core.dispatcher import OrderingMode
from proxy.groups.encoding import decode_message, decode_record, encode
from proxy.groups.kept_orders import ORDERS_MAX, TAKEN_BACK_MAX, TEXT_MAX, KeptOrders, OrdersKept
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import KeepOrders
from proxy.net.owner.shared_orders import AGAIN_S, SharedOrders
from proxy.net.subscription.order_book import LimitsWanted, Orders
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import TOPIC
from tests.thorough import drawn

KEY = (TOPIC, "s")


NUMBERS = count(1)


class Leader:
    """Whichever leads keeps what it is told, and every replica reads the record when the test lets it."""

    def __init__(self) -> None:
        self.record = GroupMemory()
        self.told: list[KeptOrders] = []
        self.deaf = False

    def hear(self, data: bytes) -> None:
        """A replica wants something to be kept."""
        message = decode_message(data)
        assert isinstance(message, KeepOrders)
        self.told.append(message.orders)
        if not self.deaf:
            self.keep(message.orders)

    def keep(self, orders: KeptOrders) -> None:
        """As a leader does, and the next one with the record of the one before."""
        kept = OrdersKept(self.record.orders)
        if kept.keep(orders):
            self.record = decode_record(encode(GroupMemory(1, "leader", orders=kept.all())))


class Replica(SubscriptionRig):
    """With its order book and, when it serves the subscription, worker `a`."""

    def __init__(self, leader: Leader, *, serves: bool = False) -> None:
        super().__init__()
        self.leader = leader
        self.shared = SharedOrders(f"replica-{next(NUMBERS)}", self.subscriptions, self.clock, leader.hear)
        if serves:
            self.worker("a", permits=10)

    def read(self) -> None:
        """The last record."""
        self.shared.learn(self.leader.record)

    @property
    def orders(self) -> Orders:
        """What stands here."""
        return self.subscriptions.orders.of(KEY)


def test_an_order_is_known_to_every_replica_and_holds_at_the_next_owner() -> None:
    """All of them, and it is carried out when the subscription comes."""
    leader = Leader()
    owner, other = Replica(leader, serves=True), Replica(leader)
    owner.subscription.orders.pause()
    owner.subscription.orders.drain("a", drained=True)
    owner.subscription.orders.change_mode(OrderingMode.LAST_SENT_POSITION)
    owner.subscription.orders.change_limits(LimitsWanted(max_unacked_messages_per_worker=7, key_window=1))
    owner.subscription.orders.exclude("x", excluded=True)
    other.read()
    assert other.orders == owner.orders
    other.worker("a")
    state = other.subscription.state
    assert state.dispatcher.paused
    assert state.policy.mode is OrderingMode.LAST_SENT_POSITION
    assert state.settings.max_unacked_messages_per_worker == 7
    assert state.dispatcher.window == 1
    other.worker("x")
    assert state.dispatcher.excluded == 1
    assert [worker.drained_by_operator for worker in state.dispatcher.workers.values()] == [True]
    assert leader.told[-1].number == 5


def test_what_is_ordered_at_one_replica_of_streams_holds_at_all() -> None:
    """Each serves its own workers of it; of two orders at the same time the last one that is kept holds at both."""
    leader = Leader()
    one, other = Replica(leader, serves=True), Replica(leader, serves=True)
    one.subscription.orders.pause()
    for replica in (one, other):
        replica.read()
    assert other.subscription.state.dispatcher.paused
    other.subscription.orders.resume()
    for replica in (other, one):
        replica.read()
    assert not one.subscription.state.dispatcher.paused
    one.subscription.orders.change_limits(LimitsWanted(key_window=1))
    other.subscription.orders.change_limits(LimitsWanted(key_window=2))
    for _ in range(2):
        for replica in (one, other):
            replica.read()
            replica.clock.advance(AGAIN_S)
    assert one.orders == other.orders
    assert [replica.subscription.state.dispatcher.window for replica in (one, other)] == [2, 2]


def test_a_record_that_comes_after_the_subscription_is_carried_out_too() -> None:
    """The next owner may begin before it has read the last record; and it does not tell the leader what it read."""
    leader = Leader()
    owner, late = Replica(leader, serves=True), Replica(leader, serves=True)
    owner.subscription.orders.pause()
    owner.subscription.orders.drain("a", drained=True)
    told = len(leader.told)
    late.read()
    assert late.subscription.state.dispatcher.paused
    assert late.orders == owner.orders
    assert len(leader.told) == told
    owner.read()
    owner.subscription.orders.resume()
    owner.subscription.orders.drain("a", drained=False)
    late.read()
    assert [replica.subscription.state.dispatcher.paused for replica in (owner, late)] == [False, False]
    assert not late.orders.any


def test_the_leader_is_told_until_a_record_has_it() -> None:
    """Mail may be lost, and a leader may be."""
    leader = Leader()
    owner = Replica(leader, serves=True)
    leader.deaf = True
    owner.subscription.orders.pause()
    owner.clock.advance(3.5 * AGAIN_S)
    assert len(leader.told) == 4
    leader.deaf = False
    owner.clock.advance(AGAIN_S)
    owner.read()
    owner.clock.advance(10 * AGAIN_S)
    assert len(leader.told) == 5
    assert leader.record.orders[0].number == 1


def test_what_a_former_owner_says_late_is_not_the_last_word() -> None:
    """Both were told to change the same number; the one that serves the subscription now tells its own again."""
    leader = Leader()
    former, owner = Replica(leader), Replica(leader, serves=True)
    leader.deaf = True
    with former.subscriptions.orders.changing(KEY) as orders:
        orders.paused = True
    owner.subscription.orders.drain("a", drained=True)
    leader.deaf = False
    former.clock.advance(AGAIN_S)
    owner.read()
    assert not owner.subscription.state.dispatcher.paused
    owner.clock.advance(AGAIN_S)
    former.read()
    former.clock.advance(AGAIN_S)
    assert former.orders == owner.orders == Orders(drained={"a"})


@pytest.mark.parametrize("reads_first", [False, True])
def test_two_orders_of_a_former_owner_are_not_the_last_word_either(reads_first: bool) -> None:  # noqa: FBT001 - a case
    """It counted on while it was cut off, beyond what the present owner has had kept; and then it comes back."""
    leader = Leader()
    former, owner = Replica(leader), Replica(leader, serves=True)
    leader.deaf = True
    for paused, drained in ((True, set()), (True, {"b"})):
        with former.subscriptions.orders.changing(KEY) as orders:
            orders.paused, orders.drained = paused, drained
    leader.deaf = False
    owner.subscription.orders.drain("a", drained=True)
    owner.read()
    if reads_first:
        former.read()
    for _ in range(3):
        former.clock.advance(AGAIN_S)
        owner.read()
        assert not owner.subscription.state.dispatcher.paused
        owner.clock.advance(AGAIN_S)
        former.read()
    assert former.orders == owner.orders == Orders(drained={"a"})


def test_a_late_repetition_does_not_bring_back_what_was_taken_back() -> None:
    """It is remembered for a while that nothing is asked."""
    leader = Leader()
    owner = Replica(leader, serves=True)
    owner.subscription.orders.pause()
    owner.read()
    paused = leader.told[0]
    owner.subscription.orders.resume()
    leader.keep(paused)
    owner.read()
    assert not owner.orders.any
    assert [(each.number, each.text) for each in leader.record.orders] == [(2, "")]


def test_orders_of_a_newer_release_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """What stands here goes on to stand, and the log says so."""
    leader = Leader()
    owner = Replica(leader, serves=True)
    leader.keep(KeptOrders(*KEY, 5, '{"paused": "sometimes"}'))
    owner.read()
    assert not owner.orders.any
    assert "kept orders not understood" in capsys.readouterr().out


def test_orders_that_are_too_long_stay_here(capsys: pytest.CaptureFixture[str]) -> None:
    """The group's record has all of them."""
    leader = Leader()
    owner = Replica(leader, serves=True)
    owner.subscription.orders.drain("n" * TEXT_MAX, drained=True)
    assert leader.told == []
    assert "orders not kept" in capsys.readouterr().out


def test_what_is_kept_is_bounded() -> None:
    """Orders by their number and length, those taken back by their number; the latest stay."""
    kept = OrdersKept(())
    assert all(kept.keep(KeptOrders("t", str(number), 1, "x")) for number in range(ORDERS_MAX))
    assert not kept.keep(KeptOrders("t", "more", 1, "x"))
    assert not kept.keep(KeptOrders("t", "0", 2, "x" * (TEXT_MAX + 1)))
    assert kept.keep(KeptOrders("t", "0", 2, "y"))
    assert all(kept.keep(KeptOrders("t", str(number), 3, "")) for number in range(ORDERS_MAX))
    assert [each.subscription for each in kept.all()] == [
        str(number) for number in range(ORDERS_MAX - TAKEN_BACK_MAX, ORDERS_MAX)
    ]


def test_all_agree_in_the_end() -> None:
    """Orders at the replica that serves the subscription, over mail and records that come late or not at all."""
    for seed in range(drawn(500)):
        _live(random.Random(seed))  # noqa: S311 - to be repeated


def _live(draw: random.Random) -> None:
    leader = Leader()
    replicas = [Replica(leader) for _ in range(3)]
    owner = replicas[0]
    for _ in range(40):
        leader.deaf = draw.random() < 0.3
        deed = draw.randrange(5)
        if deed == 0:
            owner = draw.choice(replicas)
        elif deed == 1:
            with owner.subscriptions.orders.changing(KEY) as orders:
                orders.paused = draw.random() < 0.5
        elif deed == 2:
            with owner.subscriptions.orders.changing(KEY) as orders:
                orders.drained ^= {draw.choice("abc")}
                orders.excluded ^= {draw.choice("abc")}
        elif draw.random() < 0.5:
            draw.choice(replicas).read()
        else:
            draw.choice(replicas).clock.advance(AGAIN_S)
    leader.deaf = False
    for _ in range(4):
        for replica in replicas:
            replica.clock.advance(AGAIN_S)
            replica.read()
    assert [replica.orders for replica in replicas] == [replicas[0].orders] * 3
    told = len(leader.told)
    for replica in replicas:
        replica.clock.advance(10 * AGAIN_S)
    assert len(leader.told) == told
