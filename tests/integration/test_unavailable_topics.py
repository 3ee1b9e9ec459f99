"""A dead letter or parking topic that a real broker closes while it is in use: its key waits, and says what to do.

Terminated, not permitted any more, and over its backlog quota: what an operator does to a topic, not what a broker's
failure does. Each is repaired as the verdict says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pulsar
import pytest

from integration.gateway import KeylineGateway
from integration.secured import SUPERUSER, SecuredPulsar
from proxy.cli.admin_client import AdminClient, subscription_path
from proxy.key_policies import PARKING_TOPIC
from proxy.net.subscription.own_topics import parking_topic
from proxy.wire import pulsar_pb2 as pb
from tests.integration.clients import RECEIVE_MS, available
from tests.integration.conditions import eventually
from tests.integration.raw_client import RawClient, T, frame

pytestmark = [pytest.mark.slow, pytest.mark.broker]

GATEWAY: Final = "keyline"
POLICIES: Final = "* dead dead_letter_after=1 key_window=1,* park park_after=1 key_window=1"
"""Subscription `dead` has dead letters, and `park` a parking topic."""
QUOTA: Final = {"limitSize": 10, "limitTime": -1, "policy": "producer_exception"}
CAUSES: Final = {
    "terminated": "It is terminated and takes nothing more.",
    "forbidden": "Permit the gateway's role to produce to it",
    "full": "Its backlog quota is used up",
}
"""What is done to the topic, and what the advice begins with."""


class Place(NamedTuple):
    """A broker that knows who asks, and a gateway in front of it."""

    broker: SecuredPulsar
    gateway: KeylineGateway


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for all tests; each has a namespace of its own."""
    with SecuredPulsar(settings={"backlogQuotaCheckIntervalInSeconds": "1"}) as broker:
        settings = {"broker_token": broker.token(GATEWAY), "key_policies": POLICIES}
        directory: Path = tmp_path_factory.mktemp("gateway")
        with KeylineGateway(broker.service_url, broker.admin_url, directory, settings=settings) as gateway:
            yield Place(broker, gateway)


class Story:
    """A worker that refuses what is poisoned, a producer, and an operator."""

    def __init__(self, place: Place, namespace: str, subscription: str) -> None:
        self.namespace, self.topic = namespace, f"persistent://{namespace}/orders"
        self._broker, self._gateway = place
        self._path = subscription_path(self.topic, subscription)
        self._api = AdminClient(place.gateway.admin_url)
        self.refuses = True
        self.seen: list[str] = []
        role = pulsar.AuthenticationToken(place.broker.token(SUPERUSER))
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        urls = place.gateway.service_url, place.broker.service_url
        self._clients = [pulsar.Client(url, authentication=role, logger=quiet) for url in urls]
        through, self.direct = self._clients
        kind = pulsar.ConsumerType.KeyShared
        self._worker = through.subscribe(
            self.topic, subscription, consumer_type=kind, negative_ack_redelivery_delay_ms=50
        )
        self._producer = self.direct.create_producer(self.topic)
        parked = self._told("/parked")["parking_topic"]
        self.other: str = f"{self.topic}-{subscription}-DLQ" if subscription == "dead" else parked

    def close(self) -> None:
        """All leave."""
        for client in self._clients:
            client.close()

    def send(self, key: str, *payloads: str) -> None:
        """Messages of a key."""
        for payload in payloads:
            self._producer.send(payload.encode(), partition_key=key)

    def work(self, until: Callable[[], object], what: str) -> None:
        """Acknowledge what comes, but for what is poisoned, until something holds."""

        def done() -> object:
            for message in available(self._worker):
                self.seen.append(message.data().decode())
                refused = self.refuses and self.seen[-1].startswith("poisoned")
                (self._worker.negative_acknowledge if refused else self._worker.acknowledge)(message)
            return until()

        eventually(done, what)

    def has(self, *payloads: str) -> Callable[[], bool]:
        """Whether these came, in this order, among others."""
        return lambda: [each for each in self.seen if each in payloads] == [*payloads]

    def parked_count(self) -> int:
        """Messages that are parked."""
        count: int = self._told("/parked")["parked_messages"]
        return count

    def redrive(self) -> None:
        """Of the key."""
        self._api.ask("POST", self._path + "/parked/redrive", query={"key": "k"})

    def verdict(self) -> dict[str, Any]:
        """On the key."""
        told: dict[str, Any] = self._told("/explain", key="k")["verdict"]
        return told

    def waits(self) -> float:
        """Hash slots that wait, by the metric."""
        text = httpx.get(f"{self._gateway.admin_url}/metrics", trust_env=False, timeout=30).text
        name = "keyline_subscription_dead_letter_waits{"
        return sum(
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith(name) and self.namespace in line
        )

    def admin(self, method: str, path: str, body: object = None, **query: str) -> httpx.Response:
        """Ask the broker."""
        with self._broker.admin() as http:
            return http.request(method, f"/admin/v2/{path}", json=body, params=query)

    def order(self, method: str, path: str, body: object = None, **query: str) -> None:
        """Have the broker do it."""
        self.admin(method, path, body, **query).raise_for_status()

    def permit(self, *actions: str) -> None:
        """The gateway may do this in the namespace, and nothing else."""
        self._broker.grant(self.namespace, GATEWAY, actions)

    def make_unavailable(self, cause: str) -> None:
        """Close the topic; returns when the gateway has no producer there."""
        name = self.other.replace("://", "/")
        if cause == "terminated":
            self.order("POST", f"{name}/terminate")
        elif cause == "forbidden":
            self.permit("consume")
        else:
            if self.other.endswith("-DLQ"):
                self.order("PUT", f"{name}/subscription/reader", {"ledgerId": -1, "entryId": -1})
            path = f"namespaces/{self.namespace}/backlogQuota"
            self.order("POST", path, QUOTA, backlogQuotaType="destination_storage")
        eventually(lambda: not self.admin("GET", f"{name}/stats").json()["publishers"], "the producer is closed")

    def letters(self) -> list[bytes]:
        """What the topic has."""
        reader = self.direct.create_reader(self.other, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(RECEIVE_MS).data())
        reader.close()
        return found

    def _told(self, page: str, **query: str) -> Any:
        return self._api.ask("GET", self._path + page, query=query)


@contextmanager
def story(place: Place, namespace: str, subscription: str) -> Iterator[Story]:
    """In a namespace in which the gateway may do everything."""
    place.broker.create_namespace(namespace)
    place.broker.grant(namespace, GATEWAY)
    told = Story(place, namespace, subscription)
    try:
        yield told
    finally:
        told.close()


def closes(told: Story, cause: str, *awaited: str) -> None:
    """The topic is closed and something poisoned is to go there: the key waits and says why; another one goes on."""
    told.make_unavailable(cause)
    told.send("k", "poisoned-1", "2")
    told.send("other", "x")
    told.work(lambda: set(awaited) <= set(told.seen), "the other key goes on")
    told.work(lambda: CAUSES[cause] in told.verdict()["advice"], "the verdict has the cause")
    verdict = told.verdict()
    assert verdict["state"] == "dead_letter"
    assert verdict["says"].startswith(f"1 hash slot waits for {told.other}, which does not take its messages: ")
    assert told.namespace in verdict["command"] or "keyline parked" in verdict["command"]
    told.work(lambda: told.waits() == 1, "the metric tells")
    assert "2" not in told.seen, "it is newer than what waits"


@pytest.mark.parametrize("cause", CAUSES)
def test_a_key_waits_for_a_dead_letter_topic_that_is_closed(place: Place, cause: str) -> None:
    """When it is repaired as the verdict says, the message is there once, and the key has gone on in order."""
    with story(place, f"public/dead-{cause}", "dead") as told:
        told.send("k", "poisoned-0", "1")
        told.work(told.has("poisoned-0", "1"), "the topic is in use")
        closes(told, cause, "poisoned-1", "x")
        before = [] if cause == "terminated" else [b"poisoned-0"]
        if cause == "terminated":
            told.order("DELETE", told.other.replace("://", "/"), force="true")
        elif cause == "forbidden":
            told.permit("produce", "consume")
        else:
            told.order("DELETE", f"namespaces/{told.namespace}/backlogQuota", backlogQuotaType="destination_storage")
        told.work(told.has("2"), "the key goes on")
        assert [each for each in told.seen if each != "x"] == ["poisoned-0", "1", "poisoned-1", "2"]
        assert told.letters() == [*before, b"poisoned-1"]
        told.work(lambda: told.waits() == 0, "nothing waits")


@pytest.mark.parametrize("cause", CAUSES)
def test_a_parked_key_waits_for_a_parking_topic_that_is_closed(place: Place, cause: str) -> None:
    """What is parked comes first, then what waited, each once. The redrive empties a full or a terminated topic."""
    with story(place, f"public/parked-{cause}", "park") as told:
        told.send("k", "poisoned-0")
        told.work(lambda: told.parked_count() == 1, "the key is parked")
        closes(told, cause, "x")
        assert told.parked_count() == 1
        told.refuses = False
        if cause == "forbidden":
            told.permit("produce", "consume")
            told.work(lambda: told.parked_count() == 3, "all of the key is parked")
        told.redrive()
        told.work(lambda: "2" in told.seen, "the key goes on")
        assert told.seen == ["poisoned-0", "x", "poisoned-0", "poisoned-1", "2"]
        told.work(lambda: told.parked_count() == 0, "nothing is parked")
        if cause == "terminated":
            told.order("DELETE", told.other.replace("://", "/"), force="true")
        elif cause == "full":  # else the next messages fill it again, and it is closed before their receipts
            told.order("DELETE", f"namespaces/{told.namespace}/backlogQuota", backlogQuotaType="destination_storage")
        told.refuses = True
        told.send("k", "poisoned-3", "4")
        told.work(lambda: told.parked_count() == 2, "the topic takes messages again")
        assert "4" not in told.seen
        told.work(lambda: told.waits() == 0, "nothing waits")


class Obstacle(NamedTuple):
    """What an operator does to a parking topic before it is opened, and what repairs it: orders to the broker."""

    order: tuple[str, str, object]
    told: str
    """In the words for the worker."""
    repair: tuple[str, str, object]


OBSTACLES: Final = {
    "partitioned": Obstacle(
        ("PUT", "persistent/{topic}/partitions", 2),
        "It must not be partitioned",
        ("DELETE", "persistent/{topic}/partitions", None),
    ),
    "not made": Obstacle(
        ("POST", "namespaces/{namespace}/autoTopicCreation", {"allowAutoTopicCreation": False}),
        "create it, or let the broker create topics: pulsar-admin topics create persistent://{topic}",
        ("PUT", "persistent/{topic}", None),
    ),
    "forbidden": Obstacle(
        ("POST", "namespaces/{namespace}/permissions/keyline", ["consume"]),
        "grant-permission persistent://{topic} --role ROLE --actions produce,consume",
        ("POST", "namespaces/{namespace}/permissions/keyline", ["produce", "consume"]),
    ),
}


@pytest.mark.parametrize("cause", OBSTACLES)
def test_a_worker_is_refused_while_the_parking_topic_cannot_be_opened(place: Place, cause: str) -> None:
    """It and the gateway's log say why and what to do, and when that is done it is let in."""
    obstacle, namespace = OBSTACLES[cause], f"public/unopened-{cause.replace(' ', '-')}"
    topic = f"persistent://{namespace}/orders"
    other = parking_topic(PARKING_TOPIC, topic, "park")
    names = {"namespace": namespace, "topic": other.removeprefix("persistent://")}
    place.broker.create_namespace(namespace)
    place.broker.grant(namespace, GATEWAY)

    def order(method: str, path: str, body: object) -> None:
        with place.broker.admin() as http:
            http.request(method, f"/admin/v2/{path.format(**names)}", json=body).raise_for_status()

    order("PUT", f"persistent/{namespace}/orders", None)
    order(*obstacle.order)
    told = refusal(place, topic)
    assert told.startswith(f"the parking topic {other} cannot be used: ")
    assert obstacle.told.format(**names) in told
    assert f'"topic": "{other}", "reason": ' in place.gateway.log.read_text()
    order(*obstacle.repair)
    eventually(lambda: not refusal(place, topic), "a worker may join")


def refusal(place: Place, topic: str) -> str:
    """Why a worker may not join; empty if it may."""
    token = place.broker.token(SUPERUSER).encode()
    with RawClient(place.gateway.service_url, connect=False) as client:
        hello = pb.CommandConnect(client_version="raw", protocol_version=21, auth_method_name="token", auth_data=token)
        client.send(frame(T.CONNECT, hello))
        assert client.read().type == T.CONNECTED
        answer = client.subscribe(topic, "park")
        assert answer.type in {T.SUCCESS, T.ERROR}, answer
        return answer.error.message
