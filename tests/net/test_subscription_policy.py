"""Who may join whom: policy, sticky ranges, and what the broker must judge first."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.net.subscription.policy import is_migrating
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, schema, sticky
from tests.net.subscription_rig_broker import T
from tests.net.test_subscription_join import ORDERING_MODE, mode, out_of_order

# ---- policy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({}, {"keySharedMeta": sticky((0, 9))}, "AUTO_SPLIT, not STICKY"),
        ({"keySharedMeta": sticky((0, 9))}, {}, "STICKY, not AUTO_SPLIT"),
        ({}, {"keySharedMeta": out_of_order()}, "allowOutOfOrderDelivery=False"),
        ({"keySharedMeta": out_of_order()}, {}, "allowOutOfOrderDelivery=True"),
        ({}, {"metadata": mode("last_sent_position")}, f"{ORDERING_MODE}=draining_hashes"),
        ({"metadata": mode("last_sent_position")}, {"metadata": mode("draining_hashes")}, "last_sent_position"),
    ],
)
def test_a_worker_that_wants_another_policy_is_refused_as_busy(
    first: dict[str, Any], second: dict[str, Any], words: str
) -> None:
    """What the first connected worker settled holds for all; the code is the broker's, the text says what differs."""
    rig = SubscriptionRig()
    rig.worker("a", **first)
    code, text = rig.subscribe("b", **second).error()
    assert code == pb.ConsumerBusy
    assert words in text
    assert rig.count == 1


def test_a_worker_that_says_nothing_of_the_ordering_mode_joins_what_is_there() -> None:
    """Only who names a mode can disagree with it: unmodified clients name none."""
    rig = SubscriptionRig()
    rig.worker("a", metadata=mode("last_sent_position"))
    rig.worker("b")
    assert rig.statistics().subscriptions[0].dispatcher.ordering_mode == "last_sent_position"


def test_an_ordering_mode_that_does_not_exist_is_named_with_those_that_do() -> None:
    """The property is the user's to mend, so the text lists the values; nothing goes to the broker."""
    rig = SubscriptionRig()
    code, text = rig.subscribe("a", metadata=mode("chaos")).error()
    assert code == pb.NotAllowedError
    assert "'chaos'" in text
    assert "draining_hashes, last_sent_position, unordered" in text
    assert rig.brokers.locates == 0


@pytest.mark.parametrize(
    "wish", [{"read_compacted": True}, {"keySharedMeta": sticky((9, 0))}], ids=["compacted", "sticky"]
)
def test_a_subscription_whose_first_worker_is_refused_leaves_nothing_behind(wish: dict[str, Any]) -> None:
    """Or refused workers, each with a name of its own, would use up the places of all subscriptions."""
    rig = SubscriptionRig()
    rig.subscribe("a", **wish).error()
    assert rig.count == 0
    assert len(rig.subscriptions) == 0
    rig.worker("b")


@pytest.mark.parametrize("name", ["keyline.ordering_mode", "keyline.batch-index", "keyline."])
def test_a_property_for_the_gateway_that_it_does_not_know_is_refused(name: str) -> None:
    """Whoever misspells one would otherwise wonder for long why it has no effect; other people's are no matter."""
    rig = SubscriptionRig()
    properties = [pb.KeyValue(key="team", value="billing"), pb.KeyValue(key=name, value="exact")]
    code, text = rig.subscribe("a", metadata=properties).error()
    assert code == pb.NotAllowedError
    assert f"property: {name};" in text
    assert "keyline.ordering-mode" in text


def test_when_all_workers_left_another_policy_may_begin() -> None:
    """As at the broker: with no consumer connected the first one settles everything anew."""
    rig = SubscriptionRig()
    rig.worker("a").close()
    rig.worker("b", keySharedMeta=sticky((0, 65_535)))
    assert rig.statistics().subscriptions[0].key_shared_mode == "STICKY"


def test_sticky_ranges_that_overlap_are_a_consumer_assign_error() -> None:
    """The first keeps its range, the second is told whose way it is in, and a third beside both joins."""
    rig = SubscriptionRig()
    rig.worker("a", keySharedMeta=sticky((0, 100)))
    code, text = rig.subscribe("b", keySharedMeta=sticky((100, 200))).error()
    assert code == pb.ConsumerAssignError
    assert "a" in text
    assert "[0, 100]" in text
    rig.worker("c", keySharedMeta=sticky((101, 200)))


@pytest.mark.parametrize("ranges", [(), ((5, 2),), ((0, 10), (10, 20)), ((0, 65_536),), ((-1, 5),)])
def test_sticky_ranges_that_are_wrong_in_themselves_are_a_consumer_assign_error(
    ranges: tuple[tuple[int, int], ...],
) -> None:
    """None, backwards, overlapping or outside the space; the last one to leave ends the subscription."""
    rig = SubscriptionRig()
    assert rig.subscribe("a", keySharedMeta=sticky(*ranges)).error()[0] == pb.ConsumerAssignError
    assert rig.count == 0
    assert rig.link.consumers == {}


def test_key_shared_with_read_compacted_is_refused_whoever_asks_first() -> None:
    """The broker allows it to Exclusive and Failover only; the second worker is not let in where the first is not."""
    rig = SubscriptionRig()
    rig.worker("a")
    code, text = rig.subscribe("b", read_compacted=True).error()
    assert code == pb.NotAllowedError
    assert "readCompacted" in text


# ---- schema ----------------------------------------------------------------------------------------------------------


def test_a_schema_the_broker_has_not_seen_from_us_is_put_to_it_first() -> None:
    """As an Exclusive consumer, which is refused as busy while ours is connected: that is a yes."""
    rig = SubscriptionRig()
    rig.worker("a", schema=schema("one"))
    rig.link.taken(T.SUBSCRIBE)
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("b", schema=schema("two"))
    (probe,) = rig.link.taken(T.SUBSCRIBE)
    assert probe.subscribe.subType == pb.CommandSubscribe.Exclusive
    assert probe.subscribe.schema == schema("two")
    assert worker.commands() == []
    rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "Exclusive consumer is already connected")
    assert worker.answers() == [T.SUCCESS]
    rig.worker("c", schema=schema("two"))
    assert rig.link.taken(T.SUBSCRIBE) == []


def test_a_schema_the_broker_refuses_is_refused_in_its_words() -> None:
    """The worker that brought it is told, others stay, and the consumer id of the probe is given up."""
    rig = SubscriptionRig()
    first = rig.worker("a", schema=schema("one"))
    rig.link.refusals[T.SUBSCRIBE] = (pb.IncompatibleSchema, "Incompatible schema")
    worker = rig.subscribe("b", schema=schema("two"))
    assert worker.error() == (pb.IncompatibleSchema, "Incompatible schema")
    assert worker.forgotten
    assert first.commands() == []
    assert len(rig.link.consumers) == 1


def test_a_probe_that_is_let_in_by_accident_leaves_at_once() -> None:
    """When our own consumer was away just then; its worker joins, for the schema was taken."""
    rig = SubscriptionRig()
    rig.worker("a", schema=schema("one"))
    worker = rig.subscribe("b", schema=schema("two"))
    probe = rig.link.sent(T.SUBSCRIBE)[-1].subscribe.consumer_id
    assert [command.close_consumer.consumer_id for command in rig.link.sent(T.CLOSE_CONSUMER)] == [probe]
    assert worker.answers() == [T.SUCCESS]
    assert probe not in rig.link.consumers


def test_a_probe_that_timed_out_is_closed_at_the_broker() -> None:
    """Let in late, it would be an Exclusive consumer that keeps everybody out."""
    rig = SubscriptionRig()
    rig.worker("a", schema=schema("one"))
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("b", schema=schema("two"))
    probe = rig.link.time_out(T.SUBSCRIBE).subscribe.consumer_id
    assert worker.error()[0] == pb.ServiceNotReady
    assert [command.close_consumer.consumer_id for command in rig.link.sent(T.CLOSE_CONSUMER)] == [probe]


def test_a_worker_that_leaves_while_its_schema_is_probed_does_not_keep_the_subscription() -> None:
    """When the others left too, the probe's answer finds nobody and the subscription ends."""
    rig = SubscriptionRig()
    first = rig.worker("a", schema=schema("one"))
    rig.link.held.add(T.SUBSCRIBE)
    second = rig.subscribe("b", schema=schema("two"))
    first.close()
    second.lose()
    rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "Exclusive consumer is already connected")
    assert rig.count == 0
    assert rig.link.consumers == {}


# ---- migration -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "topic", "migrates"),
    [
        ("orders s", "orders", True),
        ("persistent://public/default/orders s", "orders", True),
        ("orders s", "orders-partition-3", True),
        ("orders-partition-3 s", "orders-partition-3", True),
        ("orders other", "orders", False),
        ("order s", "orders", False),
        ("orders s", "orders-partition-", False),
        ("public/*/ord* ?", "orders", True),
        ("* *", "orders", True),
        ("private/default/* s", "orders", False),
    ],
)
def test_a_migrating_subscription_is_named_with_its_topic(pattern: str, topic: str, *, migrates: bool) -> None:
    """All partitions of it are meant; a pattern fits whole names."""
    patterns = ("private/default/x y", pattern)
    assert is_migrating((f"persistent://public/default/{topic}", "s"), patterns) == migrates
