"""Short names for what most tests of features do with the official client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pulsar

RECEIVE_MS = 60_000
"""How long a message that must come may take; only a fault exhausts it."""
SLICE_MS = 20
"""How long one of several consumers is listened to before the next."""
QUIET_MS = 500
"""How long nothing must come where nothing may come."""


@dataclass
class Workers:
    """Several consumers of one subscription and what each of them got."""

    consumers: dict[str, pulsar.Consumer]
    received: dict[str, list[pulsar.Message]] = field(default_factory=dict)

    def receive(self, count: int, *, acknowledge: bool = True) -> list[pulsar.Message]:
        """Receive so many messages from all of them, in turn; return them in the order of their arrival.

        Raises:
            AssertionError: they did not all come.
        """
        messages: list[pulsar.Message] = []
        last = time.monotonic()
        while len(messages) < count:
            assert time.monotonic() - last < RECEIVE_MS / 1e3, f"{len(messages)} of {count} messages came"
            if new := self.receive_available(acknowledge=acknowledge):
                messages += new
                last = time.monotonic()
        return messages

    def receive_available(self, *, acknowledge: bool = True) -> list[pulsar.Message]:
        """Receive what is there."""
        messages: list[pulsar.Message] = []
        for name, consumer in self.consumers.items():
            for message in available(consumer):
                self.received.setdefault(name, []).append(message)
                messages.append(message)
                if acknowledge:
                    consumer.acknowledge(message)
        return messages

    def worker_of_each_key(self) -> dict[str, str]:
        """Say which worker got which key.

        Raises:
            AssertionError: two workers got one key.
        """
        owners: dict[str, str] = {}
        for name, messages in self.received.items():
            for message in messages:
                assert owners.setdefault(message.partition_key(), name) == name, f"{message.partition_key()} at two"
        return owners


def available(consumer: pulsar.Consumer) -> Iterator[pulsar.Message]:
    """Yield what a consumer has, until it has nothing for a moment."""
    with suppress(pulsar.Timeout):
        while True:
            yield consumer.receive(timeout_millis=SLICE_MS)


def nothing_comes(*consumers: pulsar.Consumer) -> bool:
    """Whether none of them gets anything for a while."""
    for consumer in consumers:
        with suppress(pulsar.Timeout):
            consumer.receive(timeout_millis=QUIET_MS)
            return False
    return True


def receive(consumer: pulsar.Consumer) -> pulsar.Message:
    """Receive the next message, which must come."""
    return consumer.receive(timeout_millis=RECEIVE_MS)


def subscribe(client: pulsar.Client, topic: Any, kind: pulsar.ConsumerType, **options: Any) -> pulsar.Consumer:
    """Subscribe to a topic from its beginning; the subscription is called `s` unless told otherwise."""
    name = options.pop("subscription_name", "s")
    initial = options.pop("initial_position", pulsar.InitialPosition.Earliest)
    return client.subscribe(topic, name, consumer_type=kind, initial_position=initial, **options)


def key_shared(client: pulsar.Client, topic: Any, *names: str, **options: Any) -> Workers:
    """Let these workers join a Key_Shared subscription."""
    kind = pulsar.ConsumerType.KeyShared
    return Workers({name: subscribe(client, topic, kind, consumer_name=name, **options) for name in names})


def send_all(producer: pulsar.Producer, messages: list[tuple[str, bytes | None]], **options: Any) -> None:
    """Send (key, content) pairs so that a batching producer can pack them together, and wait for the broker."""
    results: list[pulsar.Result] = []

    def confirmed(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
        _ = message_id
        results.append(result)

    for key, content in messages:
        producer.send_async(content, confirmed, partition_key=key, **options)
    producer.flush()
    wait_for(lambda: len(results) == len(messages))
    assert set(results) == {pulsar.Result.Ok}


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for a callback of the client, which comes within milliseconds of what it belongs to."""
    deadline = time.monotonic() + RECEIVE_MS / 1e3
    while not condition():
        assert time.monotonic() < deadline, "the client did not call back"
        time.sleep(0.005)


def numbered(keys: list[str], count: int) -> list[tuple[str, bytes | None]]:
    """Return `count` messages of the keys in turn, each with the number it has within its key."""
    return [(keys[index % len(keys)], str(index // len(keys)).encode()) for index in range(count)]


def by_key(messages: list[pulsar.Message]) -> dict[str, list[bytes]]:
    """Contents of each key in the order of arrival."""
    contents: dict[str, list[bytes]] = {}
    for message in messages:
        contents.setdefault(message.partition_key(), []).append(message.data())
    return contents
