"""Clients that say in CONNECT to which broker they want to be taken: to the cluster's, and to no other place.

A broker with tokens and permissions, and a hostile one that says yes to everything. Roles: `app` may do everything in
its namespace, `stranger` nothing anywhere. The gateway itself, `keyline`, may consume.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pulsar
import pytest

from integration.gateway import KeylineGateway, service_url_of
from integration.ports import LOOPBACK, free_ports
from integration.secured import SecuredPulsar
from integration.standalone import PulsarStandalone
from proxy.wire import pulsar_pb2 as pb
from tests.conftest import StartPulsar
from tests.integration.clients import RECEIVE_MS, Workers
from tests.integration.hostile_broker import HostileBroker
from tests.integration.raw_client import ConnectionEndedError, RawClient, T, frame

pytestmark = [pytest.mark.slow, pytest.mark.broker]

NAMESPACE = "public/ours"
SUBSCRIPTION = "s"
MESSAGES = 20
REFUSAL = "the cluster does not name this broker; look up again"
MODES = [pb.Exclusive, pb.ExclusiveWithFencing, pb.WaitForExclusive]


class Place(NamedTuple):
    """A broker that knows who asks, a gateway in front of it, and a hostile broker beside it."""

    broker: SecuredPulsar
    gateway: KeylineGateway
    hostile: HostileBroker


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for all tests."""
    with SecuredPulsar() as broker, HostileBroker() as hostile:
        broker.create_namespace(NAMESPACE)
        broker.grant(NAMESPACE, "app")
        broker.grant(NAMESPACE, "keyline", ["consume"])
        directory: Path = tmp_path_factory.mktemp("gateway")
        settings = {"broker_token": broker.token("keyline")}
        with KeylineGateway(broker.service_url, broker.admin_url, directory, settings=settings) as gateway:
            yield Place(broker, gateway, hostile)


@pytest.fixture
def topic() -> str:
    """Of the test's own."""
    return f"persistent://{NAMESPACE}/named-{time.monotonic_ns()}"


@contextmanager
def client_of(place: Place) -> Iterator[pulsar.Client]:
    """A rightful one."""
    client = pulsar.Client(
        place.gateway.service_url,
        authentication=pulsar.AuthenticationToken(place.broker.token("app")),
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        yield client
    finally:
        client.close()


def connecting(place: Place, role: str | None, wish: str) -> RawClient:
    """A client that has said CONNECT with that wish, and read no answer."""
    connect = pb.CommandConnect(client_version="raw", protocol_version=21, proxy_to_broker_url=wish)
    if role is not None:
        connect.auth_method_name, connect.auth_data = "token", place.broker.token(role).encode()
    client = RawClient(place.gateway.service_url, connect=False)
    client.send(frame(T.CONNECT, connect))
    return client


def attempt(client: RawClient, *requests: bytes) -> list[pb.BaseCommand]:
    """Everything that a client hears until it is cut off; it puts its requests once it is let in."""
    said: list[pb.BaseCommand] = []
    try:
        said.append(client.read())
        for request in requests:
            client.send(request)
    except ConnectionEndedError:
        return said
    return said + client.ended()


def key_shared(topic: str) -> bytes:
    """SUBSCRIBE of a worker, and permits."""
    subscribe = pb.CommandSubscribe(
        topic=topic,
        subscription=SUBSCRIPTION,
        subType=pb.CommandSubscribe.Key_Shared,
        consumer_id=1,
        request_id=1,
        initialPosition=pb.CommandSubscribe.Earliest,
    )
    flow = pb.CommandFlow(consumer_id=1, messagePermits=1000)
    return frame(T.SUBSCRIBE, subscribe) + frame(T.FLOW, flow)


def subscriptions(place: Place, topic: str) -> list[str]:
    """At the broker."""
    with place.broker.admin() as http:
        answer = http.get(f"/admin/v2/{topic.replace('://', '/')}/subscriptions")
        names: list[str] = answer.raise_for_status().json()
        return names


def count(gateway: KeylineGateway, metric: str) -> float:
    """One number of a gateway's metrics."""
    metrics = httpx.get(f"{gateway.admin_url}/metrics", trust_env=False, timeout=30).text
    return float(next(line for line in metrics.splitlines() if line.startswith(f"{metric} ")).rpartition(" ")[2])


REFUSED = 'keyline_gateway_connections_ended_total{cause="target_refused"}'
ASKED = "keyline_gateway_brokers_asked_for_total"


@pytest.mark.parametrize("role", [None, "stranger"])
def test_a_client_that_brings_its_own_broker_gets_no_message_and_unsubscribes_nobody(
    place: Place, topic: str, role: str | None
) -> None:
    """Its broker permits everything and is not asked; the messages are the rightful worker's, all of them."""
    unsubscribe = frame(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=2))
    with client_of(place) as client:
        producer = client.create_producer(topic)
        client.subscribe(topic, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.KeyShared).close()
        for number in range(MESSAGES):
            producer.send(b"secret", partition_key=f"key-{number}")
        with connecting(place, role, place.hostile.authority) as stranger:
            said = attempt(stranger, key_shared(topic), unsubscribe)
            assert [command.type for command in said] == ([T.ERROR] if role is None else [T.CONNECTED, T.ERROR])
            assert stranger.held == []
        assert place.hostile.connections == 0
        assert subscriptions(place, topic) == [SUBSCRIPTION]
        worker = client.subscribe(topic, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.KeyShared)
        Workers({"rightful": worker}).receive(MESSAGES)


@pytest.mark.parametrize("mode", MODES, ids=pb.ProducerAccessMode.Name)
@pytest.mark.parametrize("role", [None, "stranger"])
def test_a_client_that_brings_its_own_broker_owns_no_topic(
    place: Place, topic: str, role: str | None, mode: pb.ProducerAccessMode
) -> None:
    """Nor does it hold up those that may: one waits for the topic and gets it while the stranger is still asking."""
    wish = pb.CommandProducer(topic=topic, producer_id=1, request_id=1, producer_access_mode=mode)
    with connecting(place, role, place.hostile.authority) as stranger:
        said = attempt(stranger, frame(T.PRODUCER, wish))
    assert T.PRODUCER_SUCCESS not in [command.type for command in said]
    assert place.hostile.connections == 0
    owner = pulsar.ProducerAccessMode.WaitForExclusive
    with client_of(place) as client:
        client.create_producer(topic, access_mode=owner).send(b"mine")
    shown = httpx.get(f"{place.gateway.admin_url}/api/v1/producers", trust_env=False, timeout=30).text
    assert "hostile" not in shown


def test_a_refused_client_learns_nothing_of_the_places_it_names(place: Place, topic: str) -> None:
    """Open, closed, speaking HTTP, no such name, no such way: one answer, and none of them was dialled."""
    (closed,) = free_ports(1)
    web = place.broker.admin_url.removeprefix("http://")
    places = [place.hostile.authority, f"{LOOPBACK}:{closed}", web, "no-such-host.invalid:6650", "192.0.2.1:6650"]
    before = count(place.gateway, REFUSED)
    told = set()
    for wish in places:
        with connecting(place, "app", wish) as scanner:
            connected, error = attempt(scanner, key_shared(topic))
            assert connected.connected.server_version != "hostile"
            told.add((error.error.error, error.error.message))
    assert told == {(pb.ServiceNotReady, REFUSAL)}
    assert place.hostile.connections == 0
    assert count(place.gateway, REFUSED) == before + len(places)


def test_no_token_is_handed_to_a_place_that_a_client_names(place: Place, topic: str) -> None:
    """Someone who is told to use a wrong address keeps the token all the same."""
    with connecting(place, "app", place.hostile.authority) as misled:
        attempt(misled, frame(T.LOOKUP, pb.CommandLookupTopic(topic=topic, request_id=1)))
    assert place.hostile.connections == 0


# ---- official clients


class Listeners(NamedTuple):
    """One broker that answers with another address than the one it is asked at, and two gateways in front of it."""

    broker: PulsarStandalone
    gateways: list[KeylineGateway]
    advertised: str


@pytest.fixture
def listeners(start_pulsar: StartPulsar, tmp_path: Path) -> Iterator[Listeners]:
    """As behind a load balancer: what lookups name is in no configuration."""
    inside, entry, named = free_ports(3)
    broker = start_pulsar(
        port=inside,
        settings={
            "advertisedAddress": "",
            "internalListenerName": "inside",
            "advertisedListeners": f"inside:pulsar://{LOOPBACK}:{inside},outside:pulsar://127.0.0.2:{named}",
            "bindAddresses": f"outside:pulsar://127.0.0.3:{entry},outside:pulsar://127.0.0.2:{named}",
        },
    )
    with ExitStack() as stack:
        gateways = [
            stack.enter_context(
                KeylineGateway(
                    f"pulsar://127.0.0.3:{entry}",
                    broker.admin_url,
                    tmp_path / name,
                    settings={"replica_name": name},
                )
            )
            for name in ("one", "two")
        ]
        yield Listeners(broker, gateways, f"127.0.0.2:{named}")


def shared(client: RawClient, topic: str) -> pb.BaseCommand:
    """A consumer that is relayed."""
    return client.subscribe(topic, subType=pb.CommandSubscribe.Shared)


def test_a_client_that_looked_up_at_another_replica_or_before_a_restart_is_taken_in(
    listeners: Listeners, new_topic: Callable[[str], str]
) -> None:
    """The second gateway has never heard of the broker that the client names: it asks, once, and again as a new one."""
    one, two = listeners.gateways
    topic = new_topic("elsewhere")
    with RawClient(one.service_url) as client:
        answer = client.ask(T.LOOKUP, pb.CommandLookupTopic(topic=topic, advertised_listener_name="inside"))
        assert answer.lookupTopicResponse.brokerServiceUrl == f"pulsar://{listeners.advertised}"
    connect = pb.CommandConnect(client_version="raw", protocol_version=21, proxy_to_broker_url=listeners.advertised)
    for _ in range(2):
        for asked in (1, 1):
            with RawClient(two.service_url, connect=False) as client:
                client.send(frame(T.CONNECT, connect))
                assert client.read().type == T.CONNECTED
                assert shared(client, topic).type == T.SUCCESS
            assert count(two, ASKED) == asked
        two.restart()


def test_a_gateway_may_reach_brokers_by_other_addresses_than_they_give_to_each_other(
    listeners: Listeners, tmp_path: Path, new_topic: Callable[[str], str]
) -> None:
    """A listener of its own, for what it looks up and for what clients do, whatever they ask for."""
    topic = new_topic("outside")
    broker = listeners.broker
    settings = {"broker_listener_name": "outside"}
    with (
        KeylineGateway(broker.service_url, broker.admin_url, tmp_path / "three", settings=settings) as gateway,
        RawClient(gateway.service_url) as client,
    ):
        answer = client.ask(T.LOOKUP, pb.CommandLookupTopic(topic=topic, advertised_listener_name="inside"))
        assert answer.lookupTopicResponse.brokerServiceUrl == f"pulsar://{listeners.advertised}"
        client.joined(topic)


def receive_until(consumer: pulsar.Consumer, data: bytes) -> None:
    """Receive and acknowledge; what was acknowledged while a gateway stopped may come again before."""
    while True:
        message = consumer.receive(RECEIVE_MS)
        consumer.acknowledge(message)
        if message.data() == data:
            return


def test_official_clients_notice_nothing_of_replicas_and_restarts(
    listeners: Listeners, new_topic: Callable[[str], str]
) -> None:
    """The service URL has both gateways, which a client takes in turn: where it looks up is not where it connects."""
    topic = new_topic("replicas")
    client = pulsar.Client(service_url_of(listeners.gateways), logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        producer = client.create_producer(topic)
        relayed = client.subscribe(topic, "relayed", consumer_type=pulsar.ConsumerType.Shared)
        worker = client.subscribe(topic, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.KeyShared)
        for number, gateway in enumerate((None, *listeners.gateways)):
            if gateway is not None:
                gateway.restart()
            producer.send(f"{number}".encode(), partition_key="key")
            for consumer in (relayed, worker):
                receive_until(consumer, f"{number}".encode())
        assert [count(gateway, REFUSED) for gateway in listeners.gateways] == [0, 0]
    finally:
        client.close()
