"""Everything a worker of a Key_Shared subscription may do, with the official client and several workers at once.

These go through the dispatcher, not the relay: what the broker does for a direct consumer, the gateway has to do
itself, and messages of mixed batches reach their workers in slices that it packed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pulsar
import pytest

from integration.gateway import KeylineGateway
from proxy.cli.admin_client import AdminClient, subscription_path
from tests.integration.clients import (
    Workers,
    available,
    by_key,
    key_shared,
    nothing_comes,
    numbered,
    receive,
    send_all,
    subscribe,
    wait_for,
)
from tests.integration.conditions import eventually

KEYS = [f"k{number}" for number in range(40)]
KEY_SHARED = pulsar.ConsumerType.KeyShared
Statistics = Callable[[str], dict[str, Any]]
NewTopic = Callable[[str], str]

COMPRESSIONS = [
    pulsar.CompressionType.NONE,
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
]
MIXED: dict[str, Any] = {"batching_enabled": True, "batching_max_publish_delay_ms": 100}
"""Default batching: messages of all keys in one entry."""
BY_KEY: dict[str, Any] = {**MIXED, "batching_type": pulsar.BatchingType.KeyBased}

all_batchings = pytest.mark.parametrize("batching", [{}, MIXED, BY_KEY], ids=["single", "mixed", "by-key"])


def backlog_is_empty(topic: str, topic_statistics: Statistics) -> None:
    """Every entry is acknowledged at the broker."""
    eventually(lambda: topic_statistics(topic)["subscriptions"]["s"]["msgBacklog"] == 0, "an empty backlog")


@all_batchings
@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda compression: compression.name)
def test_keys_go_to_their_workers_in_order_however_they_are_packed(
    compression: pulsar.CompressionType,
    batching: dict[str, Any],
    client: pulsar.Client,
    new_topic: NewTopic,
    topic_statistics: Statistics,
) -> None:
    """Each codec, alone, in mixed batches and in batches by key: one worker per key, in order, all acknowledged."""
    topic = new_topic("packed")
    workers = key_shared(client, topic, "a", "b", "c")
    producer = client.create_producer(topic, compression_type=compression, **batching)
    send_all(producer, numbered(KEYS, 200))
    messages = workers.receive(200)
    assert by_key(messages) == {key: [b"0", b"1", b"2", b"3", b"4"] for key in KEYS}
    assert set(workers.worker_of_each_key().values()) == {"a", "b", "c"}
    backlog_is_empty(topic, topic_statistics)


@all_batchings
def test_what_surrounds_a_payload_survives(
    batching: dict[str, Any], client: pulsar.Client, new_topic: NewTopic
) -> None:
    """Properties, event time, ordering key, publish time, the producer's name, and tombstones."""
    topic = new_topic("metadata")
    workers = key_shared(client, topic, "a", "b")
    producer = client.create_producer(topic, producer_name="anna", **batching)
    results: list[Any] = []
    for key in KEYS:
        producer.send_async(
            None if key == "k7" else key.encode(),
            lambda result, _: results.append(result),
            partition_key=key,
            ordering_key=f"ordered-{key}",
            properties={"of": key, "empty": ""},
            event_timestamp=1_700_000_000_000,
        )
    producer.flush()
    for message in workers.receive(len(KEYS)):
        key = message.partition_key()
        assert message.has_null_value() == (key == "k7")
        assert message.data() == (b"" if key == "k7" else key.encode())
        assert message.ordering_key() == f"ordered-{key}"
        assert message.properties() == {"of": key, "empty": ""}
        assert message.event_timestamp() == 1_700_000_000_000
        assert message.publish_timestamp() > 1_700_000_000_000
        assert message.producer_name() == "anna"
        assert message.redelivery_count() == 0


@pytest.fixture(scope="module")
def key_pair(tmp_path_factory: pytest.TempPathFactory) -> pulsar.CryptoKeyReader:
    """A fresh RSA key pair."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed, and the client brings no way to make a key pair")
    directory: Path = tmp_path_factory.mktemp("keys")
    private, public = directory / "private.pem", directory / "public.pem"
    for arguments in (
        ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(private)],
        ["rsa", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        subprocess.run([openssl, *arguments], check=True, capture_output=True)
    return pulsar.CryptoKeyReader(str(public), str(private))


@all_batchings
def test_encrypted_messages_reach_workers_encrypted(
    batching: dict[str, Any],
    key_pair: pulsar.CryptoKeyReader,
    client: pulsar.Client,
    gateway: KeylineGateway,
    new_topic: NewTopic,
) -> None:
    """Who has the key can read them. A mixed batch cannot be opened: it goes to its first key's worker, counted."""
    topic = new_topic("encrypted")
    workers = key_shared(client, topic, "a", "b", crypto_key_reader=key_pair)
    producer = client.create_producer(topic, encryption_key="app", crypto_key_reader=key_pair, **batching)
    send_all(producer, numbered(KEYS, 80))
    assert by_key(workers.receive(80)) == {key: [b"0", b"1"] for key in KEYS}
    if batching == MIXED:
        found = AdminClient(gateway.admin_url).ask("GET", subscription_path(topic, "s"))
        assert found["opaque_batches"] > 0
    else:
        workers.worker_of_each_key()


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Shared, KEY_SHARED], ids=lambda kind: kind.name)
def test_delayed_messages_come_later(kind: pulsar.ConsumerType, client: pulsar.Client, new_topic: NewTopic) -> None:
    """A message that was sent later without a delay arrives first.

    Others follow until it has come: a broker, with the gateway or without, may leave a delayed message of a Key_Shared
    subscription lying at the end of a topic until something new is sent (apache/pulsar issue 21554).
    """
    topic = new_topic("delayed")
    workers = Workers({"one": subscribe(client, topic, kind)})
    producer = client.create_producer(topic)
    producer.send(b"late", partition_key="a", deliver_after=timedelta(seconds=4))
    contents = []
    while b"late" not in contents:
        producer.send(b"now", partition_key="b")
        contents += [message.data() for message in workers.receive(1)]
    assert contents[0] == b"now"


@all_batchings
def test_a_refused_message_ends_in_the_dead_letter_topic(
    batching: dict[str, Any], client: pulsar.Client, new_topic: NewTopic, topic_statistics: Statistics
) -> None:
    """The redelivery count rises with each delivery, and the client's own policy does the rest."""
    topic, dead = new_topic("refused"), new_topic("dead")
    policy = pulsar.ConsumerDeadLetterPolicy(2, dead, "keep")
    workers = key_shared(client, topic, "a", "b", dead_letter_policy=policy, negative_ack_redelivery_delay_ms=100)
    graves = subscribe(client, dead, pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic, **batching)
    send_all(producer, [("good", b"good"), ("bad", b"bad")])
    counts: list[int] = []
    while len(counts) < 3:
        for consumer in workers.consumers.values():
            for message in available(consumer):
                if message.data() == b"bad":
                    counts.append(message.redelivery_count())
                    consumer.negative_acknowledge(message)
                else:
                    consumer.acknowledge(message)
    assert counts == [0, 1, 2]
    assert receive(graves).data() == b"bad"
    backlog_is_empty(topic, topic_statistics)


def test_redelivery_of_everything_keeps_each_keys_order(client: pulsar.Client, new_topic: NewTopic) -> None:
    """A worker that asks for all it has not acknowledged gets it in order, with the count raised."""
    topic = new_topic("again")
    workers = key_shared(client, topic, "a", "b")
    send_all(client.create_producer(topic), numbered(KEYS, 120))
    workers.receive(120, acknowledge=False)
    for consumer in workers.consumers.values():
        consumer.redeliver_unacknowledged_messages()
    again = workers.receive(120)
    assert by_key(again) == {key: [b"0", b"1", b"2"] for key in KEYS}
    assert {message.redelivery_count() for message in again} == {1}
    workers.worker_of_each_key()


def test_listeners_and_batch_receive_work(client: pulsar.Client, new_topic: NewTopic) -> None:
    """The client's two other ways to receive."""
    topic = new_topic("listener")
    heard: list[bytes] = []

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        heard.append(message.data())
        consumer.acknowledge(message)

    subscribe(client, topic, KEY_SHARED, subscription_name="heard", message_listener=listen)
    policy = pulsar.ConsumerBatchReceivePolicy(10, 1 << 20, 60_000)
    consumer = subscribe(client, topic, KEY_SHARED, batch_receive_policy=policy)
    send_all(client.create_producer(topic), numbered(["k"], 10))
    assert [message.data() for message in consumer.batch_receive()] == [str(number).encode() for number in range(10)]
    wait_for(lambda: len(heard) == 10)
    assert heard == [str(number).encode() for number in range(10)]
    assert nothing_comes(consumer)


@pytest.mark.parametrize("properties", [{"keyline.ordering_mode": "unordered"}, {"keyline.ordering-mode": "chaos"}])
def test_a_wrong_property_is_told_at_once(
    properties: dict[str, str], client: pulsar.Client, new_topic: NewTopic
) -> None:
    """The client gives up and raises, instead of trying again until its time is over."""
    with pytest.raises(pulsar.NotAllowedError):
        client.subscribe(new_topic("wrong-property"), "s", consumer_type=KEY_SHARED, properties=properties)
