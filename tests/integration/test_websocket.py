"""WebSocket workers in front of real brokers: Pulsar's language as Pulsar's own service speaks it, and ours."""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
import pulsar
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.clients import numbered, send_all
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.exclusive_rig import feed_of
from tests.integration.socket_client import Socket, payload, refusal, worker, worker_path

NewTopic = Callable[[str], str]
Statistics = Callable[[str], dict[str, Any]]


def backlog(topic_statistics: Statistics, topic: str) -> int:
    """Entries of subscription s that are not acknowledged at the broker."""
    return int(topic_statistics(topic)["subscriptions"]["s"]["msgBacklog"])


def workers_at(gateway: KeylineGateway, topic: str) -> list[dict[str, Any]]:
    """The gateway's view of a topic's workers."""
    found = [item for item in gateway.statistics()["subscriptions"] if item["topic"] == topic]
    return list(found[0]["dispatcher"]["workers"]) if found else []


def send_all_kinds(client: pulsar.Client, topic: str) -> int:
    """Messages of every kind a frame tells differently; how many."""
    plain = client.create_producer(topic, batching_enabled=False)
    plain.send(b"keyed", partition_key="k1", properties={"a": "b", "c": ""}, event_timestamp=1_234_567_890_123)
    plain.send(b"", partition_key="")
    plain.send(b"without a key")
    plain.send("Grüße".encode(), partition_key="Schlüssel", ordering_key="order", properties={"ü": "ä"})
    sent = 4
    for name in ("LZ4", "ZLib", "ZSTD", "SNAPPY"):
        packed = client.create_producer(
            topic, compression_type=pulsar.CompressionType.__members__[name], batching_enabled=True
        )
        for number in range(3):
            packed.send_async(
                name.encode() * 100, lambda *_: None, partition_key=f"{name}-{number}", properties={"n": str(number)}
            )
        packed.flush()
        sent += 3
    return sent


def test_frames_are_those_of_the_brokers_own_service(
    broker: PulsarStandalone, gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """Field for field, id for id, and again after a refusal; questions are answered with the same words."""
    topic = new_topic("frames")
    count = send_all_kinds(client, topic)
    heard: list[list[dict[str, Any]]] = []
    for url, subscription in ((broker.admin_url, "direct"), (gateway.admin_url, "through")):
        with worker(url, "v2", topic, subscription, negativeAckRedeliveryDelay=100) as side:
            first = [side.hear() for _ in range(count)]
            side.say(type="negativeAcknowledge", messageId=first[0]["messageId"])
            again = side.hear()
            side.say(type="isEndOfTopic")
            heard.append([*sorted(first, key=lambda message: message["messageId"]), again, side.hear()])
    assert heard[1] == heard[0]


def test_acknowledged_is_acknowledged(
    gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic, topic_statistics: Statistics
) -> None:
    """Each message on its own, of a batch too: what was not, comes again to the next connection."""
    topic = new_topic("acknowledged")
    producer = client.create_producer(topic, batching_enabled=True)
    for number in range(6):
        producer.send_async(b"%d" % number, lambda *_: None, partition_key=f"k{number}")
    producer.flush()
    with worker(gateway.admin_url, "v2", topic) as first:
        for message in [first.hear() for _ in range(6)]:
            if payload(message) != b"4":
                first.acknowledge(message)
    with worker(gateway.admin_url, "v2", topic) as second:
        message = second.hear()
        assert payload(message) == b"4"
        assert second.hear_nothing()
        second.acknowledge(message)
    eventually(lambda: backlog(topic_statistics, topic) == 0, "an empty backlog")


def letters(client: pulsar.Client, topic: str, count: int) -> list[tuple[Any, ...]]:
    """What lies in a topic of dead letters."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = [reader.read_next(timeout_millis=60_000) for _ in range(count)]
    reader.close()
    own = ("n", "REAL_TOPIC")
    for each in found:
        assert each.properties()["ORIGIN_MESSAGE_ID"].split(":")[1] == "0", "the topic's first entry"
    return sorted(
        (each.data(), each.partition_key(), [each.properties()[name] for name in own], each.event_timestamp())
        for each in found
    )


def refuse_twos(
    url: str, client: pulsar.Client, topic: str, subscription: str
) -> tuple[list[int], list[tuple[Any, ...]]]:
    """Refuse message 2 each time it comes, three times; the redelivery counts it came with, and its dead letter.

    The worker stays until that is there: it is published a while after the last refusal, if the worker is still there.
    """
    query = {"maxRedeliverCount": 2, "negativeAckRedeliveryDelay": 50}
    tries: list[int] = []
    with worker(url, "v2", topic, subscription, **query) as side:
        while len(tries) < 1 + 2:
            message = side.hear()
            if payload(message) == b"2":
                tries.append(message["redeliveryCount"])
                side.say(type="negativeAcknowledge", messageId=message["messageId"])
            else:
                side.acknowledge(message)
        assert side.hear_nothing()
        return tries, letters(client, f"{topic}-{subscription}-DLQ", 1)


@pytest.mark.parametrize("batched", [False, True])
def test_what_is_refused_too_often_becomes_a_dead_letter(
    broker: PulsarStandalone,
    gateway: KeylineGateway,
    client: pulsar.Client,
    new_topic: NewTopic,
    topic_statistics: Statistics,
    *,
    batched: bool,
) -> None:
    """After as many tries as at the broker's own service, in the same topic; of a batch alone."""
    topic = new_topic("dead")
    producer = client.create_producer(topic, batching_enabled=batched)
    for number in (2, 3, 4):
        producer.send_async(
            b"%d" % number, lambda *_: None, partition_key=f"k{number}", properties={"n": str(number)},
            event_timestamp=1_234_567_890_123,
        )  # fmt: skip
    producer.flush()
    tries, found = refuse_twos(gateway.admin_url, client, topic, "s")
    assert tries == [0, 1, 2]
    assert found == [(b"2", "k2", ["2", topic], 1_234_567_890_123)]
    eventually(lambda: backlog(topic_statistics, topic) == 0, "an empty backlog")
    if not batched:
        assert refuse_twos(broker.admin_url, client, topic, "direct") == (tries, found)


def test_pull_mode_gets_what_it_permits(gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic) -> None:
    """Nothing before, and no more than that, acknowledged or not."""
    topic = new_topic("pull")
    send_all(client.create_producer(topic), numbered(["k1", "k2"], 20))
    with worker(gateway.admin_url, "v2", topic, pullMode="true") as puller:
        assert puller.hear_nothing()
        puller.say(type="permit", permitMessages=3)
        for message in [puller.hear() for _ in range(3)]:
            puller.acknowledge(message)
        assert puller.hear_nothing()
        puller.say(type="permit", permitMessages=17)
        assert len([puller.hear() for _ in range(17)]) == 17


def test_our_language_tells_what_pulsars_does_not(
    gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic, topic_statistics: Statistics
) -> None:
    """Topic, slot as in the admin API, ordering key, attempts; receipts, answers to mistakes."""
    topic = new_topic("ours")
    producer = client.create_producer(topic, batching_enabled=False)
    producer.send(b"\x00payload", partition_key="k1", ordering_key="o1")
    path = topic.removeprefix("persistent://")
    with worker(gateway.admin_url, "v1", topic, frames="binary", negativeAckRedeliveryDelay=50) as ours:
        assert ours.hear() == {"type": "joined", "topics": [topic]}
        message = ours.hear()
        answer = httpx.get(
            f"{gateway.admin_url}/api/v1/subscriptions/{path}/s/explain",
            params={"key": "o1"},
            trust_env=False,
            timeout=30,
        )
        told = {
            name: message[name] for name in ("type", "topic", "slot", "attempt", "key", "orderingKey", "sequenceId")
        }
        assert told == {
            "type": "message",
            "topic": topic,
            "slot": answer.raise_for_status().json()["slot"],
            "attempt": 1,
            "key": "k1",
            "orderingKey": "o1",
            "sequenceId": 0,
        }
        assert payload(message) == b"\x00payload"
        ours.say(type="nack", messageIds=[message["messageId"]])
        assert ours.hear()["attempt"] == 2
        ours.say(type="acknowledge", requestId=6)
        mistake = ours.hear()
        assert (mistake["type"], mistake["requestId"]) == ("error", 6)
        assert "'acknowledge'" in mistake["message"]
        ours.say(type="ack", messageIds=[message["messageId"]], requestId=7)
        assert ours.hear() == {"type": "receipt", "requestId": 7}
        assert backlog(topic_statistics, topic) == 0
        ours.say(type="ack", messageIds=[message["messageId"]], requestId=8)
        assert ours.hear() == {"type": "receipt", "requestId": 8, "notHeld": [message["messageId"]]}


@pytest.fixture
def partitioned(broker: PulsarStandalone, new_topic: NewTopic) -> str:
    """A topic of three partitions."""
    topic = new_topic("partitioned")
    path = topic.replace("://", "/")
    answer = httpx.put(
        f"{broker.admin_url}/admin/v2/{path}/partitions",
        content="3",
        headers={"content-type": "application/json"},
        trust_env=False,
        timeout=30,
    )
    answer.raise_for_status()
    return topic


def test_one_worker_consumes_every_partition(
    gateway: KeylineGateway, client: pulsar.Client, partitioned: str, topic_statistics: Statistics
) -> None:
    """Within one bound for what may be unacknowledged; each key in order."""
    send_all(client.create_producer(partitioned), numbered([f"k{number}" for number in range(12)], 60))
    with worker(gateway.admin_url, "v1", partitioned, receiverQueueSize=4) as ours:
        topics = [f"{partitioned}-partition-{number}" for number in range(3)]
        assert ours.hear() == {"type": "joined", "topics": topics}
        held = [ours.hear() for _ in range(4)]
        assert ours.hear_nothing()
        received = []
        while True:
            received += held
            ours.say(type="ack", messageIds=[message["messageId"] for message in held], requestId=1)
            held = []
            while len(held) < min(4, 60 - len(received)) or not held:
                said = ours.hear()
                if said["type"] == "message":
                    held.append(said)
                elif len(received) == 60:
                    break
            if not held:
                break
        assert {message["topic"] for message in received} == set(topics)
        by_key: dict[str, list[bytes]] = {}
        for message in received:
            by_key.setdefault(message["key"], []).append(payload(message))
        assert all(payloads == [b"%d" % number for number in range(5)] for payloads in by_key.values())
        assert len(by_key) == 12
    for topic in topics:
        eventually(partial(lambda each: backlog(topic_statistics, each) == 0, topic), "an empty backlog")


def test_operators_see_and_send_away_a_worker(gateway: KeylineGateway, new_topic: NewTopic) -> None:
    """It is a consumer like any other; evicted, it is told to come again."""
    topic = new_topic("evicted")
    path = topic.removeprefix("persistent://")
    with worker(gateway.admin_url, "v2", topic, consumerName="browser", receiverQueueSize=7) as here:
        eventually(lambda: [each["available_permits"] for each in workers_at(gateway, topic)] == [7], "its permits")
        (seen,) = workers_at(gateway, topic)
        assert seen["name"] == "browser"
        url = f"{gateway.admin_url}/api/v1/subscriptions/{path}/s/workers/browser/evict"
        httpx.post(url, trust_env=False, timeout=30).raise_for_status()
        assert here.closed_with() == (1012, "the consumer was closed: connect again")
    eventually(lambda: not workers_at(gateway, topic), "no worker to be left")


def test_a_gateway_that_stops_sends_its_workers_elsewhere(
    broker: PulsarStandalone, start_gateway: StartGateway, new_topic: NewTopic
) -> None:
    """With the code that says come again, and in good time."""
    gateway = start_gateway(broker, drain_timeout_s="1")
    with worker(gateway.admin_url, "v1", new_topic("stopping")) as here:
        here.hear()
        assert gateway.stop() == 0
        assert here.closed_with()[0] == 1012


def test_unsubscribing_deletes_the_subscription(
    gateway: KeylineGateway, new_topic: NewTopic, topic_statistics: Statistics
) -> None:
    """The last worker may; one beside others is refused as at the broker."""
    topic = new_topic("unsubscribed")
    with worker(gateway.admin_url, "v2", topic) as first:
        with worker(gateway.admin_url, "v2", topic) as second:
            second.say(type="unsubscribe")
            code, reason = second.closed_with()
            assert code == 1008
            assert reason.startswith("not unsubscribed: ")
        eventually(lambda: len(workers_at(gateway, topic)) == 1, "one worker left")
        first.say(type="unsubscribe")
        assert first.closed_with() == (1000, "unsubscribed")
    assert "s" not in topic_statistics(topic)["subscriptions"]


def mute(gateway: KeylineGateway, path: str) -> Iterator[socket.socket]:
    """A WebSocket that upgrades and then answers nothing, not even pings."""
    where = urlsplit(gateway.admin_url)
    with socket.create_connection((where.hostname, where.port), timeout=60) as connection:
        key = base64.b64encode(os.urandom(16)).decode()
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert connection.recv(12) == b"HTTP/1.1 101"
        yield connection


def test_a_worker_that_answers_no_ping_is_given_up(
    broker: PulsarStandalone, start_gateway: StartGateway, new_topic: NewTopic
) -> None:
    """Its keys go to others, as those of a silent client of any kind."""
    gateway = start_gateway(broker, keep_alive_s="1")
    topic = new_topic("mute")
    path = worker_path("v2", topic, "s") + "?subscriptionType=Key_Shared"
    with feed_of(gateway, topic) as feed:
        for _ in mute(gateway, path):
            feed.until("worker_joined")
            feed.until("worker_left")
    eventually(lambda: not workers_at(gateway, topic), "no worker to be left")


UNKNOWN = "persistent://nobody/nowhere/topic"


def test_a_refused_upgrade_says_why(
    broker: PulsarStandalone, gateway: KeylineGateway, start_gateway: StartGateway, new_topic: NewTopic
) -> None:
    """As an HTTP answer, with the broker's own status for what the broker refuses."""
    topic = new_topic("refused")
    assert refusal(worker(gateway.admin_url, "v2", UNKNOWN))[0] == 404
    status, detail = refusal(worker(gateway.admin_url, "v2", topic, subscriptionType="Shared"))
    assert (status, "Shared is not served here" in detail) == (400, True)
    foreign = Socket(
        gateway.admin_url,
        worker_path("v2", topic, "s"),
        origin="https://elsewhere.example",
        subscriptionType="Key_Shared",
    )
    status, detail = refusal(foreign)
    assert (status, "websocket_origins" in detail) == (403, True)
    without = start_gateway(broker, websocket_workers="false")
    assert refusal(worker(without.admin_url, "v2", topic))[0] in {403, 404}
