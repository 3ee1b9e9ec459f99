"""Producers that wait for a topic of their own (PIP-440), on real brokers that know nothing of priorities.

Official clients show that they understand what the gateway tells them; raw frames show epochs and exact answers. What
happens past the gateway, directly at the broker, is part of it: nobody has to connect through the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pulsar
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from proxy.wire import pulsar_pb2 as pb
from tests.integration.clients import receive, subscribe
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.exclusive_rig import (
    BROKER_CLOSES,
    EXCLUSIVE,
    FENCE,
    PRIORITY,
    SHARED,
    SUCCESS,
    Scene,
    Told,
    TopicClient,
    administer,
    feed_of,
)
from tests.integration.raw_client import ConnectionEndedError
from tests.net.producer_rig import close, want

NewTopic = Callable[[str], str]


@pytest.fixture
def scene(broker: PulsarStandalone, gateway: KeylineGateway, new_topic: NewTopic) -> Iterator[Scene]:
    """A topic that nobody has asked for yet."""
    with ExitStack() as clients:
        yield Scene(broker, gateway, new_topic("exclusive"), clients)


def owner_and_waiters(scene: Scene, *priorities: int) -> tuple[TopicClient, list[TopicClient]]:
    """An owner, and others through the gateway that wait for it with these priorities."""
    owner = scene.ours()
    assert owner.owns() == 0
    return owner, [scene.ours().waits(priority) for priority in priorities]


def check_untold(*clients: TopicClient) -> None:
    """None of them was told anything yet that was not read."""
    assert [client.heard() for client in clients] == [[] for _ in clients]


# ---- the order


def test_python_clients_are_promoted_by_priority_and_equals_by_arrival(scene: Scene, client: pulsar.Client) -> None:
    """Whatever order they came in; nobody who owns the topic is replaced, and who owns it can send."""
    consumer = subscribe(client, scene.topic, pulsar.ConsumerType.Exclusive)
    with feed_of(scene.gateway, scene.topic) as feed:
        producer = scene.patient().producer()
        feed.until("producer_promoted")  # one that has just begun lets the owner wait as well
        waiting = []
        for priority in (1, 9, -4, 5, 5):
            waiting.append(scene.patient(priority))
            feed.until("producer_queued")
    assert all(patient.waiting for patient in waiting)
    producer.send(b"owner")
    for place in (1, 3, 4, 0, 2):
        producer.close()
        producer = waiting[place].producer()
        producer.send(str(place).encode())
        assert sum(not patient.waiting for patient in waiting) == [1, 3, 4, 0, 2].index(place) + 1
    received = [receive(consumer).data() for _ in range(6)]
    assert received == [b"owner", b"1", b"3", b"4", b"0", b"2"]


def test_the_best_follows_an_owner_whose_connection_breaks(scene: Scene) -> None:
    """With one epoch more each time, and no epoch is lost on the way."""
    owner, (low, high, middle) = owner_and_waiters(scene, 1, 5, 3)
    owner.close()
    assert high.promoted() == 1
    check_untold(low, middle)
    high.sends(b"high")
    high.close()
    assert middle.promoted() == 2
    middle.close()
    assert low.promoted() == 3


def test_the_field_counts_where_property_and_field_are_given(scene: Scene) -> None:
    """Field 14 is the one that PIP-440 adds."""
    owner, _ = owner_and_waiters(scene)
    property_says_more = scene.ours().waits(9, field=1)
    only_the_field = scene.ours().waits(field=5)
    owner.leaves()
    assert only_the_field.promoted() == 1
    only_the_field.leaves()
    assert property_says_more.promoted() == 2


def test_a_priority_that_is_none_is_refused(scene: Scene) -> None:
    """For good, in words that name the property; where nobody waits it is not looked at."""
    client = scene.ours()
    client.want("high")
    answer = client.hears()
    assert answer.word == "NotAllowedError"
    assert PRIORITY in answer.text
    client.owns("high", mode=EXCLUSIVE)


def test_one_that_leaves_is_skipped_and_costs_no_epoch(scene: Scene) -> None:
    """Closed while it is held, or its connection broken; the broker never knew of either."""
    owner, (closed, dropped, alive) = owner_and_waiters(scene, 9, 8, 7)
    closed.leaves()
    dropped.close()
    owner.leaves()
    assert alive.promoted() == 1
    check_untold(closed)
    assert closed.waits(3).heard() == []
    alive.leaves()
    assert closed.promoted() == 2


def test_one_that_is_closed_while_the_broker_creates_it_leaves_the_topic(scene: Scene) -> None:
    """A broker 4.2.4 that is sent both at once confirms the close and creates the producer after that."""
    client = scene.ours()
    assert client.owns() == 0
    client.leaves()
    client.send(want(2000, topic=scene.topic) + close(2001))
    while client.hears()[:2] != (2001, SUCCESS):
        pass
    assert scene.direct().owns(mode=EXCLUSIVE) == 2


def waiting_at_broker(scene: Scene) -> int:
    """How many wait at the broker itself."""
    return int(administer(scene.broker, "GET", scene.topic, "stats")["waitingPublishers"])


# ---- those whose turn comes and who fail


def test_one_that_the_broker_refuses_is_followed_by_the_next(scene: Scene) -> None:
    """Its schema does not fit the topic's: it is told so when its turn has come, and the next owns the topic."""
    owner = scene.ours()
    owner.owns(schema=pb.Schema.String)
    misfits = [scene.ours().waits(9 - number, schema=pb.Schema.Int64) for number in range(3)]
    fits = scene.ours().waits(1, schema=pb.Schema.String)
    owner.leaves()
    assert [misfit.hears().word for misfit in misfits] == ["IncompatibleSchema"] * 3
    assert fits.promoted() == 1


def test_all_that_wait_for_a_topic_that_is_terminated_are_told(scene: Scene) -> None:
    """One after another: none of them waits for ever."""
    owner, waiting = owner_and_waiters(scene, 1, 2, 3)
    administer(scene.broker, "POST", scene.topic, "terminate")
    assert owner.hears() == Told(1, BROKER_CLOSES)
    assert [client.hears().word for client in waiting] == ["TopicTerminatedError"] * 3


# ---- past the gateway


def test_a_better_one_that_comes_while_a_worse_one_is_parked_goes_first(scene: Scene) -> None:
    """The broker promotes the one it knows, which is withdrawn without its client's knowing: an epoch is spent."""
    outsider = scene.direct()
    assert outsider.owns() == 0
    worse = scene.ours().waits(1)
    better = scene.ours().waits(5)
    outsider.leaves()
    assert better.promoted() == 2
    check_untold(worse)
    better.leaves()
    assert worse.promoted() == 3


def test_ours_wait_for_a_shared_producer_past_the_gateway(scene: Scene) -> None:
    """Until it leaves; it has no epoch."""
    outsider = scene.direct()
    outsider.want(mode=SHARED)
    assert outsider.hears().word == "ready"
    ours = scene.ours().waits(1)
    outsider.leaves()
    assert ours.promoted() == 0


@pytest.mark.parametrize(("mode", "error"), [(EXCLUSIVE, "ProducerFenced"), (SHARED, "ProducerBusy")])
def test_others_are_refused_past_the_gateway_while_one_of_ours_owns_the_topic(
    scene: Scene, mode: int, error: str
) -> None:
    """It does at the broker too. Its leaving is not theirs to use while others of ours wait."""
    owner, (waiting,) = owner_and_waiters(scene, 1)
    outsider = scene.direct()
    assert outsider.refused(mode=mode) == error
    owner.leaves()
    assert waiting.promoted() == 1
    assert outsider.refused(mode=mode) == error


def test_the_brokers_own_queue_is_in_order_of_arrival(scene: Scene) -> None:
    """One that waits past the gateway has its turn there; ours are there one at a time, from when they are next."""
    owner, (high, low) = owner_and_waiters(scene, 9, 1)
    before, after = scene.direct().waits(), scene.direct()
    owner.leaves()
    assert before.promoted() == 1
    check_untold(high, low)
    eventually(lambda: waiting_at_broker(scene) == 1, "the best of ours at the broker")
    after.waits()
    before.leaves()
    assert high.promoted() == 2
    high.leaves()
    assert after.promoted() == 3
    after.leaves()
    assert low.promoted() == 4


# ---- fencing


def test_those_that_wait_survive_a_fencing_through_the_gateway(scene: Scene) -> None:
    """A broker would refuse them all; held here they have their turn when the fencer leaves."""
    owner, (low, high) = owner_and_waiters(scene, 1, 5)
    fencer = scene.ours()
    assert fencer.owns(mode=FENCE) == 1
    check_untold(low, high)
    owner.leaves()
    fencer.leaves()
    assert high.promoted() == 2
    check_untold(low)
    high.leaves()
    assert low.promoted() == 3


def test_those_that_wait_survive_a_fencing_past_the_gateway(scene: Scene) -> None:
    """The broker says nothing to the owner until it sends; then it breaks its connection, and who is next is asked."""
    owner, (low, high) = owner_and_waiters(scene, 1, 5)
    fencer = scene.direct()
    assert fencer.owns(mode=FENCE) == 1
    with pytest.raises(ConnectionEndedError):
        owner.sends(b"fenced")
    check_untold(low, high)
    fencer.leaves()
    assert high.promoted() == 2
    high.leaves()
    assert low.promoted() == 3


def test_a_fenced_owner_that_comes_back_is_refused(scene: Scene) -> None:
    """When its turn has come: its epoch is over, and it is told so for good."""
    owner, _ = owner_and_waiters(scene)
    fencer = scene.ours()
    assert fencer.owns(mode=FENCE) == 1
    owner.leaves()
    request_id = owner.want(epoch=0, name="former")
    waiting = scene.ours().waits(-1)
    fencer.leaves()
    assert [owner.hears()[:2] for _ in range(2)] == [(request_id, "queued"), (request_id, "ProducerFenced")]
    assert waiting.promoted() == 2


# ---- owners that come back


def test_an_owner_resumes_after_an_unload_and_all_others_keep_their_places(scene: Scene) -> None:
    """Python clients: the owner's epoch is the same, no other client notices, and the order is the same."""
    with feed_of(scene.gateway, scene.topic) as feed:
        owner = scene.patient()
        producer = owner.producer()
        epoch = feed.until("producer_promoted")["facts"]["topic_epoch"]
        waiting = []
        for priority in (5, 9):
            waiting.append(scene.patient(priority))
            feed.until("producer_queued")
        for _ in range(2):
            scene.unload()
            assert feed.until("producer_resumed")["facts"]["topic_epoch"] == epoch
            producer.send(b"resumed")
    assert all(patient.waiting for patient in waiting)
    producer.close()
    waiting[1].producer().close()
    waiting[0].producer().send(b"last")


@pytest.mark.parametrize("through_gateway", [False, True], ids=["direct", "gateway"])
def test_an_owner_returns_after_an_unload_by_its_epoch_without_a_name(scene: Scene, *, through_gateway: bool) -> None:
    """The broker lets it in with the epoch it had, before and after it waited; so does the gateway."""
    owner = scene.ours() if through_gateway else scene.direct()
    epoch = owner.owns(name="former")
    other = scene.ours().waits(9) if through_gateway else None
    for _ in range(2):
        scene.unload()
        assert owner.hears() == Told(1, BROKER_CLOSES)
        owner.locate(scene.topic)
        assert owner.owns(epoch=epoch) == epoch
    if other is not None:
        check_untold(other)
        owner.leaves()
        assert other.promoted() == epoch + 1


def test_an_owner_that_stays_away_after_an_unload_is_replaced(scene: Scene) -> None:
    """The best is asked for when the grace is over; the owner is fenced then."""
    owner, (low, high) = owner_and_waiters(scene, 1, 5)
    scene.unload()
    assert owner.hears() == Told(1, BROKER_CLOSES)
    assert high.promoted() == 1
    check_untold(low)
    owner.want(9, epoch=0, name="former")
    assert owner.hears().word == "queued"
    high.leaves()
    assert owner.hears().word == "ProducerFenced"
    assert low.promoted() == 2


def waiting_here(scene: Scene) -> int:
    """How many wait for the topic at the gateway; none if it knows nothing of the topic."""
    path = scene.topic.removeprefix("persistent://")
    answer = httpx.get(f"{scene.gateway.admin_url}/api/v1/exclusive-producers/{path}", trust_env=False, timeout=30)
    return int(answer.json()["summary"]["waiting_count"]) if answer.is_success else 0


def test_an_owner_resumes_after_a_kill_of_the_gateway(
    broker: PulsarStandalone, start_gateway: StartGateway, new_topic: NewTopic
) -> None:
    """All come back by themselves; the owner has its epoch still, and the others are in order of priority again."""
    gateway = start_gateway(broker)
    # Clients try again after 3, 6, 12 and then 24 s, if the gateway is not back before; and one sooner than the other.
    # One that has just begun waits so long for the owner: the second one alone, since before there is none to wait for.
    patient = {"producer_return_grace_s": "60"}
    again = KeylineGateway(
        *(broker.service_url, broker.admin_url, gateway.log.parent),
        port=gateway.port,
        admin_port=gateway.admin_port,
        settings=patient,
    )
    with ExitStack() as gateways, ExitStack() as clients:
        scene = Scene(broker, gateway, new_topic("exclusive-kill"), clients)
        with feed_of(gateway, scene.topic) as feed:
            producer = scene.patient().producer()
            epoch = feed.until("producer_promoted")["facts"]["topic_epoch"]
            waiting = [scene.patient(priority) for priority in (5, 9)]
            feed.until("producer_queued", 2)
        gateway.kill()
        gateways.enter_context(again)
        producer.send(b"resumed")
        eventually(lambda: waiting_here(scene) == len(waiting), "all that waited to be back")
        with feed_of(gateway, scene.topic) as feed:
            producer.close()
            producer = waiting[1].producer()
            assert feed.until("producer_promoted")["facts"]["topic_epoch"] == epoch + 1
        producer.close()
        waiting[0].producer().send(b"last")


def test_an_old_epoch_never_takes_the_topics_epoch_back(scene: Scene) -> None:
    """A broker promotes a former owner that waited with whatever epoch it brings; so here it does not wait there."""
    owner, _ = owner_and_waiters(scene)
    owner.leaves()
    outsider, former = scene.direct(), scene.direct()
    assert outsider.owns() == 1
    assert scene.ours().refused(9, epoch=0, name="former") == "ProducerFenced"
    outsider.leaves()
    next_owner = scene.ours()
    assert next_owner.owns() == 2
    # The contrast, without which nothing above would be needed.
    former.waits(epoch=0, name="former")
    next_owner.leaves()
    assert former.promoted() == 0


# ---- partitions


def test_each_partition_has_a_queue_of_its_own(scene: Scene) -> None:
    """A Python client owns a partitioned topic when it owns all its partitions."""
    administer(scene.broker, "PUT", scene.topic, "partitions", body=2)
    with ExitStack() as feeds:
        each = [feeds.enter_context(feed_of(scene.gateway, f"{scene.topic}-partition-{n}")) for n in range(2)]
        producer = scene.patient().producer()
        for feed in each:
            feed.until("producer_promoted")
        waiting = []
        for priority in (1, 5):
            waiting.append(scene.patient(priority))
            for feed in each:
                feed.until("producer_queued")
        producer.close()
        producer = waiting[1].producer()
        assert [feed.until("producer_promoted")["facts"]["priority"] for feed in each] == [5, 5]
    for number in range(4):
        producer.send(str(number).encode())
    assert waiting[0].waiting
    producer.close()
    waiting[0].producer().send(b"last")
