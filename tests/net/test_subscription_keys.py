"""Windows and retry delays of keys on the wire: who asks for them, one timer, and ids that clients can acknowledge."""

from __future__ import annotations

import pytest

from proxy.core.explain import SlotState, explain_slot
from proxy.net.subscription.order_book import LimitsWanted
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, batch, single
from tests.net.test_subscription_join import out_of_order

ONE = {"key_window": 1}


def asking(**numbers: object) -> list[pb.KeyValue]:
    """Consumer properties."""
    return [pb.KeyValue(key="keyline." + name.replace("_", "-"), value=str(value)) for name, value in numbers.items()]


def seen(worker: Worker, nacked: list[int]) -> list[int]:
    """Entries in the order in which the worker gets them; it gives `nacked` back and acknowledges everything else."""
    entries = []
    while messages := worker.messages():
        for message in messages:
            entries.append(message.entry)
            if message.entry in nacked:
                nacked.remove(message.entry)
                worker.redeliver(message)
            else:
                worker.ack(message)
    return entries


@pytest.mark.parametrize(
    ("settings", "properties"),
    [
        (ONE, {}),
        ({}, {"key_window": 1}),
        ({"key_policies": ("orders* ? key_window=1",)}, {}),
        ({"key_window": 9, "key_policies": ("other s key_window=5", "* * key_window=1", "orders s key_window=7")}, {}),
        ({"key_policies": ("* * key_window=5",)}, {"key_window": 1}),
    ],
)
def test_the_first_worker_or_the_configuration_asks_for_a_window(
    settings: dict[str, object], properties: dict[str, object]
) -> None:
    """For all, for those that a rule matches, or by consumer property: the case is the same, 0 given back twice."""
    rig = SubscriptionRig(**settings)
    worker = rig.worker("a", permits=50, metadata=asking(**properties))
    rig.link.deliver(*((entry, single("k")) for entry in range(5)))
    assert seen(worker, [0, 0]) == [0, 0, 0, 1, 2, 3, 4]


def test_without_a_window_later_messages_overtake() -> None:
    """As with a broker."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=50)
    rig.link.deliver(*((entry, single("k")) for entry in range(5)))
    assert seen(worker, [0, 0]) == [0, 1, 2, 3, 4, 0, 0]


def test_a_batch_is_acknowledged_upstream_when_its_last_message_is() -> None:
    """Its messages come one at a time, each as a batch of its own with an id of its own; the entry is acked once."""
    rig = SubscriptionRig(**ONE, upstream_batch_index_ack=False)
    worker = rig.worker("a", permits=50)
    rig.link.deliver((0, batch([("k", b"0"), ("k", b"1"), ("k", b"2")])))
    payloads, ids = [], set()
    nacks = 1
    while messages := worker.messages():
        (message,) = messages
        payloads += message.payloads
        ids.add((message.ledger, message.entry))
        if payloads == [b"0", b"1"] and nacks:
            nacks = 0
            worker.redeliver(message)
        else:
            assert not rig.link.acked()
            worker.ack(message)
    assert payloads == [b"0", b"1", b"1", b"2"]
    assert len(ids) == 3
    assert rig.link.acked() == [(LEDGER, 0)]
    assert not rig.subscription.state.dispatcher.outstanding.bytes_held


def test_acks_of_single_messages_go_upstream_by_index() -> None:
    """So that a gateway that is killed repeats less."""
    rig = SubscriptionRig(**ONE)
    worker = rig.worker("a", permits=50)
    rig.link.deliver((0, batch([("k", b"0"), ("k", b"1"), ("k", b"2")])))
    (message,) = worker.messages()
    worker.ack(message)
    batch_left = rig.subscription.state.dispatcher.outstanding.index_acks
    assert [found.unacked for found in batch_left.values()] == [0b110]


def test_a_retry_waits_for_its_delay_by_one_timer() -> None:
    """From the moment it is given back; another key's comes when its own is over."""
    rig = SubscriptionRig(retry_delay_ms=200, retry_multiplier=2.0)
    worker = rig.worker("a", permits=50)
    rig.link.deliver((0, single("k")), (1, single("k")), (2, single("l")))
    assert worker.entries() == [0, 1, 2]
    before = rig.clock.waiting
    worker.redeliver(0)
    rig.clock.advance(0.1)
    worker.redeliver(2)
    assert rig.clock.waiting == before + 1
    assert worker.entries() == []
    rig.clock.advance(0.1)
    assert worker.entries() == [0]
    rig.clock.advance(0.1)
    assert worker.entries() == [2]
    worker.redeliver(0)
    rig.clock.advance(0.3)
    assert worker.entries() == []
    rig.clock.advance(0.1)
    assert worker.entries() == [0]
    assert rig.clock.waiting == before


def test_an_unblocking_interval_ends_before_a_longer_retry() -> None:
    """The timer that is set for the later one is set again."""
    rig = SubscriptionRig(retry_delay_ms=5_000, key_shared_unblocking_interval_ms=100)
    old = rig.worker("a", permits=50)
    probe = rig.worker("b", permits=50)
    moved, kept = rig.key_for("b"), rig.key_for("a")
    probe.close()
    rig.link.deliver((0, single(moved)), (1, single(kept)))
    new = rig.worker("b", permits=50)
    rig.link.deliver((2, single(moved)))
    old.redeliver(1)
    old.ack(0)
    assert new.entries() == []
    rig.clock.advance(0.1)
    assert new.entries() == [2]
    assert old.entries() == [0, 1]
    rig.clock.advance(4.9)
    assert old.entries() == [1]


def test_the_end_of_a_subscription_leaves_no_timer() -> None:
    """The broker has the message again."""
    rig = SubscriptionRig(retry_delay_ms=5_000)
    worker = rig.worker("a", permits=50)
    before = rig.clock.waiting
    rig.link.deliver((0, single("k")))
    worker.redeliver(*worker.messages())
    worker.close()
    assert rig.count == 0
    assert rig.clock.waiting <= before


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"key_window": "-1"}, "keyline.key-window='-1' must be a whole number from 0 to 1,000,000"),
        ({"key_window": "many"}, "must be a whole number"),
        ({"key_window": "1.5"}, "must be a whole number"),
        ({"retry_multiplier": "0.5"}, "keyline.retry-multiplier='0.5' must be a number from 1 to 100"),
        ({"retry_delay_max_ms": "0"}, "from 1 to 86,400,000"),
        ({"key_windows": "1"}, "no such consumer property: keyline.key-windows"),
    ],
)
def test_a_property_that_is_none_is_refused_with_the_reason(properties: dict[str, object], words: str) -> None:
    """By the code after which clients give up and show the text."""
    rig = SubscriptionRig()
    code, text = rig.subscribe("a", metadata=asking(**properties)).error()
    assert code == pb.NotAllowedError
    assert words in text
    assert rig.brokers.locates == 0


@pytest.mark.parametrize("properties", [{"retry_delay_ms": 6_000}, {"retry_delay_max_ms": 40}])
def test_a_delay_that_contradicts_the_configuration_is_refused(properties: dict[str, object]) -> None:
    """As a rule of the configuration is: later orders and configurations would be told of it."""
    rig = SubscriptionRig(retry_delay_ms=50, retry_delay_max_ms=5_000)
    code, text = rig.subscribe("a", metadata=asking(**properties)).error()
    assert code == pb.NotAllowedError
    assert "above its maximum" in text
    assert rig.count == 0


def test_a_window_without_order_is_refused() -> None:
    """It would promise what the other option gives up."""
    rig = SubscriptionRig()
    code, text = rig.subscribe("a", metadata=asking(key_window=1), keySharedMeta=out_of_order()).error()
    assert code == pb.NotAllowedError
    assert "allowOutOfOrderDelivery" in text


def test_a_configured_window_leaves_workers_alone_that_want_no_order() -> None:
    """It has no effect on them."""
    rig = SubscriptionRig(**ONE)
    worker = rig.worker("a", permits=50, keySharedMeta=out_of_order())
    rig.link.deliver((0, single("k")), (1, single("k")))
    assert worker.entries() == [0, 1]


def test_a_later_worker_may_not_ask_for_another_window() -> None:
    """One that asks for the same, or for none, joins."""
    rig = SubscriptionRig()
    rig.worker("a", metadata=asking(key_window=2))
    rig.worker("b")
    rig.worker("c", metadata=asking(key_window=2))
    code, text = rig.subscribe("d", metadata=asking(key_window=1)).error()
    assert code == pb.ConsumerBusy
    assert "keyline.key-window=2" in text


def test_an_operators_window_stands_until_it_is_taken_back() -> None:
    """Also when every worker has come anew; then what the workers ask for holds again."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=50, metadata=asking(key_window=2))
    rig.link.deliver(*((entry, single("k")) for entry in range(6)))
    assert worker.entries() == [0, 1]
    rig.subscription.orders.change_limits(LimitsWanted(key_window=3))
    rig.clock.settle()
    assert worker.entries() == [2]
    worker.close()
    worker = rig.worker("a", permits=50, metadata=asking(key_window=2))
    rig.link.deliver(*((entry, single("k")) for entry in range(6)))
    assert worker.entries() == [0, 1, 2]
    rig.subscription.orders.change_limits(LimitsWanted())
    rig.clock.settle()
    worker.ack(0)
    assert worker.entries() == []
    worker.ack(1)
    assert worker.entries() == [3]
    assert rig.subscriptions.orders.keys() == []


def test_the_explanation_names_the_window_and_the_retry() -> None:
    """With what ends them."""
    rig = SubscriptionRig(key_window=2, retry_delay_ms=1_500)
    worker = rig.worker("a", permits=50)
    rig.link.deliver(*((entry, single("k")) for entry in range(3)))
    dispatcher = rig.subscription.state.dispatcher
    (slot,) = dispatcher.blocked

    def told() -> tuple[SlotState, str, float | None]:
        found = explain_slot(dispatcher, slot, rig.clock.now())
        return found.state, found.unblocks, found.released_in_s

    numbers = rig.statistics().subscriptions[0].dispatcher
    assert (numbers.full_windows, numbers.retry_waits) == (1, 0)
    state, sentence, released_in_s = told()
    assert state is SlotState.WINDOW_FULL
    assert "a must acknowledge or give back one of 2 messages of the slot" in sentence
    assert released_in_s is None
    worker.redeliver(0)
    rig.clock.advance(0.5)
    state, sentence, released_in_s = told()
    assert state is SlotState.RETRY_WAIT
    numbers = rig.statistics().subscriptions[0].dispatcher
    assert (numbers.full_windows, numbers.retry_waits) == (0, 1)
    assert dispatcher.retries.messages_total == 1
    assert sentence == "nothing: it goes to a in 1.000 s, when the delay of its retry ends"
    assert released_in_s == pytest.approx(1.0)
