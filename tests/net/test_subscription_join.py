"""Workers join: order of answers, what comes before the answer, and who is refused in which words."""

from __future__ import annotations

from proxy.errors import UpstreamError, UpstreamUnavailable
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, schema, sticky
from tests.net.subscription_rig_broker import TOPIC, T, single

ORDERING_MODE = "keyline.ordering-mode"


def mode(value: str) -> list[pb.KeyValue]:
    """The consumer property that chooses an ordering mode."""
    return [pb.KeyValue(key=ORDERING_MODE, value=value)]


def out_of_order() -> pb.KeySharedMeta:
    """A subscriber that wants no order."""
    return pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT, allowOutOfOrderDelivery=True)


def test_the_first_worker_is_answered_after_the_broker_answered_us() -> None:
    """No Success before ours: the broker may refuse what the worker asks for."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("a")
    assert worker.commands() == []
    rig.link.answer(T.SUBSCRIBE)
    (answer,) = worker.commands()
    assert (answer.type, answer.success.request_id) == (T.SUCCESS, 1_001)


def test_workers_that_came_before_the_broker_answered_join_in_the_order_they_came() -> None:
    """One SUBSCRIBE goes upstream for all of them, and who came first is first in every assignment."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    workers = [rig.subscribe(name) for name in ("a", "b", "c")]
    rig.link.answer(T.SUBSCRIBE)
    assert [worker.answers() for worker in workers] == [[T.SUCCESS]] * 3
    assert [worker.name for worker in rig.subscription.state.dispatcher.workers.values()] == ["a", "b", "c"]
    assert len(rig.link.sent(T.SUBSCRIBE)) == 1


def test_what_goes_upstream_shapes_the_subscription_as_the_worker_asked_but_is_our_own_consumer() -> None:
    """Position, schema and properties are the worker's; name, metadata, priority and ranges are not passed on."""
    rig = SubscriptionRig(replica_name="replica-3")
    rig.subscribe(
        "a",
        initialPosition=pb.CommandSubscribe.Earliest,
        schema=schema("order"),
        priority_level=4,
        consumer_epoch=9,
        metadata=[pb.KeyValue(key="team", value="billing")],
        subscription_properties=[pb.KeyValue(key="cost", value="7")],
        keySharedMeta=sticky((0, 100)),
    )
    (command,) = rig.link.sent(T.SUBSCRIBE)
    ours = command.subscribe
    assert (ours.topic, ours.subscription, ours.subType) == (TOPIC, "s", pb.CommandSubscribe.Key_Shared)
    assert (ours.initialPosition, ours.schema) == (pb.CommandSubscribe.Earliest, schema("order"))
    assert [pair.key for pair in ours.subscription_properties] == ["cost"]
    assert ours.consumer_name == "replica-3"
    assert [(pair.key, pair.value) for pair in ours.metadata] == [("keyline.replica", "replica-3")]
    assert not ours.priority_level
    assert not ours.HasField("consumer_epoch")
    assert (ours.keySharedMeta.keySharedMode, list(ours.keySharedMeta.hashRanges)) == (pb.AUTO_SPLIT, [])


def test_permits_granted_before_the_answer_count_when_the_worker_joined() -> None:
    """A client may pipeline FLOW behind SUBSCRIBE; nothing it granted is lost, and nothing is sent before Success."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("a")
    worker.flow(3)
    worker.flow(2)
    rig.link.answer(T.SUBSCRIBE)
    rig.link.deliver(*[(entry, single("k")) for entry in range(9)])
    assert worker.answers() == [T.SUCCESS]
    assert worker.entries() == [0, 1, 2, 3, 4]


def test_a_broker_that_refuses_us_is_quoted_to_every_worker_that_waits() -> None:
    """Code and words are the broker's, under each worker's request id, and the subscription is gone."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    workers = [rig.subscribe(name) for name in ("a", "b")]
    rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "Exclusive consumer is already connected")
    for worker, request_id in zip(workers, (1_001, 1_002), strict=True):
        (answer,) = worker.commands()
        assert answer.error.request_id == request_id
        assert (answer.error.error, answer.error.message) == (
            pb.ConsumerBusy,
            "Exclusive consumer is already connected",
        )
        assert worker.forgotten
    assert rig.count == 0
    assert rig.link.consumers == {}


def test_a_topic_that_cannot_be_located_is_the_workers_error() -> None:
    """A refused lookup goes to the worker in the broker's words; without a broker it may try again."""
    rig = SubscriptionRig()
    rig.brokers.error = UpstreamError("Policies not found for public/nowhere namespace", pb.TopicNotFound)
    assert rig.subscribe("a").error() == (pb.TopicNotFound, "Policies not found for public/nowhere namespace")
    rig.brokers.error = UpstreamUnavailable("no broker could be reached")
    assert rig.subscribe("b").error()[0] == pb.ServiceNotReady
    assert rig.count == 0


def test_the_next_worker_after_a_refusal_starts_anew() -> None:
    """A refusal is not remembered: what was wrong may have been mended."""
    rig = SubscriptionRig()
    rig.link.refusals[T.SUBSCRIBE] = (pb.TopicNotFound, "no such topic")
    rig.subscribe("a")
    rig.link.refusals.clear()
    rig.worker("b")
    assert rig.count == 1


def test_a_subscribe_that_timed_out_is_closed_at_the_broker() -> None:
    """The broker may carry it out later: a consumer nobody listens to would keep its share of the keys for ever."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("a")
    timed_out = rig.link.time_out(T.SUBSCRIBE).subscribe.consumer_id
    assert worker.error()[0] == pb.ServiceNotReady
    assert [command.close_consumer.consumer_id for command in rig.link.sent(T.CLOSE_CONSUMER)] == [timed_out]


def test_a_worker_without_a_name_gets_one_of_its_own() -> None:
    """Names are unique on the gateway, and begin with its own."""
    rig = SubscriptionRig(replica_name="replica-3")
    rig.worker()
    rig.worker()
    names = [worker.name for worker in rig.subscription.state.dispatcher.workers.values()]
    assert len(set(names)) == 2
    assert all(name.startswith("replica-3-") for name in names)


# ---- any command at any moment ---------------------------------------------------------------------------------------


def test_a_worker_that_closes_before_the_answer_gets_its_success() -> None:
    """The last one that waits takes the attempt with it: nothing of ours stays at the broker."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("a")
    worker.close(77)
    (answer,) = worker.commands()
    assert (answer.type, answer.success.request_id) == (T.SUCCESS, 77)
    assert rig.count == 0
    assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 1
    rig.link.answer(T.SUBSCRIBE)
    assert worker.commands() == []


def test_a_worker_that_is_lost_before_the_answer_is_not_answered() -> None:
    """Nothing goes through a link after its connection is gone; the one that still waits joins."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    first, second = rig.subscribe("a"), rig.subscribe("b")
    first.lose()
    rig.link.answer(T.SUBSCRIBE)
    assert first.commands() == []
    assert second.answers() == [T.SUCCESS]


def test_requests_before_the_answer_are_told_to_try_again() -> None:
    """A worker that has not joined has no place to ask from; each request is answered all the same."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("a")
    worker.ask_last_message_id(1)
    worker.seek(5, 2)
    worker.unsubscribe(3)
    answers = worker.commands()
    assert [(answer.error.request_id, answer.error.error) for answer in answers] == [
        (1, pb.ServiceNotReady),
        (2, pb.ServiceNotReady),
        (3, pb.ServiceNotReady),
    ]
    assert worker.ask_stats().error_code == pb.ConsumerNotFound
    worker.redeliver()
    worker.ack(1)
    assert worker.commands() == []


def test_a_worker_that_disagrees_may_be_gone_before_it_is_told() -> None:
    """The refusal comes in a later turn; who left in between is not written to, and who closed gets its Success."""
    rig = SubscriptionRig()
    rig.worker("a")
    lost = rig.subscribe("b", settle=False, keySharedMeta=sticky((0, 9)))
    lost.lose()
    closed = rig.subscribe("c", settle=False, keySharedMeta=sticky((0, 9)))
    closed.close(5)
    assert lost.commands() == []
    assert closed.answers() == [T.SUCCESS]


def test_a_worker_refused_for_its_property_has_every_request_answered() -> None:
    """A close that came with the SUBSCRIBE is a Success, anything else the same refusal."""
    rig = SubscriptionRig()
    worker = rig.subscribe("a", settle=False, metadata=mode("chaos"))
    worker.port.ack(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, request_id=3))
    worker.port.ack(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual))
    worker.port.seek(pb.CommandSeek(consumer_id=1, request_id=4))
    worker.port.close(5)
    rig.clock.settle()
    receipt, seek, close = worker.commands()
    assert (receipt.ackResponse.request_id, receipt.ackResponse.error) == (3, pb.NotAllowedError)
    assert (seek.error.request_id, seek.error.error) == (4, pb.NotAllowedError)
    assert (close.type, close.success.request_id) == (T.SUCCESS, 5)


def test_a_second_worker_that_wants_a_volatile_subscription_is_put_to_the_broker() -> None:
    """Durable or not is the subscription's, and the broker refuses the wrong one in its own words."""
    rig = SubscriptionRig()
    rig.worker("a")
    rig.link.refusals[T.SUBSCRIBE] = (pb.NotAllowedError, "Durable subscription with the same name already exists.")
    code, text = rig.subscribe("b", durable=False).error()
    assert (code, text) == (pb.NotAllowedError, "Durable subscription with the same name already exists.")


def test_a_new_schema_waits_for_the_broker_while_we_are_reconnecting() -> None:
    """Nobody can judge it meanwhile, so nobody lets it in."""
    rig = SubscriptionRig()
    rig.worker("a", schema=schema("one"))
    rig.brokers.held = True
    rig.link.lose()
    worker = rig.subscribe("b", schema=schema("two"))
    known = rig.subscribe("c", schema=schema("one"))
    assert worker.commands() == []
    assert known.answers() == [T.SUCCESS]
    rig.brokers.new_link().held.add(T.SUBSCRIBE)
    rig.clock.advance(0)
    rig.brokers.found()
    rig.link.answer(T.SUBSCRIBE)  # whether it is alone
    rig.brokers.found()
    rig.link.answer(T.SUBSCRIBE)
    rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "Exclusive consumer is already connected")
    assert worker.answers() == [T.SUCCESS]


def test_a_worker_whose_schema_is_probed_is_told_when_the_gateway_stops() -> None:
    """It has no consumer to close: its SUBSCRIBE fails so that it tries elsewhere."""
    rig = SubscriptionRig()
    rig.worker("a", schema=schema("one"))
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("b", schema=schema("two"))
    rig.subscriptions.close()
    rig.clock.settle()
    assert worker.error()[0] == pb.ServiceNotReady
    assert worker.forgotten
    rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "Exclusive consumer is already connected")
    assert worker.commands() == []
