"""Dead letters with a real broker and the official client: a poisoned message goes, its key goes on."""

from __future__ import annotations

from collections.abc import Callable

import pulsar
import pytest

from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, subscription_path
from tests.integration.clients import RECEIVE_MS
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway

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
