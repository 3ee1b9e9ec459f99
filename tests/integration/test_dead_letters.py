"""Dead letters with a real broker and the official client: a poisoned message goes, its key goes on."""

from __future__ import annotations

from collections.abc import Callable

import pulsar
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, subscription_path
from tests.integration.clients import RECEIVE_MS, available
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.exclusive_rig import administer
from tests.integration.parked_rig import parked, refuse
from tests.integration.raw_client import RawClient

ATTEMPTS = 3
NewTopic = Callable[[str], str]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_a_poisoned_message_goes_to_the_dead_letters_and_its_key_goes_on(
    start_gateway: StartGateway, broker: PulsarStandalone, new_topic: NewTopic, *, batching: bool
) -> None:
    """It had its attempts, no message of its key came before it was gone, and none is missing."""
    strict = start_gateway(broker, dead_letter_after=str(ATTEMPTS), key_window="1")
    topic = new_topic("poisoned")
    client, direct = pulsar.Client(strict.service_url), pulsar.Client(broker.service_url)
    letters = direct.subscribe(f"{topic}-s-DLQ", "look", initial_position=pulsar.InitialPosition.Earliest)
    consumer = client.subscribe(
        topic, "s", consumer_type=pulsar.ConsumerType.KeyShared, negative_ack_redelivery_delay_ms=50
    )
    producer = direct.create_producer(
        topic, batching_enabled=batching, batching_type=pulsar.BatchingType.KeyBased, batching_max_publish_delay_ms=50
    )
    for number in range(5):
        producer.send_async(str(number).encode(), None, partition_key="k", properties={"number": str(number)})
    producer.flush()
    seen = []
    while "4" not in seen:
        message = consumer.receive(RECEIVE_MS)
        seen.append(message.data().decode())
        (consumer.negative_acknowledge if seen[-1] == "1" else consumer.acknowledge)(message)
    assert seen == ["0", *["1"] * ATTEMPTS, "2", "3", "4"]
    letter = letters.receive(RECEIVE_MS)
    assert (letter.data(), letter.partition_key()) == (b"1", "k")
    properties = letter.properties()
    assert (properties["number"], properties["REAL_SUBSCRIPTION"]) == ("1", "s")
    assert properties["REAL_TOPIC"].endswith(topic)

    def all_acknowledged() -> bool:
        told = AdminClient(strict.admin_url).ask("GET", subscription_path(topic, "s"))["dispatcher"]
        return not told["outstanding_entries"] and not told["unconfirmed_acks"]

    eventually(all_acknowledged, "the broker has the acknowledgement of every message")
    client.close()
    direct.close()


def worked(consumer: pulsar.Consumer, until: str, *, poisoned: str = "") -> list[str]:
    """Payloads in the order in which they come, up to one; all but the poisoned one are acknowledged."""
    seen: list[str] = []
    while until not in seen:
        message = consumer.receive(RECEIVE_MS)
        seen.append(message.data().decode())
        (consumer.negative_acknowledge if seen[-1] == poisoned else consumer.acknowledge)(message)
    return seen


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_a_parked_key_is_redriven_in_order_also_by_the_next_gateway(
    start_gateway: StartGateway, broker: PulsarStandalone, new_topic: NewTopic, *, batching: bool
) -> None:
    """The poisoned message and all later ones are parked; the next gateway knows; redriven they come first."""
    settings = {"park_after": str(ATTEMPTS), "key_window": "1"}
    first = start_gateway(broker, **settings)
    topic = new_topic("parked")
    direct = pulsar.Client(broker.service_url)

    def consumed(gateway: KeylineGateway) -> tuple[pulsar.Client, pulsar.Consumer]:
        client = pulsar.Client(gateway.service_url)
        kind = pulsar.ConsumerType.KeyShared
        return client, client.subscribe(topic, "s", consumer_type=kind, negative_ack_redelivery_delay_ms=50)

    client, consumer = consumed(first)
    producer = direct.create_producer(
        topic, batching_enabled=batching, batching_type=pulsar.BatchingType.KeyBased, batching_max_publish_delay_ms=50
    )

    def send(key: str, *payloads: str) -> None:
        for payload in payloads:
            producer.send_async(payload.encode(), None, partition_key=key, properties={"own": payload})
        producer.flush()

    def parked(gateway: KeylineGateway, key: str = "k") -> list[str]:
        path = subscription_path(topic, "s") + "/parked/messages"
        found = AdminClient(gateway.admin_url).ask("GET", path, query={"key": key})
        return [each["position"] for each in found]

    send("k", "0", "1", "2")
    send("other", "x")
    send("k", "3")
    assert {"0", "x"} <= set(worked(consumer, "x", poisoned="1"))

    def refused_to_the_end() -> bool:
        for message in available(consumer):
            assert message.data() == b"1"
            consumer.negative_acknowledge(message)
        return len(parked(first)) == len("123")

    eventually(refused_to_the_end, "three messages are parked")
    send("k", "4")
    eventually(lambda: len(parked(first)) == 4, "what comes later is parked behind them")
    first.kill()
    client.close()
    second = start_gateway(broker, **settings)
    client, consumer = consumed(second)
    send("k", "5")
    send("other", "y")
    assert worked(consumer, "y") == ["y"]
    eventually(lambda: len(parked(second)) == 5, "the next gateway parks on")
    api = AdminClient(second.admin_url)
    done = api.ask("POST", subscription_path(topic, "s") + "/parked/redrive", query={"key": "k"})
    assert done["messages"] == 5
    send("k", "6")
    assert worked(consumer, "6") == ["1", "2", "3", "4", "5", "6"]
    eventually(lambda: not api.ask("GET", subscription_path(topic, "s") + "/parked")["slots"], "nothing is parked")
    client.close()
    direct.close()


@pytest.mark.slow
@pytest.mark.broker
def test_a_redrive_delivers_what_the_broker_has_left_of_a_parked_key(
    start_gateway: StartGateway, broker: PulsarStandalone, new_topic: NewTopic
) -> None:
    """An administrator skips parked messages, and the broker deletes their ledger: the gateway's consumer had them."""
    gateway = start_gateway(broker, park_after="1", key_window="1")
    topic = new_topic("gone")
    api, path = AdminClient(gateway.admin_url), subscription_path(topic, "s")
    direct, client = pulsar.Client(broker.service_url), pulsar.Client(gateway.service_url)
    kind = pulsar.ConsumerType.KeyShared
    consumer = client.subscribe(topic, "s", consumer_type=kind, negative_ack_redelivery_delay_ms=50)
    producer = direct.create_producer(topic, batching_enabled=False)

    def send(*payloads: str) -> None:
        for payload in payloads:
            producer.send(payload.encode(), partition_key="k")

    send("0", "1", "2")
    refuse(consumer, b"0", lambda: len(parked(gateway, topic, "k")) == 3, "three messages are parked")
    parking_topic = api.ask("GET", path + "/parked")["parking_topic"]
    administer(broker, "PUT", parking_topic, "unload")
    send("3", "4")
    eventually(lambda: len(parked(gateway, topic, "k")) == 5, "two more are parked, in another ledger")
    administer(broker, "POST", parking_topic, "subscription/keyline-parked/skip/3")

    def trimmed() -> bool:
        administer(broker, "POST", parking_topic, "trim")
        return len(administer(broker, "GET", parking_topic, "internalStats")["ledgers"]) == 1

    eventually(trimmed, "the broker has deleted the first ledger")
    assert len(parked(gateway, topic, "k")) == 5, "the gateway knows already"
    assert api.ask("POST", path + "/parked/redrive", query={"key": "k"})["messages"] == 5
    send("5")
    assert worked(consumer, "5") == ["3", "4", "5"]
    (told,) = [line for line in gateway.log.read_text().splitlines() if "parked messages are gone" in line]
    assert "messages=3" in told or '"messages": 3' in told
    client.close()
    direct.close()


@pytest.mark.slow
@pytest.mark.broker
def test_a_worker_gets_the_rest_of_a_chunked_message_though_its_key_is_parked_meanwhile(
    start_gateway: StartGateway, broker: PulsarStandalone, new_topic: NewTopic
) -> None:
    """It had the beginning before. A client acknowledges in the end what it has of such a message, and loses it."""
    gateway = start_gateway(broker, park_after="1")
    topic = new_topic("begun")
    api, path = AdminClient(gateway.admin_url), subscription_path(topic, "s")
    client = pulsar.Client(gateway.service_url)
    kind = pulsar.ConsumerType.KeyShared
    consumer = client.subscribe(topic, "s", consumer_type=kind, negative_ack_redelivery_delay_ms=50)

    def told() -> tuple[int, int]:
        dispatcher = api.ask("GET", path)["dispatcher"]
        (worker,) = dispatcher["workers"]
        return worker["unacked_messages"], dispatcher["parked_slots"]

    with RawClient(broker.service_url) as producer:
        producer.locate(topic)

        def send_half(index: int) -> None:
            halves = [b"who", b"le"]
            chunk = {"chunk_id": index, "num_chunks_from_msg": len(halves), "total_chunk_msg_size": len("whole")}
            producer.produce(topic, [("k", halves[index])], uuid="m", **chunk)

        producer.produce(topic, [("k", b"poisoned")])
        send_half(0)
        eventually(lambda: told() == (2, 0), "the worker has the first half")
        consumer.negative_acknowledge(consumer.receive(RECEIVE_MS))
        eventually(lambda: told() == (1, 1), "its key is parked")
        send_half(1)
        producer.produce(topic, [("k", b"later")])
    assert worked(consumer, "whole") == ["whole"]
    eventually(lambda: len(parked(gateway, topic, "k")) == 2, "the poisoned message and the last are parked")
    api.ask("POST", path + "/parked/redrive", query={"key": "k"})
    assert worked(consumer, "later") == ["poisoned", "later"]
    client.close()
