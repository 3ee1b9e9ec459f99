"""The real `pulsar-admin` against a gateway: it shows what it would show of the same workers at the broker itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pulsar
import pytest

from integration import tools
from integration.errors import IntegrationError
from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from tests.integration.clients import Workers, key_shared, numbered, send_all
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway

KEYS = [f"k{number}" for number in range(40)]
NewTopic = Callable[[str], str]

SAME = (
    "consumerName", "availablePermits", "unackedMessages", "blockedConsumerOnUnackedMsgs", "msgOutCounter",
    "bytesOutCounter", "drainingHashesCount", "drainingHashesClearedTotal", "drainingHashesUnackedMessages",
    "keyHashRangeArrays", "metadata", "clientVersion",
)  # fmt: skip
"""What a worker must have in common with a consumer of its name that lived the same at the broker."""
LOOKS = 10
"""So often the same is told where nothing moves any more."""
MOMENTS = ("lastAckedTimestamp", "lastConsumedTimestamp", "lastConsumedFlowTimestamp")


def statistics(url: str, topic: str, kind: str = "stats") -> dict[str, Any]:
    """The JSON itself, of which `pulsar-admin` prints what it knows."""
    answer = httpx.get(f"{url}/admin/v2/{topic.replace('://', '/')}/{kind}", trust_env=False, timeout=30)
    values: dict[str, Any] = answer.raise_for_status().json()
    return values


def shape(value: Any) -> Any:
    """Names and types, without values; of a list those of its items."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value).__name__


def hand_over(client: pulsar.Client, topic: str) -> tuple[Workers, Workers]:
    """Worker old holds a message of every key, new joins, and another message of every key comes."""
    old = key_shared(client, topic, "old", properties={"pod": "w-1"})
    producer = client.create_producer(topic)
    send_all(producer, numbered(KEYS, len(KEYS)))
    old.receive(len(KEYS), acknowledge=False)
    new = key_shared(client, topic, "new")
    send_all(producer, numbered(KEYS, len(KEYS)))
    return old, new


def blocked_everywhere(url: str, topic: str) -> dict[str, Any]:
    """The subscription, as soon as every hash that drains has stopped a message."""
    subscription: dict[str, Any] = {}
    sent: list[list[int]] = []

    def settled() -> bool:
        subscription.update(statistics(url, topic)["subscriptions"]["s"])
        draining = subscription["consumers"][0]["drainingHashes"]
        sent.append([consumer["msgOutCounter"] for consumer in subscription["consumers"]])
        still = sent[-LOOKS:] == LOOKS * [sent[-1]]
        return still and bool(draining) and all(item["blockedAttempts"] for item in draining)

    eventually(settled, "every draining hash has stopped a message, and no other message comes any more")
    return subscription


def official_client(service_url: str) -> pulsar.Client:
    """One that writes little."""
    return pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))


@pytest.fixture
def direct(broker: PulsarStandalone) -> Iterator[pulsar.Client]:
    """An official client whose service URL is the broker's."""
    client = official_client(broker.service_url)
    yield client
    client.close()


def test_reads_are_answered_by_the_broker(
    broker: PulsarStandalone, gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """Tenants, namespaces, topics, subscriptions, lookup, health."""
    topic = new_topic("admin")
    key_shared(client, topic, "a")

    def admin(*arguments: str) -> str:
        return tools.pulsar_admin(*arguments, admin_url=gateway.admin_url)

    assert "public" in admin("tenants", "list").split()
    assert "public/default" in admin("namespaces", "list", "public").split()
    assert topic in admin("topics", "list", "public/default")
    assert admin("topics", "subscriptions", topic).strip() == "s"
    assert broker.service_url in admin("topics", "lookup", topic)
    assert "ok" in admin("brokers", "healthcheck").lower()


def test_messages_are_looked_at_through_the_gateway(
    broker: PulsarStandalone, gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """Peeked, by their ids and by their place: their ids and times are in headers of the broker."""
    topic = new_topic("admin-peek")
    key_shared(client, topic, "a").consumers["a"].close()
    options = {"partition_key": "customer-17", "properties": {"kind": "order"}}
    message = client.create_producer(topic, batching_enabled=False).send(b"hello", **options)

    def admin(url: str, *arguments: str) -> str:
        return tools.pulsar_admin("topics", *arguments, admin_url=url)

    at = ("-l", str(message.ledger_id()), "-e", str(message.entry_id()))
    for command in (
        ("peek-messages", topic, "-s", "s", "-n", "1"),
        ("get-message-by-id", topic, *at),
        ("examine-messages", topic, "-i", "earliest", "-m", "1"),
    ):
        told = admin(gateway.admin_url, *command)
        assert "hello" in told
        assert told == admin(broker.admin_url, *command)


def test_a_hand_over_looks_as_it_does_at_the_broker(
    broker: PulsarStandalone,
    gateway: KeylineGateway,
    client: pulsar.Client,
    direct: pulsar.Client,
    new_topic: NewTopic,
) -> None:
    """The same names, types and values as of consumers that live the same without a gateway."""
    at_broker, at_gateway = new_topic("direct"), new_topic("gateway")
    kept = hand_over(direct, at_broker), hand_over(client, at_gateway)

    expected = blocked_everywhere(broker.admin_url, at_broker)
    found = blocked_everywhere(gateway.admin_url, at_gateway)
    assert shape(found) == shape(expected)
    assert [list(item) for item in found["consumers"]] == [list(item) for item in expected["consumers"]]
    for mine, theirs in zip(found["consumers"], expected["consumers"], strict=True):
        assert {name: mine[name] for name in SAME} == {name: theirs[name] for name in SAME}
        assert {name: bool(mine[name]) for name in MOMENTS} == {name: bool(theirs[name]) for name in MOMENTS}
        hashes = [{item["hash"]: item["unackMsgs"] for item in side["drainingHashes"]} for side in (mine, theirs)]
        assert hashes[0] == hashes[1]
    for name in ("unackedMessages", "drainingHashesCount", "drainingHashesUnackedMessages", "msgInReplay", "type"):
        assert found[name] == expected[name], name

    def told_alike() -> bool:
        """What is connected directly; the broker counts its rates once a minute, which may be between the two looks."""
        looks = (statistics(url, at_broker) for url in (gateway.admin_url, broker.admin_url))
        told, theirs = (look["subscriptions"]["s"]["consumers"] for look in looks)
        return bool(told == theirs)

    eventually(told_alike, "the gateway to tell of direct consumers as the broker does")

    printed = [
        tools.pulsar_admin_json("topics", "stats", topic, admin_url=gateway.admin_url)["subscriptions"]["s"]
        for topic in (at_gateway, at_broker)
    ]
    assert shape(printed[0]) == shape(printed[1])
    by_name = {item["consumerName"]: item for item in printed[0]["consumers"]}
    assert set(by_name) == {"old", "new"}
    assert by_name["old"]["drainingHashesCount"] == len(by_name["old"]["drainingHashes"]) > 0
    assert all(item["unackMsgs"] == 1 for item in by_name["old"]["drainingHashes"])
    assert len(kept) == 2  # until here they had to be there


def test_a_direct_consumer_stays_beside_the_workers(
    broker: PulsarStandalone,
    gateway: KeylineGateway,
    client: pulsar.Client,
    direct: pulsar.Client,
    new_topic: NewTopic,
) -> None:
    """On one subscription, with the same names each; the gateway's own consumer is not shown, rates come with time."""
    topic = new_topic("beside")
    key_shared(direct, topic, "direct")
    workers = key_shared(client, topic, "a", "b")
    names = {item["consumerName"] for item in statistics(broker.admin_url, topic)["subscriptions"]["s"]["consumers"]}
    assert names == {"direct", "keyline"}

    def rates() -> dict[str, float]:
        consumers = statistics(gateway.admin_url, topic)["subscriptions"]["s"]["consumers"]
        assert [set(item) for item in consumers] == [set(consumers[0])] * 3
        return {item["consumerName"]: item["msgRateOut"] for item in consumers}

    assert rates() == {"direct": 0.0, "a": 0.0, "b": 0.0}
    send_all(direct.create_producer(topic), numbered(KEYS, 400))

    def delivered() -> bool:
        workers.receive_available()
        return max(rates()["a"], rates()["b"]) > 0

    eventually(delivered, "the workers' rates show")

    def as_the_broker_says() -> bool:
        consumers = statistics(broker.admin_url, topic)["subscriptions"]["s"]["consumers"]
        told = [item["msgRateOut"] for item in consumers if item["consumerName"] == "direct"]
        return [rates()["direct"]] == told

    # The broker counts its rates once a minute, which may be between the two looks.
    eventually(as_the_broker_says, "the direct consumer's rate")


def test_partitions_look_as_they_do_at_the_broker(
    broker: PulsarStandalone,
    gateway: KeylineGateway,
    client: pulsar.Client,
    direct: pulsar.Client,
    new_topic: NewTopic,
) -> None:
    """Each of them and all together."""
    topics = new_topic("direct-partitions"), new_topic("gateway-partitions")
    for topic, each in zip(topics, (direct, client), strict=True):
        path = topic.replace("://", "/")
        made = httpx.put(f"{broker.admin_url}/admin/v2/{path}/partitions", json=2, trust_env=False, timeout=30)
        assert made.is_success, made.text
        workers = key_shared(each, topic, "a")
        send_all(each.create_producer(topic), numbered(KEYS, len(KEYS)))
        workers.receive(len(KEYS), acknowledge=False)
    expected, found = (
        tools.pulsar_admin_json("topics", "partitioned-stats", topic, "--per-partition", admin_url=gateway.admin_url)
        for topic in topics
    )
    assert set(found["partitions"]) == {f"{topics[1]}-partition-{number}" for number in range(2)}
    for number in range(2):
        their_part, my_part = (
            side["partitions"][f"{topic}-partition-{number}"]
            for side, topic in zip((expected, found), topics, strict=True)
        )
        assert shape(my_part["subscriptions"]) == shape(their_part["subscriptions"])
    (theirs,), (mine,) = (side["subscriptions"]["s"]["consumers"] for side in (expected, found))
    assert shape(found["subscriptions"]) == shape(expected["subscriptions"])
    for name in ("consumerName", "availablePermits", "unackedMessages", "msgOutCounter", "keyHashRangeArrays"):
        assert mine[name] == theirs[name], name
    assert mine["unackedMessages"] == found["subscriptions"]["s"]["unackedMessages"] == len(KEYS)
    alone = tools.pulsar_admin_json("topics", "partitioned-stats", topics[1], admin_url=gateway.admin_url)
    assert alone["partitions"] == {}
    assert [item["consumerName"] for item in alone["subscriptions"]["s"]["consumers"]] == ["a"]


def test_join_positions_are_shown_in_the_mode_that_has_them(
    pulsar: PulsarStandalone, start_gateway: StartGateway, new_topic: NewTopic
) -> None:
    """PIP-282's, by the name and key of its text; `pulsar-admin` prints the map, and the position by its older name."""
    gateway = start_gateway(pulsar, ordering_mode="last_sent_position")
    topic = new_topic("positions")
    client = official_client(gateway.service_url)
    old = key_shared(client, topic, "old")
    send_all(client.create_producer(topic), numbered(KEYS, len(KEYS)))
    last = old.receive(len(KEYS), acknowledge=False)[-1].message_id()
    kept = key_shared(client, topic, "new")
    position = f"{last.ledger_id()}:{last.entry_id()}"
    shown = statistics(gateway.admin_url, topic)["subscriptions"]["s"]
    by_name = {item["consumerName"]: item for item in shown["consumers"]}
    assert by_name["new"]["lastSentPositionWhenJoining"] == position
    assert "lastSentPositionWhenJoining" not in by_name["old"]
    printed = tools.pulsar_admin_json("topics", "stats", topic, admin_url=gateway.admin_url)["subscriptions"]["s"]
    (key,) = printed["consumersAfterMarkDeletePosition"]
    assert key.startswith("consumerName=new, consumerId=")
    assert key.endswith(f", address={by_name['new']['address']}")
    assert printed["consumersAfterMarkDeletePosition"][key] == position
    assert [item.get("readPositionWhenJoining") for item in printed["consumers"]] == [None, position]
    assert set(kept.consumers) == {"new"}
    client.close()


def test_a_write_is_refused_with_the_reason_or_done_where_it_is_configured(
    broker: PulsarStandalone, gateway: KeylineGateway, start_gateway: StartGateway, new_topic: NewTopic
) -> None:
    """`pulsar-admin` prints which setting it takes and fails; with it, the broker does what is asked."""
    topic = new_topic("written")
    with pytest.raises(IntegrationError, match="admin_writes_to_broker is false"):
        tools.pulsar_admin("topics", "create", topic, admin_url=gateway.admin_url)
    path = f"{broker.admin_url}/admin/v2/persistent/public/default"
    assert topic not in httpx.get(path, trust_env=False, timeout=30).json()

    open_gateway = start_gateway(broker, admin_writes_to_broker="true")
    tools.pulsar_admin("topics", "create", topic, admin_url=open_gateway.admin_url)
    assert topic in httpx.get(path, trust_env=False, timeout=30).json()
    tools.pulsar_admin("topics", "create-subscription", "-s", "made", topic, admin_url=open_gateway.admin_url)
    tools.pulsar_admin("topics", "delete", topic, "--force", admin_url=open_gateway.admin_url)
    assert topic not in httpx.get(path, trust_env=False, timeout=30).json()


def test_a_dead_admin_api_is_told_while_ours_answers(pulsar: PulsarStandalone, start_gateway: StartGateway) -> None:
    """`pulsar-admin` prints what cannot be reached and why."""
    gateway = start_gateway(pulsar, broker_admin_url="http://127.0.0.1:1")
    with pytest.raises(IntegrationError, match=r"http://127\.0\.0\.1:1: ConnectError"):
        tools.pulsar_admin("tenants", "list", admin_url=gateway.admin_url)
    answer = httpx.get(f"{gateway.admin_url}/admin/v2/tenants", trust_env=False, timeout=30)
    assert answer.status_code == 503
    assert json.loads(answer.content)["reason"].startswith("the broker's admin API")
    assert gateway.statistics()["subscriptions"] == []
