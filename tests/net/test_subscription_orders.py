"""Operators' orders: carried out at once, still standing when every worker has come anew, taken back whole."""

from __future__ import annotations

import pytest

from proxy.core.dispatcher import OrderingMode
from proxy.core.explain import explain_slot
from proxy.errors import ClientError
from proxy.net.events import LISTED_MAX
from proxy.net.subscription import order_book
from proxy.net.subscription.order_book import LimitsWanted, OrderBook, Orders
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, sticky
from tests.net.subscription_rig_broker import T, single
from tests.net.test_subscription_join import mode, out_of_order


def test_a_paused_subscription_delivers_nothing_until_it_is_resumed() -> None:
    """Acknowledgements go on meanwhile."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((0, single("k")))
    rig.subscription.orders.pause()
    rig.link.deliver((1, single("k")))
    worker.ack(0)
    assert worker.entries() == [0]
    assert len(rig.link.acked()) == 1
    rig.subscription.orders.resume()
    rig.clock.settle()
    assert worker.entries() == [1]
    assert rig.subscriptions.orders.keys() == []


def test_a_pause_outlives_the_workers() -> None:
    """The subscription ends with its last worker; whoever comes then finds it paused."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.subscription.orders.pause()
    worker.close()
    assert rig.count == 0
    later = rig.worker("b", permits=9)
    rig.link.deliver((0, single("k")))
    assert later.entries() == []
    rig.subscription.orders.resume()
    rig.clock.settle()
    assert later.entries() == [0]


def test_a_gateway_that_shuts_down_is_not_resumed() -> None:
    """Its drain would never end."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.subscription.orders.pause()
    rig.link.deliver((0, single("k")))
    rig.subscriptions.drain(lambda: None)
    rig.subscription.orders.resume()
    rig.clock.settle()
    assert worker.entries() == []


def test_a_drained_worker_stays_drained_when_it_comes_again() -> None:
    """It is named, not numbered; taken back, it gets what waited."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    assert rig.subscription.orders.drain("a", drained=True) == 1
    worker.close()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((0, single("k")))
    assert worker.entries() == []
    assert rig.subscription.orders.drain("a", drained=False) == 1
    rig.clock.settle()
    assert worker.entries() == [0]
    assert rig.subscriptions.orders.keys() == []


def test_an_evicted_workers_messages_go_to_others() -> None:
    """Its client is told as by a broker, and may come again."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=99)
    other = rig.worker("b", permits=99)
    rig.link.deliver(*[(entry, single(f"k{entry}")) for entry in range(20)])
    held = worker.entries()
    other.entries()
    assert held
    assert rig.subscription.orders.evict("a") == 1
    rig.clock.settle()
    assert worker.answers()[-1] == T.CLOSE_CONSUMER
    assert worker.forgotten
    assert sorted(other.entries()) == held
    assert rig.subscription.orders.evict("a") == 0


def test_the_last_worker_evicted_ends_the_subscription() -> None:
    """As if it had left."""
    rig = SubscriptionRig()
    rig.worker("a", permits=9)
    rig.subscription.orders.evict("a")
    rig.clock.settle()
    assert rig.count == 0


def test_another_mode_holds_for_those_who_come_later() -> None:
    """Also for a client that asks for the former one by name: it agrees with what the first worker asked for."""
    rig = SubscriptionRig()
    asked = {"metadata": mode("draining_hashes")}
    rig.worker("a", permits=9, **asked).close()
    rig.worker("a", permits=9, **asked)
    rig.subscription.orders.change_mode(OrderingMode.LAST_SENT_POSITION)
    rig.worker("b", permits=9, **asked)
    assert rig.subscription.worker_count == 2
    assert rig.subscription.state.dispatcher.mode is OrderingMode.LAST_SENT_POSITION


def test_delivery_without_order_is_no_operators_choice() -> None:
    """Neither into it nor out of it."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    with pytest.raises(ClientError, match="allowOutOfOrderDelivery"):
        rig.subscription.orders.change_mode(OrderingMode.UNORDERED)
    worker.close()
    rig.worker("a", permits=9, keySharedMeta=out_of_order())
    with pytest.raises(ClientError, match="allowOutOfOrderDelivery"):
        rig.subscription.orders.change_mode(OrderingMode.DRAINING_HASHES)
    assert rig.subscriptions.orders.keys() == []


def test_limits_hold_at_once_and_for_those_who_come_later() -> None:
    """And those not named are the configuration's."""
    rig = SubscriptionRig(max_unacked_messages_per_worker=7)
    worker = rig.worker("a", permits=9)
    rig.subscription.orders.change_limits(LimitsWanted(max_unacked_messages_per_worker=2))
    rig.link.deliver(*[(entry, single("k")) for entry in range(3)])
    assert worker.entries() == [0, 1]
    worker.close()
    worker = rig.worker("a", permits=9)
    rig.link.deliver(*[(entry, single("k")) for entry in range(3)])
    assert worker.entries() == [0, 1]
    rig.subscription.orders.change_limits(LimitsWanted())
    rig.clock.settle()
    assert worker.entries() == [2]
    assert rig.subscription.state.settings.max_unacked_messages_per_worker == 7
    assert rig.subscriptions.orders.keys() == []


def test_only_so_many_subscriptions_may_have_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are remembered while nobody is there, so they are bounded; those that stand can be changed."""
    monkeypatch.setattr(order_book, "ORDERS_MAX", 1)
    book = OrderBook()
    with book.changing(("t", "s")) as orders:
        orders.paused = True
    with pytest.raises(ClientError, match="standing orders"), book.changing(("t", "other")):
        pass
    with book.changing(("t", "s")) as orders:
        assert orders.paused
    assert not Orders().any


def test_an_excluded_workers_keys_go_to_others_for_as_long_as_it_is_excluded() -> None:
    """At once, and also when its client comes again, which is let in and gets nothing until it is readmitted."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=99)
    other = rig.worker("b", permits=99)
    rig.link.deliver(*[(entry, single(f"k{entry}")) for entry in range(20)])
    held = worker.entries()
    assert held
    other.entries()
    assert rig.subscription.orders.exclude("a", excluded=True) == 1
    rig.clock.settle()
    assert sorted(other.entries()) == held
    assert worker.answers() == [T.CLOSE_CONSUMER]
    again = rig.worker("a", permits=99)
    again.ack(*held)
    rig.link.deliver(*[(entry, single(f"k{entry}")) for entry in range(20, 40)])
    assert again.entries() == []
    assert other.entries() == list(range(20, 40))
    assert rig.subscription.orders.exclude("a", excluded=False) == 1
    rig.clock.settle()
    assert again.answers() == [], "it was told that it is subscribed when it came"
    rig.link.deliver(*[(entry, single(f"n{entry}")) for entry in range(40, 60)])
    assert again.entries(), "what it granted while it was excluded counts"
    assert rig.subscriptions.orders.keys() == []


def test_a_subscription_that_begins_tells_who_is_excluded() -> None:
    """Some of very many: an event is bounded."""
    assert Orders().told() == {}
    assert Orders(excluded={"b", "a"}).told() == {"excluded": ["a", "b"]}
    names = {f"w{number}" for number in range(LISTED_MAX + 1)}
    assert len(Orders(excluded=names).told()["excluded"]) == LISTED_MAX


def test_an_excluded_workers_acknowledgement_in_a_transaction_is_refused() -> None:
    """What it had is others': its transaction fails, and does not wait for an answer for ever."""
    rig = SubscriptionRig()
    rig.worker("a", permits=9)
    rig.worker("b", permits=9)
    rig.subscription.orders.exclude("a", excluded=True)
    rig.clock.settle()
    again = rig.worker("a")
    command = pb.CommandAck(
        consumer_id=again.consumer_id,
        ack_type=pb.CommandAck.Individual,
        request_id=6,
        txnid_most_bits=1,
        txnid_least_bits=2,
    )
    command.message_id.add(ledgerId=1, entryId=0)
    again.port.ack(command)
    receipt = again.receipt()
    assert (receipt.request_id, receipt.error) == (6, pb.TransactionConflict)


def test_an_excluded_worker_whose_slots_are_anothers_by_then_comes_again() -> None:
    """It was told that it is subscribed, so it hears that this is over, and its client asks once more."""
    rig = SubscriptionRig()
    rig.worker("a", permits=9, keySharedMeta=sticky((0, 100)))
    rig.worker("c", permits=9, keySharedMeta=sticky((200, 65_535)))
    rig.subscription.orders.exclude("a", excluded=True)
    rig.clock.settle()
    again = rig.worker("a", permits=9, keySharedMeta=sticky((0, 100)))
    rig.worker("b", permits=9, keySharedMeta=sticky((0, 100)))
    rig.subscription.orders.exclude("a", excluded=False)
    rig.clock.settle()
    assert again.answers() == [T.CLOSE_CONSUMER]


def test_while_all_are_excluded_keys_wait_and_say_so() -> None:
    """The subscription stays at the broker for them."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=99)
    rig.link.deliver((0, single("k")))
    rig.subscription.orders.exclude("a", excluded=True)
    rig.clock.settle()
    assert worker.entries() == [0]
    again = rig.worker("a", permits=99)
    dispatcher = rig.subscription.state.dispatcher
    found = explain_slot(dispatcher, 5, rig.clock.now())
    assert "join or be readmitted by an operator" in found.unblocks
    assert rig.count == 1
    rig.subscription.orders.exclude("a", excluded=False)
    rig.clock.settle()
    rig.link.deliver((0, single("k")))
    assert again.entries() == [0]


@pytest.mark.parametrize("how", ["close", "lose"])
def test_an_excluded_worker_that_leaves_ends_the_subscription_if_it_was_the_last(how: str) -> None:
    """As any other."""
    rig = SubscriptionRig()
    rig.worker("a", permits=99)
    rig.subscription.orders.exclude("a", excluded=True)
    rig.clock.settle()
    again = rig.worker("a")
    getattr(again, how)()
    assert rig.count == 0
    if how == "close":
        assert again.answers() == [T.SUCCESS]


def test_an_excluded_worker_is_disconnected_with_the_others() -> None:
    """By a seek of one of them, for instance."""
    rig = SubscriptionRig()
    rig.worker("a")
    rig.worker("b")
    rig.subscription.orders.exclude("a", excluded=True)
    rig.clock.settle()
    again = rig.worker("a")
    rig.subscription.disconnect_workers()
    assert again.answers() == [T.CLOSE_CONSUMER]
    assert rig.subscription.worker_count == 0
    assert rig.subscription.state.dispatcher.excluded == 0


def test_an_exclusion_that_was_ordered_elsewhere_is_carried_out() -> None:
    """In owner mode it comes with the group's records."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    other = rig.worker("b", permits=9)
    rig.subscription.orders.take_over(Orders(excluded={"a"}))
    rig.clock.settle()
    assert worker.answers() == [T.CLOSE_CONSUMER]
    rig.link.deliver((0, single("k0")), (1, single("k1")), (2, single("k2")))
    assert other.entries() == [0, 1, 2]
    rig.subscription.orders.take_over(Orders())
    assert rig.subscriptions.orders.keys() == []
