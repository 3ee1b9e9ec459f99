"""What the trial of a feature needs: a client, topics, and keyed messages that two workers share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pulsar

KEYS: Final = 20
ROUNDS: Final = 3
"""Messages of each key."""
SUBSCRIPTION: Final = "s"
WORKERS: Final = ("a", "b")
PATIENCE_S: Final = 120
"""Of every answer and every message: only a fault exhausts it, however busy the machine."""
RECEIVE_MS: Final = PATIENCE_S * 1_000
SLICE_MS: Final = 10
"""How long one of several consumers is listened to before the next."""


class FailedError(Exception):
    """The feature did not do what it is for; the text says what was seen instead."""


class MissingError(Exception):
    """This client does not offer the feature; the text says what it lacks."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to connect, and as whom."""

    service_url: str
    prefix: str
    """Of every topic's name."""
    keys: Path
    """Directory of `public.pem` and `private.pem`, for encryption."""
    token: str

    def connect(self, token: str | None = None, timeout_s: int = PATIENCE_S) -> pulsar.Client:
        """A client that says nothing but errors."""
        return pulsar.Client(
            self.service_url,
            operation_timeout_seconds=timeout_s,
            authentication=pulsar.AuthenticationToken(token or self.token),
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )


class Scene:
    """One feature's own client and topics; closed with everything that it opened."""

    def __init__(self, place: Place, feature: str) -> None:
        """Connect."""
        self.place = place
        self.topic = place.prefix + feature
        self.client = place.connect()

    def __enter__(self) -> Self:
        """It is connected."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client, and with it all consumers and producers."""
        self.client.close()

    def subscribe(
        self, kind: pulsar.ConsumerType = pulsar.ConsumerType.KeyShared, topic: Any = None, **options: Any
    ) -> pulsar.Consumer:
        """Subscribe from the topic's beginning, by default to Key_Shared."""
        options.setdefault("initial_position", pulsar.InitialPosition.Earliest)
        return self.client.subscribe(topic or self.topic, SUBSCRIPTION, consumer_type=kind, **options)

    def producer(self, topic: str | None = None, **options: Any) -> pulsar.Producer:
        """A producer; without batches unless told otherwise."""
        return self.client.create_producer(topic or self.topic, send_timeout_millis=RECEIVE_MS, **options)


def receive(consumer: pulsar.Consumer) -> pulsar.Message:
    """The next message, which must come."""
    return consumer.receive(timeout_millis=RECEIVE_MS)


def content(message: pulsar.Message) -> str:
    """What `send_numbers` and `deal` put into a message."""
    return bytes(message.data()).rstrip(b".").decode()


def send_numbers(producer: pulsar.Producer, first: int, count: int) -> None:
    """Send so many messages of a few keys, each with its number."""
    for number in range(first, first + count):
        producer.send(str(number).encode(), partition_key=f"k{number % 3}")


def receive_numbers(consumer: pulsar.Consumer, count: int, *, acknowledge: bool = True) -> list[pulsar.Message]:
    """The next so many messages, which must come."""
    messages = []
    for _ in range(count):
        messages.append(receive(consumer))
        if acknowledge:
            consumer.acknowledge(messages[-1])
    return messages


def expect(condition: object, text: str) -> None:
    """Fail unless the condition holds."""
    if not condition:
        raise FailedError(text)


def deal(
    scene: Scene,
    *,
    kind: pulsar.ConsumerType = pulsar.ConsumerType.KeyShared,
    topics: Sequence[str] = (),
    subscribed: Any = None,
    producing: Mapping[str, Any] | None = None,
    consuming: Mapping[str, Any] | None = None,
    each: Mapping[str, Mapping[str, Any]] | None = None,
    encode: Callable[[str], Any] | None = None,
    decode: Callable[[pulsar.Message], str] = content,
    size_bytes: int = 0,
    keys: int = KEYS,
    ordered: bool = True,
) -> str:
    """Send keyed messages to two workers: each key must come whole, in order, to one of them, and both get some.

    Args:
        scene: the feature's own.
        kind: type of subscription.
        topics: where to produce, by default to the scene's topic; each topic has keys of its own.
        subscribed: what the workers subscribe to, by default the scene's topic.
        producing: the client's options for producers.
        consuming: its options for both workers.
        each: further options by worker.
        encode: makes a number what is sent.
        decode: makes what came a number.
        size_bytes: of a message, filled up with dots.
        keys: how many in all.
        ordered: whether keys, order and one worker for each are asked for, or only that everything comes.
    """
    workers = {
        name: scene.subscribe(kind, subscribed, consumer_name=name, **(consuming or {}), **(each or {}).get(name, {}))
        for name in WORKERS
    }
    producers = [scene.producer(topic, **(producing or {})) for topic in topics or (scene.topic,)]
    for number in range(ROUNDS):
        for key in range(keys):
            text = str(number)
            body = encode(text) if encode else text.encode().ljust(size_bytes, b".")
            producers[key % len(producers)].send_async(body, _ignore, partition_key=f"k{key}")
    for producer in producers:
        producer.flush()
    received = _collect(workers, keys * ROUNDS, decode)
    if ordered:
        _audit(received, keys)
    return f"{keys * ROUNDS} messages"


def _ignore(_result: object, _message_id: object) -> None:
    """What was not sent does not come, and that is told."""


def _collect(
    workers: Mapping[str, pulsar.Consumer], count: int, decode: Callable[[pulsar.Message], str]
) -> list[tuple[str, str, str]]:
    received: list[tuple[str, str, str]] = []
    deadline = time.monotonic() + RECEIVE_MS / 1e3
    while len(received) < count:
        expect(time.monotonic() < deadline, f"{len(received)} of {count} messages came")
        for name, consumer in workers.items():
            with suppress(pulsar.Timeout):
                while True:
                    message = consumer.receive(timeout_millis=SLICE_MS)
                    received.append((name, message.partition_key(), decode(message)))
                    consumer.acknowledge(message)
    return received


def _audit(received: Sequence[tuple[str, str, str]], keys: int) -> None:
    owners: dict[str, set[str]] = {}
    numbers: dict[str, list[str]] = {}
    for name, key, number in received:
        owners.setdefault(key, set()).add(name)
        numbers.setdefault(key, []).append(number)
    expected = [str(number) for number in range(ROUNDS)]
    split = sum(len(names) > 1 for names in owners.values())
    expect(len(owners) == keys, f"{len(owners)} of {keys} keys came")
    expect(not split, f"{split} of {keys} keys were at two workers")
    wrong = sum(found != expected for found in numbers.values())
    expect(not wrong, f"{wrong} of {keys} keys were out of order")
    expect(set.union(*owners.values()) == set(WORKERS), "one worker got nothing")
