"""Excluded and quarantined workers with a real broker and the official client: their keys are and stay at others."""

from __future__ import annotations

from collections.abc import Callable

import pulsar
import pytest

from integration.gateway import KeylineGateway
from proxy.cli.admin_client import AdminClient, subscription_path, worker_path
from tests.integration.clients import available, by_key, key_shared, nothing_comes, numbered, send_all
from tests.integration.conditions import eventually

KEYS = [f"k{number}" for number in range(20)]
QUARANTINE = {
    "keyline.ack-lease-ms": "5000",
    "keyline.quarantine-after": "1",
    "keyline.quarantine-ms": "600000",
}
"""A lease that a worker keeps on any machine if it works, and a quarantine that no test waits out."""
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


@pytest.mark.slow
@pytest.mark.broker
def test_a_worker_that_hangs_is_quarantined_across_its_reconnects(
    gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """What it held comes to the other one, in order; connected again it owns no key, until it is readmitted."""
    topic = new_topic("quarantined")
    workers = key_shared(client, topic, "hangs", "works", properties=QUARANTINE)
    hangs, works = workers.consumers["hangs"], workers.consumers["works"]
    producer = client.create_producer(topic)
    api, path = AdminClient(gateway.admin_url), subscription_path(topic, "s")
    came: list[pulsar.Message] = []

    def all_came(count: int) -> bool:
        for message in available(works):
            came.append(message)
            works.acknowledge(message)
        return len(came) == count

    send_all(producer, numbered(KEYS, 200))
    eventually(lambda: all_came(200), "the other worker has all messages")
    assert len(by_key(came)) == len(KEYS)
    for values in by_key(came).values():
        assert list(values) == sorted(values, key=int)

    def kept_out() -> list[tuple[str, str]]:
        return [(each["name"], each["reason"]) for each in api.ask("GET", path)["kept_out"]]

    eventually(lambda: kept_out() == [("hangs", "quarantined")], "the hung worker's client is back, and has no keys")
    assert hangs.is_connected()
    send_all(producer, numbered(KEYS, 40))
    eventually(lambda: all_came(240), "all that is new is at the other one")
    assert nothing_comes(hangs)
    assert api.ask("GET", path)["quarantines"] == 1
    assert api.ask("DELETE", worker_path(topic, "s", "hangs") + "/exclude") == {"workers": 1}
    eventually(lambda: api.ask("GET", path)["dispatcher"]["workers_count"] == 2, "both are workers")
    send_all(producer, numbered(KEYS, 40))
    workers.receive(40)
    assert set(workers.received) == {"hangs", "works"}
