"""The helper for producers that wait (`keyline_gateway.client`), through a gateway in front of real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pulsar
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from keyline_gateway.client.waiting_producer import WaitingProducer, WaitingProducerClosedError, parse_announcement
from tests.integration.clients import receive, subscribe
from tests.integration.conftest import StartGateway
from tests.integration.exclusive_rig import ANSWER_S, FENCE, SEND_MS_MAX, TopicClient, feed_of

NewTopic = Callable[[str], str]
Acquired = Future[pulsar.Producer]


class Hosts:
    """Several that want one topic, each with a thread that waits for it."""

    def __init__(self, service_url: str, topic: str, ends: ExitStack) -> None:
        self._service_url = service_url
        self._topic = topic
        self._ends = ends
        self._threads = ends.enter_context(ThreadPoolExecutor())

    def host(self, priority: int, name: str) -> WaitingProducer:
        """One more, that has not asked yet; it comes back at once after a loss."""
        waiting = WaitingProducer(
            self._service_url,
            self._topic,
            priority,
            announcement={"host": name},
            delay_s=lambda _: 0.0,
            send_timeout_millis=SEND_MS_MAX,
        )
        return self._ends.enter_context(waiting)

    def acquiring(self, host: WaitingProducer) -> Acquired:
        """Let it wait for the topic."""
        return self._threads.submit(host.acquire)


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    """What is entered here ends with the test, the last first."""
    with ExitStack() as stack:
        yield stack


def test_the_most_wanted_is_next_and_says_so_in_the_topic(
    gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic, ends: ExitStack
) -> None:
    """Its announcement comes before anything else it sends."""
    topic = new_topic("helper")
    consumer = subscribe(client, topic, pulsar.ConsumerType.Exclusive)
    hosts = Hosts(gateway.service_url, topic, ends)
    first = hosts.host(0, "first")
    with feed_of(gateway, topic) as feed:
        first.acquire().send(b"from first")
        feed.until("producer_promoted")
        low = hosts.host(-5, "low")
        waiting = hosts.acquiring(low)
        feed.until("producer_queued")
        high = hosts.host(5, "high")
        promoted = hosts.acquiring(high)
        feed.until("producer_queued")
    first.close()
    promoted.result(ANSWER_S).send(b"from high")
    assert not waiting.done()
    messages = [receive(consumer) for _ in range(4)]
    assert [message.data() for message in messages[1::2]] == [b"from first", b"from high"]
    said = [parse_announcement(message.data(), message.properties()) for message in messages[::2]]
    assert [(each.attributes, each.priority) for each in said if each is not None] == [
        ({"host": "first"}, 0),
        ({"host": "high"}, 5),
    ]
    low.close()
    with pytest.raises(WaitingProducerClosedError):
        waiting.result(ANSWER_S)


def test_who_was_fenced_waits_again(gateway: KeylineGateway, new_topic: NewTopic, ends: ExitStack) -> None:
    """The next `acquire` closes what it had, and returns when who fenced has gone."""
    topic = new_topic("helper-fenced")
    hosts = Hosts(gateway.service_url, topic, ends)
    host = hosts.host(1, "host")
    producer = host.acquire()
    fencer = ends.enter_context(TopicClient(gateway.service_url, topic))
    fencer.owns(mode=FENCE)
    with pytest.raises(pulsar.ProducerFenced):
        producer.send(b"too late")
    with feed_of(gateway, topic) as feed:
        again = hosts.acquiring(host)
        feed.until("producer_queued")
    fencer.leaves()
    again.result(ANSWER_S).send(b"back")


def test_who_waits_outlives_a_kill_of_the_gateway(
    broker: PulsarStandalone, start_gateway: StartGateway, new_topic: NewTopic, ends: ExitStack
) -> None:
    """It asks anew by itself: its application sees nothing of it."""
    # Clients try again after 3, 6, 12 and then 24 s, if the gateway is not back before; and one sooner than the other.
    gateway = start_gateway(broker, producer_return_grace_s="60")
    topic = new_topic("helper-kill")
    hosts = Hosts(gateway.service_url, topic, ends)
    owner, other = hosts.host(1, "owner"), hosts.host(0, "other")
    with feed_of(gateway, topic) as feed:
        producer = owner.acquire()
        feed.until("producer_promoted")  # it may have been queued, too
        waiting = hosts.acquiring(other)
        feed.until("producer_queued")
    gateway.kill()
    gateway.start()
    producer.send(b"resumed")
    with feed_of(gateway, topic) as feed:
        assert not waiting.done()
        owner.close()
        assert feed.until("producer_promoted")["facts"]["priority"] == 0
    waiting.result(ANSWER_S).send(b"promoted")
