"""Parking topics at a real broker: two subscriptions whose names meet have a lot each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar
import pytest

from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, subscription_path
from tests.integration.clients import RECEIVE_MS
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway


@pytest.mark.slow
@pytest.mark.broker
def test_two_whose_names_meet_have_a_lot_each(
    start_gateway: StartGateway, broker: PulsarStandalone, new_topic: Callable[[str], str]
) -> None:
    """Both work at a time, each sees what is parked of its own, and it comes back to its own worker."""
    gateway = start_gateway(broker, park_after="1", key_window="1")
    admin, client = AdminClient(gateway.admin_url), pulsar.Client(gateway.service_url)
    topic = new_topic("met")
    one, other = (topic, "a-b"), (topic + "-a", "b")

    def lot(whose: tuple[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = admin.ask("GET", subscription_path(*whose) + "/parked")
        return found

    consumers = {
        whose: client.subscribe(
            *whose, consumer_type=pulsar.ConsumerType.KeyShared, negative_ack_redelivery_delay_ms=50
        )
        for whose in (one, other)
    }
    lots = set()
    for whose, consumer in consumers.items():
        client.create_producer(whose[0]).send(whose[1].encode(), partition_key="k")
        consumer.negative_acknowledge(consumer.receive(RECEIVE_MS))
        eventually(lambda: lot(whose)["parked_messages"] == 1, "the message is parked")  # noqa: B023 - called at once
        lots.add(lot(whose)["parking_topic"])
    assert len(lots) == 2
    for whose, consumer in consumers.items():
        admin.ask("POST", subscription_path(*whose) + "/parked/redrive", query={"key": "k"})
        message = consumer.receive(RECEIVE_MS)
        assert message.data() == whose[1].encode()
        consumer.acknowledge(message)
    client.close()
