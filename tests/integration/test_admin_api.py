"""The admin API and its commands beside a real broker and official clients: what is told is what happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pulsar
from typer.testing import CliRunner

from integration.gateway import KeylineGateway
from proxy.cli.main import app
from tests.integration.clients import key_shared, nothing_comes, numbered, receive, send_all
from tests.integration.conditions import eventually
from tests.integration.ear import Ear

KEYS = [f"k{number}" for number in range(40)]
NewTopic = Callable[[str], str]


def command(gateway: KeylineGateway, *arguments: str) -> Any:
    """JSON of a ``keyline`` command."""
    return json.loads(order(gateway, *arguments, "--json"))


def order(gateway: KeylineGateway, *arguments: str) -> str:
    """What a command prints. In this process: to start one takes longer than any command does."""
    done = CliRunner().invoke(app, [*arguments, "--admin-url", gateway.admin_url])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_key_that_waits_is_explained_until_it_flows(
    gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """One worker holds every key, another joins: what was previewed drains, explained, listed and told as it ends."""
    topic = new_topic("explained")
    ear = Ear(gateway, topic)
    old = key_shared(client, topic, "old")
    producer = client.create_producer(topic)
    send_all(producer, numbered(KEYS, len(KEYS)))
    held = old.receive(len(KEYS), acknowledge=False)
    preview = command(gateway, "preview", "join", topic, "s", "new")
    assert preview["slots_that_would_drain"] == preview["messages_that_would_drain"] > 0

    new = key_shared(client, topic, "new")
    joined = ear.next("worker_joined")
    assert joined["facts"]["worker"] == "old"
    joined = ear.next("worker_joined")
    assert joined["facts"]["worker"] == "new"
    assert joined["facts"]["moves_count"] == preview["moves_count"]
    shown = command(gateway, "stats", topic, "s")
    draining = {item["hash"]: item for worker in shown["dispatcher"]["workers"] for item in worker["draining_hashes"]}
    assert len(draining) == preview["slots_that_would_drain"]
    assert {item["owner"] for item in draining.values()} == {"new"}

    states = ((key, command(gateway, "explain", topic, "s", "--key", key)) for key in KEYS)
    waiting = next(key for key, answer in states if answer["slot"] in draining)
    producer.send(b"next", partition_key=waiting)
    assert nothing_comes(new.consumers["new"])
    answer = command(gateway, "explain", topic, "s", "--key", waiting)
    assert (answer["state"], answer["owner"], answer["holder"]) == ("draining", "new", "old")
    pending = command(gateway, "pending", topic, "s", "old", "--key", waiting)
    first = next(message for message in held if message.partition_key() == waiting).message_id()
    assert answer["blocking"][0]["position"] == f"{first.ledger_id()}:{first.entry_id()}"
    assert [item["message_id"] for item in pending["deliveries"]] == [f"{first.ledger_id()}:{first.entry_id()}"]

    for message in held:
        old.consumers["old"].acknowledge(message)
    assert receive(new.consumers["new"]).data() == b"next"
    done = 0
    while done < len(draining):
        done += ear.next("drains_ended")["facts"]["hand_overs_count"]
    assert command(gateway, "explain", topic, "s", "--key", waiting)["state"] == "flowing"


def test_orders_reach_official_clients(gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic) -> None:
    """A drained worker gets nothing, a paused subscription neither; an evicted worker comes again by itself."""
    topic = new_topic("ordered")
    workers = key_shared(client, topic, "a")
    consumer = workers.consumers["a"]
    producer = client.create_producer(topic)
    order(gateway, "drain", topic, "s", "a")
    producer.send(b"0", partition_key="k")
    assert nothing_comes(consumer)
    order(gateway, "evict", topic, "s", "a")
    assert nothing_comes(consumer)
    order(gateway, "drain", topic, "s", "a", "--undo")
    message = receive(consumer)
    assert message.data() == b"0"
    consumer.acknowledge(message)
    order(gateway, "pause", topic, "s")
    producer.send(b"1", partition_key="k")
    assert nothing_comes(consumer)
    order(gateway, "resume", topic, "s")
    assert receive(consumer).data() == b"1"


def test_a_mode_changed_live_is_what_later_joins_are_treated_by(
    gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """PIP-282's join position shows in the joining worker's statistics."""
    topic = new_topic("modes")
    old = key_shared(client, topic, "old")
    send_all(client.create_producer(topic), numbered(KEYS, len(KEYS)))
    held = old.receive(len(KEYS), acknowledge=False)
    order(gateway, "mode", topic, "s", "last_sent_position")
    key_shared(client, topic, "new")
    shown = {worker["name"]: worker for worker in command(gateway, "stats", topic, "s")["dispatcher"]["workers"]}
    last = held[-1].message_id()
    assert shown["new"]["last_sent_position_when_joining"] == f"{last.ledger_id()}:{last.entry_id()}"
    assert shown["new"]["waits_for_join_position"]
    for message in held:
        old.consumers["old"].acknowledge(message)

    def gate_open() -> bool:
        workers = command(gateway, "stats", topic, "s")["dispatcher"]["workers"]
        return not any(worker["waits_for_join_position"] for worker in workers)

    eventually(gate_open, "the join position is reached")
