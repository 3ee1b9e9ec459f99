"""Requests of a worker of a Key_Shared subscription other than receiving: seek, unsubscribe, ids, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pulsar
import pytest

from integration.standalone import PulsarStandalone
from tests.integration.clients import Workers, by_key, key_shared, nothing_comes, numbered, receive, send_all, subscribe
from tests.integration.conditions import eventually

KEYS = [f"k{number}" for number in range(10)]
KEY_SHARED = pulsar.ConsumerType.KeyShared
Statistics = Callable[[str], dict[str, Any]]
NewTopic = Callable[[str], str]

relayed_and_shared = pytest.mark.parametrize(
    "kind", [pulsar.ConsumerType.Exclusive, KEY_SHARED], ids=lambda kind: kind.name
)


def sticky(*ranges: tuple[int, int]) -> pulsar.ConsumerKeySharedPolicy:
    """A policy of fixed hash ranges."""
    return pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=list(ranges))


@pytest.fixture
def acknowledged(topic_statistics: Statistics) -> Callable[[str], None]:
    """Wait until the broker has everything acknowledged.

    What a client has grouped reaches the broker after the answer to its seek, and is acknowledged then: of a broker
    without a gateway, too.
    """

    def nothing_is_left(topic: str) -> None:
        eventually(lambda: topic_statistics(topic)["subscriptions"]["s"]["msgBacklog"] == 0, "acknowledgements")

    return nothing_is_left


@relayed_and_shared
def test_seek_by_id_goes_back_and_forth(
    kind: pulsar.ConsumerType, client: pulsar.Client, new_topic: NewTopic, acknowledged: Callable[[str], None]
) -> None:
    """Back to a message that was acknowledged, to the beginning, and to the end."""
    topic = new_topic("seek-id")
    consumer = subscribe(client, topic, kind)
    send_all(client.create_producer(topic), numbered(KEYS, 50))
    messages = Workers({"one": consumer}).receive(50)
    ids = sorted(message.message_id() for message in messages)
    acknowledged(topic)
    consumer.seek(ids[24])
    again = Workers({"one": consumer}).receive(25, acknowledge=False)
    assert sorted(message.message_id() for message in again) == ids[25:]
    consumer.seek(pulsar.MessageId.earliest)
    assert by_key(Workers({"one": consumer}).receive(50)) == {key: [b"0", b"1", b"2", b"3", b"4"] for key in KEYS}
    consumer.seek(pulsar.MessageId.latest)
    assert nothing_comes(consumer)


@relayed_and_shared
def test_seek_by_time_goes_back(
    kind: pulsar.ConsumerType, client: pulsar.Client, new_topic: NewTopic, acknowledged: Callable[[str], None]
) -> None:
    """To the publish time of a message."""
    topic = new_topic("seek-time")
    consumer = subscribe(client, topic, kind)
    producer = client.create_producer(topic)
    send_all(producer, numbered(KEYS, 20))
    messages = Workers({"one": consumer}).receive(20)
    last_ms = max(message.publish_timestamp() for message in messages)
    eventually(lambda: publish_time(producer, consumer) > last_ms, "a later millisecond")
    later_ms = publish_time(producer, consumer)
    send_all(producer, numbered(KEYS, 10))
    Workers({"one": consumer}).receive(10)
    acknowledged(topic)
    consumer.seek(later_ms)
    again = Workers({"one": consumer}).receive(11)
    assert all(message.publish_timestamp() >= later_ms for message in again)


def publish_time(producer: pulsar.Producer, consumer: pulsar.Consumer) -> int:
    """Send a message, receive it, and return when it was published."""
    producer.send(b"time", partition_key="k0")
    message = receive(consumer)
    consumer.acknowledge(message)
    return int(message.publish_timestamp())


def test_a_seek_of_one_worker_moves_all(
    client: pulsar.Client, new_topic: NewTopic, acknowledged: Callable[[str], None]
) -> None:
    """The cursor is the subscription's: every worker is disconnected, comes back, and the keys are dealt anew."""
    topic = new_topic("seek-all")
    workers = key_shared(client, topic, "a", "b", "c")
    send_all(client.create_producer(topic), numbered(KEYS, 60))
    workers.receive(60)
    acknowledged(topic)
    workers.consumers["b"].seek(pulsar.MessageId.earliest)
    workers.received.clear()
    assert sorted(by_key(workers.receive(60))) == sorted(KEYS)


def test_a_cursor_that_an_operator_moves_back_at_the_broker_delivers_again(
    broker: PulsarStandalone, client: pulsar.Client, new_topic: NewTopic, acknowledged: Callable[[str], None]
) -> None:
    """As often as that is done, also at once; nobody is disconnected."""
    topic = new_topic("reset-cursor")
    workers = key_shared(client, topic, "a", "b", "c")
    send_all(client.create_producer(topic), numbered(KEYS, 60))
    sent = by_key(workers.receive(60))
    path = f"{topic.replace('://', '/')}/subscription/s/resetcursor/0"
    for _ in range(3):
        acknowledged(topic)
        httpx.post(f"{broker.admin_url}/admin/v2/{path}", trust_env=False, timeout=30).raise_for_status()
        workers.received.clear()
        assert by_key(workers.receive(60)) == sent


def test_unsubscribe_removes_the_subscription(
    client: pulsar.Client, new_topic: NewTopic, topic_statistics: Statistics
) -> None:
    """At the broker too."""
    topic = new_topic("unsubscribe")
    consumer = subscribe(client, topic, KEY_SHARED)
    assert "s" in topic_statistics(topic)["subscriptions"]
    consumer.unsubscribe()
    assert "s" not in topic_statistics(topic)["subscriptions"]


def test_the_last_message_id_is_the_brokers(client: pulsar.Client, new_topic: NewTopic) -> None:
    """The id of what was sent last, whoever holds it."""
    topic = new_topic("last-id")
    consumer = subscribe(client, topic, KEY_SHARED)
    producer = client.create_producer(topic)
    producer.send(b"1", partition_key="k")
    last = producer.send(b"2", partition_key="k")
    found = consumer.get_last_message_id()
    assert (found.ledger_id(), found.entry_id()) == (last.ledger_id(), last.entry_id())


def test_a_worker_that_closes_gives_its_messages_to_the_others(client: pulsar.Client, new_topic: NewTopic) -> None:
    """In each key's order, before anything newer, with the count raised."""
    topic = new_topic("close")
    workers = key_shared(client, topic, "a", "b")
    producer = client.create_producer(topic)
    send_all(producer, numbered(KEYS, 30))
    workers.receive(30, acknowledge=False)
    held = {key for key, name in workers.worker_of_each_key().items() if name == "a"}
    workers.consumers.pop("a").close()
    send_all(producer, [(key, b"3") for key in sorted(held)])
    taken = by_key(workers.receive(4 * len(held)))
    assert taken == {key: [b"0", b"1", b"2", b"3"] for key in held}


def test_sticky_ranges_decide_and_must_not_overlap(client: pulsar.Client, new_topic: NewTopic) -> None:
    """Each worker gets the keys of its ranges; a worker that wants a range of another's is refused."""
    topic = new_topic("sticky")
    workers = key_shared(client, topic, "low", key_shared_policy=sticky((0, 32_767)))
    workers.consumers |= key_shared(client, topic, "high", key_shared_policy=sticky((32_768, 65_535))).consumers
    with pytest.raises(pulsar.ConsumerAssignError):
        key_shared(client, topic, "greedy", key_shared_policy=sticky((100, 200)))
    send_all(client.create_producer(topic), numbered([str(digit) for digit in range(10)], 40))
    workers.receive(40)
    # Slots of "0" to "9" as the broker computes them: 49279 44179 57879 41396 52360 13796 31936 34344 23 59041.
    expected = {digit: "low" if digit in "568" else "high" for digit in "0123456789"}
    assert workers.worker_of_each_key() == expected


def test_workers_must_agree_on_how_keys_are_dealt(client: pulsar.Client, new_topic: NewTopic) -> None:
    """Automatic and sticky do not mix, and neither do ordered and unordered; a broker refuses the same."""
    topic = new_topic("mode")
    key_shared(client, topic, "auto")
    with pytest.raises(pulsar.PulsarException):
        key_shared(client, topic, "sticky", key_shared_policy=sticky((0, 65_535)))
    unordered = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.AutoSplit, allow_out_of_order_delivery=True)
    with pytest.raises(pulsar.PulsarException):
        key_shared(client, topic, "unordered", key_shared_policy=unordered)


@pytest.mark.parametrize(
    "kind",
    [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared, pulsar.ConsumerType.Failover],
    ids=lambda kind: kind.name,
)
def test_other_types_are_refused_beside_key_shared(
    kind: pulsar.ConsumerType, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """And the other way round: the broker decides about both."""
    topic = new_topic("types")
    workers = key_shared(client, topic, "a")
    with pytest.raises(pulsar.PulsarException):
        subscribe(client, topic, kind)
    workers.consumers["a"].close()
    other = subscribe(client, topic, kind)
    with pytest.raises(pulsar.PulsarException):
        key_shared(client, topic, "a")
    other.close()


def test_cumulative_acknowledgement_is_refused(client: pulsar.Client, new_topic: NewTopic) -> None:
    """It would acknowledge other workers' messages."""
    topic = new_topic("cumulative")
    consumer = subscribe(client, topic, KEY_SHARED)
    client.create_producer(topic).send(b"1", partition_key="k")
    with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError):
        consumer.acknowledge_cumulative(receive(consumer))


def test_a_worker_may_name_itself_or_not(client: pulsar.Client, new_topic: NewTopic) -> None:
    """Without a name it is given one, and takes its share."""
    topic = new_topic("names")
    workers = Workers({str(number): subscribe(client, topic, KEY_SHARED) for number in range(2)})
    keys = [f"key-{number}" for number in range(60)]
    send_all(client.create_producer(topic), numbered(keys, 120))
    workers.receive(120)
    assert set(workers.worker_of_each_key().values()) == {"0", "1"}


def test_two_workers_of_one_name_are_two_workers(client: pulsar.Client, new_topic: NewTopic) -> None:
    """As at the broker, which tells them apart by a number."""
    topic = new_topic("same-name")
    workers = Workers({str(number): subscribe(client, topic, KEY_SHARED, consumer_name="w") for number in range(2)})
    keys = [f"key-{number}" for number in range(60)]
    send_all(client.create_producer(topic), numbered(keys, 120))
    workers.receive(120)
    assert set(workers.worker_of_each_key().values()) == {"0", "1"}
