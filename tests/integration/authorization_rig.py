"""What tests of authorization share: a gateway, or replicas, in front of a broker that knows who asks, and clients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pulsar

from integration.gateway import KeylineGateway
from integration.replicas import Replicas
from integration.secured import SecuredPulsar
from tests.integration.busy_replicas import settle

NAMESPACE: Final = "public/ours"
GROUPS: Final = "public/groups"
AGAIN_S: Final = 1
"""How often the gateway asks again here."""
REFUSED_S_MAX: Final = 60
KEYS: Final = 20
REPLICAS: Final = 3


class Place(NamedTuple):
    """A broker that knows who asks, and a gateway in front of it."""

    broker: SecuredPulsar
    gateway: KeylineGateway


@contextmanager
def client_of(
    place: Place, role: str | None, token: Any = None, patience_s: int = REFUSED_S_MAX
) -> Iterator[pulsar.Client]:
    """A client of the gateway with a role's token, or without any."""
    credentials = None
    if role is not None:
        credentials = pulsar.AuthenticationToken(place.broker.token(role) if token is None else token)
    client = pulsar.Client(
        place.gateway.service_url,
        authentication=credentials,
        operation_timeout_seconds=patience_s,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        yield client
    finally:
        client.close()


def worker(client: pulsar.Client, topic: str, subscription: str = "s", **options: Any) -> pulsar.Consumer:
    """A Key_Shared consumer."""
    return client.subscribe(topic, subscription, consumer_type=pulsar.ConsumerType.KeyShared, **options)


def send(place: Place, topic: str, count: int, role: str = "app") -> None:
    """Messages of many keys, through the gateway."""
    with client_of(place, role) as client:
        producer = client.create_producer(topic)
        for number in range(count):
            producer.send(f"{number}".encode(), partition_key=f"key-{number % KEYS}")


def new_topic(name: str, namespace: str = NAMESPACE) -> str:
    """One for each test."""
    return f"persistent://{namespace}/{name}-{time.monotonic_ns()}"


def subscriptions(place: Place, topic: str) -> list[str]:
    """At the broker."""
    with place.broker.admin() as http:
        answer = http.get(f"/admin/v2/{topic.replace('://', '/')}/subscriptions")
        names: list[str] = answer.raise_for_status().json()
        return names


@contextmanager
def replicas_of(broker: SecuredPulsar, directory: Path, again_s: int = AGAIN_S) -> Iterator[list[Place]]:
    """Three in owner mode in front of the broker, each of which owns something; they ask it again so often."""
    settings = {
        "broker_token": broker.token("keyline"),
        "authorize_again_s": str(again_s),
        "groups_namespace": GROUPS,
        "group_deployment": f"owners-{time.monotonic_ns()}",
    }
    with ExitStack() as stack:
        replicas = Replicas(stack, broker, directory, settings)
        replicas.start(REPLICAS)
        settle(replicas.gateways)
        yield [Place(broker, gateway) for gateway in replicas.gateways]


def sides(deployment: list[Place], topic: str) -> list[Place]:
    """The replicas that do not own the topic's subscription, and lead its workers to the one that does."""
    with client_of(deployment[0], "app") as client:
        worker(client, topic)
        found = [each for each in deployment if not each.gateway.workers(topic, "s")]
    assert len(found) == REPLICAS - 1
    return found


def served(place: Place, topic: str) -> set[str]:
    """Names of all workers of the topic's subscription, wherever they are, as any replica tells."""
    found = place.gateway.served(topic, "s")
    return set() if found is None else {each["name"] for each in found["dispatcher"]["workers"]}
