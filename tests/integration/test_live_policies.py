"""Policies of keys that an operator changes while messages wait, with a real broker and the official client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pulsar
import pytest

from integration.gateway import KeylineGateway
from tests.integration.clients import available, key_shared, nothing_comes, receive, send_all
from tests.integration.conditions import eventually
from tests.integration.test_admin_api import command, order

FOR_EVER: Final = "retry_delay_ms=600000"
"""Longer than any test, and the longest that is allowed without a higher bound: who comes back before was set free."""
LEASE: Final = "ack_lease_ms=5000"
"""A worker keeps it on any machine if it works."""
NewTopic = Callable[[str], str]

pytestmark = pytest.mark.slow


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    """One of each test's own."""
    return new_topic("live-policies")


def sender(client: pulsar.Client, topic: str, *, batching: bool = False) -> Callable[..., None]:
    """Sends messages of a key."""
    producer = client.create_producer(topic, batching_enabled=batching, batching_max_publish_delay_ms=60_000)

    def send(key: str, *contents: bytes) -> None:
        send_all(producer, [(key, each) for each in contents])

    return send


def worker(client: pulsar.Client, topic: str, name: str = "a") -> pulsar.Consumer:
    """What it gives back comes again soon."""
    return key_shared(client, topic, name, negative_ack_redelivery_delay_ms=50).consumers[name]


def state(gateway: KeylineGateway, topic: str, key: str = "k") -> str:
    """Why a key waits."""
    return str(command(gateway, "explain", topic, "s", "--key", key)["state"])


def waiting(gateway: KeylineGateway, topic: str) -> int:
    """How many messages do."""
    return int(command(gateway, "stats", topic, "s")["dispatcher"]["waiting_messages"])


def held(consumer: pulsar.Consumer, *contents: bytes) -> list[pulsar.Message]:
    """The next messages, which must be these; none is acknowledged."""
    messages = [receive(consumer) for _ in contents]
    assert [each.data() for each in messages] == list(contents)
    return messages


@pytest.mark.broker
@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_a_window_is_narrowed_and_widened_while_messages_of_the_key_wait(
    gateway: KeylineGateway, client: pulsar.Client, topic: str, *, batching: bool
) -> None:
    """A worker keeps what it has and gets the rest one by one, in order through what it gives back; then all of it."""
    consumer, send = worker(client, topic), sender(client, topic, batching=batching)
    send("k", b"0", b"1", b"2")
    first = held(consumer, b"0", b"1", b"2")
    order(gateway, "pause", topic, "s")
    send("k", b"3", b"4", b"5", b"6", b"7")
    eventually(lambda: waiting(gateway, topic) == 5, "messages that wait")
    order(gateway, "limits", topic, "s", "--set", "key_window=1")
    order(gateway, "resume", topic, "s")
    for message in first[:-1]:
        consumer.acknowledge(message)
    assert nothing_comes(consumer)
    assert state(gateway, topic) == "window_full"
    consumer.acknowledge(first[-1])
    for _ in range(2):
        (refused,) = held(consumer, b"3")
        consumer.negative_acknowledge(refused)
    (third,) = held(consumer, b"3")
    assert nothing_comes(consumer)
    order(gateway, "limits", topic, "s", "--reset", "key_window")
    rest = held(consumer, b"4", b"5", b"6", b"7")
    for message in [third, *rest]:
        consumer.acknowledge(message)
    eventually(lambda: state(gateway, topic) == "flowing", "the key flows")


def test_a_retry_delay_that_is_taken_back_ends_for_what_waits(
    gateway: KeylineGateway, client: pulsar.Client, topic: str
) -> None:
    """Set while the worker has the message; meanwhile its key waits, and other keys do not."""
    consumer, send = worker(client, topic), sender(client, topic)
    send("k", b"0")
    (refused,) = held(consumer, b"0")
    order(gateway, "limits", topic, "s", "--set", "key_window=1", "--set", FOR_EVER)
    consumer.negative_acknowledge(refused)
    eventually(lambda: state(gateway, topic) == "retry_wait", "the key waits for its retry")
    send("k", b"1")
    send("other", b"x")
    (other,) = held(consumer, b"x")
    consumer.acknowledge(other)
    assert nothing_comes(consumer)
    order(gateway, "limits", topic, "s", "--reset", "retry_delay_ms")
    (again,) = held(consumer, b"0")
    assert again.redelivery_count() == 1
    consumer.acknowledge(again)
    held(consumer, b"1")


def test_an_ack_lease_that_is_set_takes_what_a_hung_worker_has(
    gateway: KeylineGateway, client: pulsar.Client, topic: str
) -> None:
    """Though it was sent without a lease; the other worker has all of it in order, and what waited behind it."""
    hangs, send = worker(client, topic, "hangs"), sender(client, topic)
    send("k", b"0", b"1")
    held(hangs, b"0", b"1")
    works = worker(client, topic, "works")
    send("k", b"2")
    assert nothing_comes(works)
    order(gateway, "limits", topic, "s", "--set", LEASE)
    came: list[bytes] = []

    def all_came() -> bool:
        for message in available(works):
            came.append(message.data())
            works.acknowledge(message)
        return b"2" in came

    eventually(all_came, "what the hung worker held comes to the other one")
    assert list(dict.fromkeys(came)) == [b"0", b"1", b"2"]
