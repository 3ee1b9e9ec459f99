"""Topics of groups that no longer exist go, those of groups that exist stay: on real brokers, both versions.

The broker deletes what is unused within seconds here, and a minute by default.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
import pulsar
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from proxy.aio.clock_and_connector import AioClock, AioConnector
from proxy.groups.streams import GroupId
from proxy.limits import Limits
from proxy.net.broker.directory import Brokers
from proxy.net.broker.settings import BrokerSettings
from proxy.net.group.sweep import GroupSweep, SweepTiming
from proxy.net.group.topic_look import LookTiming
from proxy.net.group.topic_name import group_topic_name
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.exclusive_rig import administer

NAMESPACE = "public/default"
SUBSCRIPTION = "billing"
MESSAGES = 200
SWEPT_S_MAX = 180.0
TIMING = SweepTiming(first_s=0.1, every_s=1.0, look=LookTiming(alone_s=15.0))
"""A member takes its producer back within some 5 s, and later on a busy machine."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module")
def module_broker_settings() -> dict[str, str]:
    """Unused topics are deleted soon."""
    return {"brokerDeleteInactiveTopicsEnabled": "true", "brokerDeleteInactiveTopicsFrequencySeconds": "1"}


@pytest.fixture
def gateways(module_broker: PulsarStandalone, start_gateway: StartGateway) -> list[KeylineGateway]:
    """Two replicas."""
    names = ["left", "right"]
    return [
        start_gateway(module_broker, groups_enabled="true", groups_mode="streams", replica_name=name) for name in names
    ]


@contextmanager
def worker(gateway: KeylineGateway, topic: str, take: Callable[[int], None] = lambda _: None) -> Iterator[None]:
    """Consume as a worker of the group, until the end of the block."""
    client = pulsar.Client(gateway.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        take(int(message.data()))
        consumer.acknowledge(message)

    client.subscribe(
        topic,
        SUBSCRIPTION,
        consumer_type=pulsar.ConsumerType.KeyShared,
        initial_position=pulsar.InitialPosition.Earliest,
        message_listener=listen,
    )
    try:
        yield
    finally:
        client.close()


def topics(broker: PulsarStandalone, domain: str = "persistent") -> list[str]:
    """All that the broker has in the groups' namespace."""
    names: list[str] = httpx.get(
        f"{broker.admin_url}/admin/v2/{domain}/{NAMESPACE}", trust_env=False, timeout=30
    ).json()
    return names


def leading(gateway: KeylineGateway, topic: str, *, alone: bool = False) -> dict[str, Any] | None:
    """The group of a topic, once this replica has streams of it; or all of them, and leads."""
    groups = httpx.get(f"{gateway.admin_url}/api/v1/groups", trust_env=False, timeout=30).json()["groups"]
    found = next((group for group in groups if group["topic"] == topic and group["streams_here"]), None)
    if found is None or not alone:
        return found
    return found if found["leads"] and found["streams_here"] == found["streams_count"] else None


def delete(broker: PulsarStandalone, topic: str) -> int:
    """Delete it as `pulsar-admin topics delete` does; the broker's answer."""
    url = f"{broker.admin_url}/admin/v2/{topic.replace('://', '/')}"
    return httpx.delete(url, trust_env=False, timeout=30.0).status_code


@contextmanager
def sweeping(broker: PulsarStandalone) -> Iterator[None]:
    """Sweep all the time, as replicas do now and then."""
    loop = asyncio.new_event_loop()

    def run() -> None:
        settings = BrokerSettings(service_urls=(broker.service_url,), client_version="Keyline-test")
        clock = AioClock(loop)
        brokers = Brokers(AioConnector(loop, Limits()), clock, settings)
        sweep = GroupSweep(NAMESPACE, "sweeper", brokers, clock, TIMING)
        sweep.start()
        loop.run_forever()
        sweep.close()
        brokers.close(loop.stop)
        loop.run_forever()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_the_last_one_out_removes_the_topic(
    module_broker: PulsarStandalone, gateways: list[KeylineGateway], new_topic: Callable[[str], str]
) -> None:
    """Not the first one; and a group that comes back has a later epoch than it ever had."""
    topic = new_topic("last-out")
    name = group_topic_name(NAMESPACE, GroupId(topic, SUBSCRIPTION))
    left, right = gateways
    with worker(left, topic):
        with worker(right, topic):
            eventually(lambda: leading(left, topic) and leading(right, topic), "streams at both")
        eventually(lambda: leading(right, topic) is None and leading(left, topic, alone=True), "the right one out")
        group = leading(left, topic)
        assert group is not None
        assert name in topics(module_broker)
    eventually(lambda: name not in topics(module_broker), "the group's topic to go")
    with worker(right, topic):
        eventually(lambda: leading(right, topic, alone=True), "streams again")
        again = leading(right, topic)
        assert again is not None
        assert again["epoch"] > group["epoch"]
    eventually(lambda: name not in topics(module_broker), "the group's topic to go again")
    left.stop()
    right.stop()
    eventually(lambda: not [at for at in topics(module_broker, "non-persistent") if "keyline-groups" in at], "no inbox")


def test_what_crashed_replicas_left_is_swept_and_nothing_else(
    module_broker: PulsarStandalone, gateways: list[KeylineGateway], new_topic: Callable[[str], str]
) -> None:
    """A living group keeps its topic and its deliveries, although the broker has just forgotten who waits to lead."""
    crashed, living = gateways
    dead, deleted, alive = (new_topic(name) for name in ("dead", "deleted", "alive"))
    names = {topic: group_topic_name(NAMESPACE, GroupId(topic, SUBSCRIPTION)) for topic in (dead, deleted, alive)}
    taken: list[int] = []
    with ExitStack() as ends:
        ends.enter_context(worker(living, alive, taken.append))
        ends.enter_context(worker(crashed, dead))
        ends.enter_context(worker(crashed, deleted))
        ends.enter_context(worker(crashed, alive, taken.append))
        eventually(lambda: all(leading(crashed, topic) for topic in names) and leading(living, alive), "streams")
        crashed.kill()
        eventually(lambda: delete(module_broker, names[deleted]) == 204, "the broker to know of the crash")
        assert delete(module_broker, names[alive]) == 412, "the broker knows what is used"
        client = pulsar.Client(module_broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        ends.callback(client.close)
        producer = client.create_producer(alive, batching_enabled=False)
        with sweeping(module_broker):
            administer(module_broker, "PUT", names[alive], "unload")
            send = partial(producer.send_async, callback=lambda *_: None)
            for number in range(MESSAGES):
                send(b"%d" % number, partition_key=f"k{number % 20}")
            producer.flush()
            assert names[dead] in topics(module_broker), "what a crashed replica leaves nobody removes but the sweep"
            eventually(lambda: names[dead] not in topics(module_broker), "the sweep", SWEPT_S_MAX)
            eventually(lambda: len(set(taken)) == MESSAGES, "deliveries of the living group")
            administer(module_broker, "PUT", names[alive], "unload")
            eventually(lambda: leading(living, alive), "the living group")
        assert names[alive] in topics(module_broker)


def test_operators_list_topics_and_remove_those_of_former_groups(
    module_broker: PulsarStandalone, gateways: list[KeylineGateway], new_topic: Callable[[str], str]
) -> None:
    """At any replica; of a living group with the reason why not, and its deliveries go on."""
    crashed, living = gateways
    dead, alive = new_topic("dead"), new_topic("alive")
    names = {topic: group_topic_name(NAMESPACE, GroupId(topic, SUBSCRIPTION)) for topic in (dead, alive)}
    taken: list[int] = []
    with ExitStack() as ends:
        ends.enter_context(worker(living, alive, taken.append))
        ends.enter_context(worker(crashed, dead))
        eventually(lambda: leading(crashed, dead) and leading(living, alive), "streams")
        assert all(in_use(living)[name] for name in names.values()), "both groups have a member"
        crashed.kill()
        eventually(lambda: in_use(living)[names[dead]] is None, "the broker to know of the crash")
        assert in_use(living)[names[alive]]
        refused = remove(living, names[alive])
        assert (refused.status_code, f"{names[alive]} is not removed" in refused.text) == (409, True), refused.text
        removed = remove(living, names[dead])
        assert removed.status_code == 200, removed.text
        eventually(lambda: names[dead] not in topics(module_broker), "the broker to delete the empty topic")
        assert remove(living, names[dead]).status_code == 404
        assert names[dead] not in topics(module_broker), "the order makes no topic"
        assert f"order=remove topic topic={names[dead]}" in orders(living)
        client = pulsar.Client(module_broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        ends.callback(client.close)
        client.create_producer(alive).send(b"7", partition_key="k")
        eventually(lambda: taken == [7], "deliveries of the living group")


def in_use(gateway: KeylineGateway) -> dict[str, str | None]:
    """All topics of groups, with why each is in use."""
    answer = httpx.get(f"{gateway.admin_url}/api/v1/group-topics", trust_env=False, timeout=30.0).json()
    return {row["topic"]: row["in_use_because"] for row in answer["topics"]}


def remove(gateway: KeylineGateway, topic: str) -> httpx.Response:
    """Order the removal of one."""
    url = f"{gateway.admin_url}/api/v1/group-topics/{quote(topic, safe='')}"
    return httpx.delete(url, trust_env=False, timeout=60.0)


def orders(gateway: KeylineGateway) -> list[str]:
    """What the gateway's events say that operators ordered."""
    found = []
    url = f"{gateway.admin_url}/api/v1/events"
    with httpx.stream("GET", url, headers={"last-event-id": "0"}, trust_env=False, timeout=30.0) as answer:
        for line in answer.iter_lines():
            event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if event.get("kind") == "operator_order":
                found.append(f"order={event['facts']['order']} topic={event['topic']}")
                break
    return found
