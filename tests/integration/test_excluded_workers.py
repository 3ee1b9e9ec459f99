"""An excluded worker with a real broker and the official client: its keys go to others, and stay there."""

from __future__ import annotations

from collections.abc import Callable

import pulsar
import pytest

from integration.gateway import KeylineGateway
from proxy.cli.admin_client import AdminClient, subscription_path, worker_path
from tests.integration.clients import available, by_key, key_shared, nothing_comes, numbered, send_all
from tests.integration.conditions import eventually

KEYS = [f"k{number}" for number in range(20)]
NewTopic = Callable[[str], str]


@pytest.mark.slow
def test_an_excluded_worker_gets_nothing_until_it_is_readmitted(
    gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """What it held is delivered to the other at once, in order; its client comes again by itself, and is let in."""
    topic = new_topic("excluded")
    workers = key_shared(client, topic, "a", "b")
    producer = client.create_producer(topic)
    send_all(producer, numbered(KEYS, 40))
    workers.receive(40, acknowledge=False)
    held = workers.received["a"]
    assert held
    api = AdminClient(gateway.admin_url)
    exclude = worker_path(topic, "s", "a") + "/exclude"
    assert api.ask("POST", exclude) == {"workers": 1}
    a, b = workers.consumers["a"], workers.consumers["b"]
    again: list[pulsar.Message] = []

    def came() -> bool:
        again.extend(available(b))
        return len(again) == len(held)

    eventually(came, "what the excluded worker held is at the other one")
    assert by_key(again) == by_key(held)
    eventually(a.is_connected, "the excluded worker's client is connected again")
    send_all(producer, numbered(KEYS, 20))
    for message in [*workers.received["b"], *again]:
        b.acknowledge(message)
    fresh: list[pulsar.Message] = []

    def all_came() -> bool:
        fresh.extend(available(b))
        return len(fresh) == len(KEYS)

    eventually(all_came, "all that is new is at the other one")
    assert nothing_comes(a)
    for message in fresh:
        b.acknowledge(message)
    standing = api.ask("GET", "/orders")
    assert [order["excluded"] for order in standing if order["topic"] == topic] == [["a"]]
    assert api.ask("DELETE", exclude) == {"workers": 1}
    eventually(
        lambda: len(api.ask("GET", subscription_path(topic, "s"))["dispatcher"]["workers"]) == 2, "both are back"
    )
    send_all(producer, numbered(KEYS, 20))
    workers.received.clear()
    workers.receive(20)
    assert set(workers.received) == {"a", "b"}
