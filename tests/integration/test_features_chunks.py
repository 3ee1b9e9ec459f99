"""Messages larger than the broker takes in one piece, which clients cut into chunks and put together again."""

from __future__ import annotations

import random
from collections.abc import Callable

import pulsar
import pytest

from integration.gateway import KeylineGateway
from proxy.cli.admin_client import AdminClient, subscription_path
from tests.conftest import StartPulsar
from tests.integration.clients import RECEIVE_MS, Workers, available, by_key, subscribe
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.socket_client import payload, worker

LARGE = bytes(range(256)) * 50_000
"""12.8 MB; the broker takes 5 MiB, so it becomes three chunks."""

SMALL_BYTES = 20_480

pytestmark = pytest.mark.slow


@pytest.fixture
def large_gateway(start_pulsar: StartPulsar, start_gateway: StartGateway) -> KeylineGateway:
    """A gateway in front of a broker whose bookie takes what the broker takes, as the distribution's does."""
    broker = start_pulsar(settings={"nettyMaxFrameSizeBytes": str(5 * 1024 * 1024 + 10 * 1024)})
    return start_gateway(broker)


def arrive_on_websockets(gateway: KeylineGateway, topic: str) -> None:
    """Whole in both languages, one at a time; acknowledged with all their chunks."""
    for dialect, more in (("v2", {}), ("v1", {"frames": "binary"})):
        with worker(gateway.admin_url, dialect, topic, dialect, receiverQueueSize=1, **more) as socket:
            contents: dict[str, list[bytes]] = {}
            while sum(map(len, contents.values())) < len(("before", "large", "after")) * len(("k1", "k2")):
                message = socket.hear()
                if message.get("type", "message") != "message":
                    continue
                contents.setdefault(message["key"], []).append(payload(message))
                if dialect == "v2":
                    socket.acknowledge(message)
                else:
                    socket.say(type="ack", messageIds=[message["messageId"]])
            assert contents == {key: [b"before", LARGE, b"after"] for key in ("k1", "k2")}
        with worker(gateway.admin_url, "v2", topic, dialect) as again:
            assert again.hear_nothing()


def test_chunked_messages_arrive_whole(large_gateway: KeylineGateway, new_topic: Callable[[str], str]) -> None:
    """On relayed subscriptions, and on Key_Shared, where all chunks of a message go to its key's worker, in order."""
    client = pulsar.Client(large_gateway.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        for kind in (pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared):
            topic = new_topic(f"chunked-{kind.name}")
            names = ("a", "b") if kind is pulsar.ConsumerType.KeyShared else ("a",)
            workers = Workers({name: subscribe(client, topic, kind, consumer_name=name) for name in names})
            producer = client.create_producer(topic, chunking_enabled=True)
            for key in ("k1", "k2"):
                producer.send(b"before", partition_key=key)
                producer.send(LARGE, partition_key=key)
                producer.send(b"after", partition_key=key)
            assert by_key(workers.receive(6)) == {key: [b"before", LARGE, b"after"] for key in ("k1", "k2")}
            workers.worker_of_each_key()
            if kind is pulsar.ConsumerType.KeyShared:
                arrive_on_websockets(large_gateway, topic)
    finally:
        client.close()


@pytest.mark.parametrize(("given_back", "deliveries"), [("asked for", 2), ("left behind", 3)])
def test_a_poisoned_chunked_message_is_whole_in_the_dead_letters(
    start_pulsar: StartPulsar,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
    given_back: str,
    deliveries: int,
) -> None:
    """Whether its worker asks for it again, which this client does by the last chunk alone, or each closes at it."""
    broker = start_pulsar(settings={"maxMessageSize": str(SMALL_BYTES)})
    gateway, topic = start_gateway(broker, dead_letter_after="2", key_window="1"), new_topic("poisoned-chunks")
    poison = random.Random(topic).randbytes(4 * SMALL_BYTES)  # noqa: S311 - a payload, no secret
    client, direct = pulsar.Client(gateway.service_url), pulsar.Client(broker.service_url)
    letters = direct.subscribe(f"{topic}-s-DLQ", "look", initial_position=pulsar.InitialPosition.Earliest)

    def subscribed() -> pulsar.Consumer:
        kind = pulsar.ConsumerType.KeyShared
        return client.subscribe(topic, "s", consumer_type=kind, negative_ack_redelivery_delay_ms=50)

    worker = subscribed()

    producer = direct.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    producer.send(poison, partition_key="k", properties={"own": "v"})
    producer.send(b"next", partition_key="k")
    for _ in range(deliveries):
        message = worker.receive(RECEIVE_MS)
        assert message.data() == poison
        if given_back == "asked for":
            worker.negative_acknowledge(message)
        else:
            worker.close()
            worker = subscribed()
    letter = letters.receive(RECEIVE_MS)
    assert (letter.data(), letter.partition_key(), letter.properties()["own"]) == (poison, "k", "v")
    message = worker.receive(RECEIVE_MS)
    assert message.data() == b"next"
    worker.acknowledge(message)

    def all_acknowledged() -> bool:
        told = AdminClient(gateway.admin_url).ask("GET", subscription_path(topic, "s"))["dispatcher"]
        return not told["outstanding_entries"] and not told["unconfirmed_acks"]

    eventually(all_acknowledged, "the broker has the acknowledgement of every chunk")
    assert not list(available(letters))
    client.close()
    direct.close()
