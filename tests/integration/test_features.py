"""What clients do beside Key_Shared works through the gateway as it does without it: the official client, unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pulsar
import pytest
from pulsar.schema import Integer, JsonSchema, Record, String

from integration.standalone import PulsarStandalone
from tests.integration.clients import Workers, by_key, key_shared, numbered, receive, send_all, subscribe
from tests.integration.conditions import eventually

KEYS = [f"k{number}" for number in range(10)]
Statistics = Callable[[str], dict[str, Any]]
NewTopic = Callable[[str], str]

all_types = pytest.mark.parametrize(
    "kind",
    [
        pulsar.ConsumerType.Exclusive,
        pulsar.ConsumerType.Shared,
        pulsar.ConsumerType.Failover,
        pulsar.ConsumerType.KeyShared,
    ],
    ids=lambda kind: kind.name,
)


def make_partitioned(broker: PulsarStandalone, topic: str, count: int) -> None:
    """Create a partitioned topic, which no client can."""
    path = topic.replace("://", "/")
    url = f"{broker.admin_url}/admin/v2/{path}/partitions"
    httpx.put(url, json=count, trust_env=False, timeout=30).raise_for_status()


@all_types
def test_every_subscription_type_delivers_and_acknowledges(
    kind: pulsar.ConsumerType, client: pulsar.Client, new_topic: NewTopic, topic_statistics: Statistics
) -> None:
    """Everything arrives in each key's order, and the broker's backlog is empty afterwards."""
    topic = new_topic(kind.name)
    workers = Workers({"one": subscribe(client, topic, kind)})
    producer = client.create_producer(topic)
    send_all(producer, numbered(KEYS, 50))
    assert by_key(workers.receive(50)) == {key: [b"0", b"1", b"2", b"3", b"4"] for key in KEYS}
    eventually(lambda: topic_statistics(topic)["subscriptions"]["s"]["msgBacklog"] == 0, "an empty backlog")


def test_an_exclusive_subscription_stays_exclusive(client: pulsar.Client, new_topic: NewTopic) -> None:
    """The broker's refusal reaches the client as it is."""
    topic = new_topic("exclusive")
    subscribe(client, topic, pulsar.ConsumerType.Exclusive)
    with pytest.raises(pulsar.ConsumerBusy):
        subscribe(client, topic, pulsar.ConsumerType.Exclusive)


def test_a_failover_subscription_fails_over(client: pulsar.Client, new_topic: NewTopic) -> None:
    """One consumer, of the broker's choice, gets everything; the other takes over when it has closed."""
    topic = new_topic("failover")
    failover = pulsar.ConsumerType.Failover
    workers = Workers({name: subscribe(client, topic, failover, consumer_name=name) for name in ("a", "b")})
    producer = client.create_producer(topic)
    send_all(producer, numbered(["k"], 20))
    workers.receive(20)
    (active,) = workers.received
    workers.consumers.pop(active).close()
    producer.send(b"2")
    assert workers.receive(1)[0].data() == b"2"


def test_cumulative_acknowledgement_works_where_it_is_allowed(client: pulsar.Client, new_topic: NewTopic) -> None:
    """One acknowledgement covers all messages before."""
    topic = new_topic("cumulative")
    consumer = subscribe(client, topic, pulsar.ConsumerType.Exclusive)
    send_all(client.create_producer(topic), numbered(KEYS, 20))
    messages = Workers({"one": consumer}).receive(20, acknowledge=False)
    consumer.acknowledge_cumulative(messages[-2])
    consumer.close()
    again = subscribe(client, topic, pulsar.ConsumerType.Exclusive)
    assert receive(again).message_id() == messages[-1].message_id()


def test_readers_read_and_seek(client: pulsar.Client, new_topic: NewTopic) -> None:
    """From the beginning, to the end, and back."""
    topic = new_topic("reader")
    send_all(client.create_producer(topic), numbered(["k"], 20))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    messages = []
    while reader.has_message_available():
        messages.append(reader.read_next(timeout_millis=60_000))
    assert [message.data() for message in messages] == [str(number).encode() for number in range(20)]
    reader.seek(messages[9].message_id())
    assert reader.read_next(timeout_millis=60_000).data() == b"10"


def test_table_views_show_the_latest_of_each_key(client: pulsar.Client, new_topic: NewTopic) -> None:
    """A reader with a memory."""
    topic = new_topic("table")
    send_all(client.create_producer(topic), numbered(KEYS, 30))
    view = client.create_table_view(topic)
    assert {key: bytes(view.get(key)) for key in KEYS} == dict.fromkeys(KEYS, b"2")


@all_types
def test_partitioned_topics_work_with_every_subscription_type(
    kind: pulsar.ConsumerType, client: pulsar.Client, broker: PulsarStandalone, new_topic: NewTopic
) -> None:
    """One consumer at three partitions; a key stays in one of them and keeps its order."""
    topic = new_topic("partitioned")
    make_partitioned(broker, topic, 3)
    workers = Workers({"one": subscribe(client, topic, kind)})
    send_all(client.create_producer(topic), numbered(KEYS, 100))
    assert by_key(workers.receive(100)) == {key: [str(number).encode() for number in range(10)] for key in KEYS}


def test_keys_of_a_partitioned_topic_have_one_worker_each(
    client: pulsar.Client, broker: PulsarStandalone, new_topic: NewTopic
) -> None:
    """Each partition is a subscription of its own to the gateway; within it a key has one worker."""
    topic = new_topic("partitioned-workers")
    make_partitioned(broker, topic, 3)
    keys = [f"key-{number}" for number in range(60)]
    workers = key_shared(client, topic, "a", "b")
    send_all(client.create_producer(topic), numbered(keys, 300))
    workers.receive(300)
    assert set(workers.worker_of_each_key().values()) == {"a", "b"}


@pytest.mark.parametrize(
    "kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared], ids=lambda kind: kind.name
)
def test_topic_patterns_subscribe_to_every_match(
    kind: pulsar.ConsumerType, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """One consumer of all topics that match. Topics that come later are looked for by this client once a minute."""
    prefix = new_topic("pattern")
    for number in (1, 2, 3):
        client.create_producer(f"{prefix}-{number}").send(b"one", partition_key="k")
    client.create_producer(f"{prefix}x").send(b"no match", partition_key="k")
    workers = Workers({"one": subscribe(client, re.compile(re.escape(prefix) + "-.*"), kind)})
    assert {message.topic_name()[-2:] for message in workers.receive(3)} == {"-1", "-2", "-3"}


class Order(Record):  # type: ignore[misc] # the client is not typed
    """What most tests send."""

    customer = String()
    amount = Integer()


class Other(Record):  # type: ignore[misc] # the client is not typed
    """Another type under the same field name, which the broker refuses."""

    customer = Integer()


@all_types
def test_schemas_reach_consumers_of_every_type(
    kind: pulsar.ConsumerType, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """Typed on both sides, version included."""
    topic = new_topic("schema")
    producer = client.create_producer(topic, schema=JsonSchema(Order))
    consumer = subscribe(client, topic, kind, schema=JsonSchema(Order))
    producer.send(Order(customer="anna", amount=3), partition_key="k")
    message = receive(consumer)
    assert (message.value().customer, message.value().amount) == ("anna", 3)
    assert message.schema_version()


@all_types
def test_incompatible_schemas_are_refused_to_consumers_of_every_type(
    kind: pulsar.ConsumerType, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """In the broker's own words, also where the gateway answers for it."""
    topic = new_topic("incompatible")
    client.create_producer(topic, schema=JsonSchema(Order)).send(Order(customer="anna", amount=3))
    with pytest.raises(pulsar.IncompatibleSchema):
        subscribe(client, topic, kind, schema=JsonSchema(Other))


def test_incompatible_schemas_are_refused_to_producers(client: pulsar.Client, new_topic: NewTopic) -> None:
    """The relay changes nothing about it."""
    topic = new_topic("incompatible-producer")
    client.create_producer(topic, schema=JsonSchema(Order)).send(Order(customer="anna", amount=3))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=JsonSchema(Other))


def test_a_worker_with_another_schema_is_refused_beside_one_that_works(
    client: pulsar.Client, new_topic: NewTopic
) -> None:
    """It would have been refused directly, and the one that works goes on."""
    topic = new_topic("incompatible-second")
    producer = client.create_producer(topic, schema=JsonSchema(Order))
    consumer = subscribe(client, topic, pulsar.ConsumerType.KeyShared, schema=JsonSchema(Order))
    with pytest.raises(pulsar.IncompatibleSchema):
        subscribe(client, topic, pulsar.ConsumerType.KeyShared, schema=JsonSchema(Other))
    producer.send(Order(customer="anna", amount=3), partition_key="k")
    assert receive(consumer).value().customer == "anna"
