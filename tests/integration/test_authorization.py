"""Who may do what, decided by a real broker with tokens and permissions: through the gateway as without it.

Roles: `app` may consume and produce in its own namespace, `guest` in another, `stranger` in none. The gateway itself,
`keyline`, may consume in both, so whatever a client gets that it may not have, it gets by the gateway's fault.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pulsar
import pytest
from websockets.exceptions import InvalidStatus

from integration.artifacts import PULSAR_VERSIONS
from integration.gateway import KeylineGateway
from integration.secured import SecuredPulsar
from proxy.wire import pulsar_pb2 as pb
from tests.integration.authorization_rig import (
    AGAIN_S,
    GROUPS,
    KEYS,
    NAMESPACE,
    REFUSED_S_MAX,
    Place,
    client_of,
    new_topic,
    replicas_of,
    send,
    served,
    sides,
    subscriptions,
    worker,
)
from tests.integration.clients import QUIET_MS, Workers
from tests.integration.conditions import eventually
from tests.integration.raw_client import RawClient, T, frame
from tests.integration.socket_client import Socket

pytestmark = [pytest.mark.slow, pytest.mark.broker]

THEIRS = "public/theirs"
EXPIRES_S = 10
PRIORITY = "keyline.queue-priority"
CROWD = 300
CROWDED_S_MAX = 20
"""For a promotion that takes some 100 ms; the crowd would go on for ever."""


@pytest.fixture(scope="module", params=PULSAR_VERSIONS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for all tests of a version."""
    with SecuredPulsar(request.param) as broker:
        for namespace, role in ((NAMESPACE, "app"), (THEIRS, "guest")):
            broker.create_namespace(namespace)
            broker.grant(namespace, role)
            broker.grant(namespace, "keyline", ["consume"])
        broker.create_namespace(GROUPS)
        broker.grant(GROUPS, "keyline")
        settings = {"broker_token": broker.token("keyline"), "authorize_again_s": str(AGAIN_S)}
        directory: Path = tmp_path_factory.mktemp("gateway")
        with KeylineGateway(broker.service_url, broker.admin_url, directory, settings=settings) as gateway:
            yield Place(broker, gateway)


def test_who_may_consumes_and_produces(place: Place) -> None:
    """As anywhere."""
    topic = new_topic("permitted")
    with client_of(place, "app") as client:
        consumers = Workers({name: worker(client, topic, consumer_name=name) for name in ("a", "b")})
        send(place, topic, 60)
        consumers.receive(60)
        assert len(consumers.worker_of_each_key()) == KEYS


@pytest.mark.parametrize("role", ["stranger", "guest"])
def test_who_may_not_is_refused_and_leaves_nothing(place: Place, role: str) -> None:
    """Also while others consume that very subscription through the gateway; the attempt makes nothing."""
    topic = new_topic("refused")
    send(place, topic, 1)
    with client_of(place, role) as client:
        with pytest.raises(pulsar.AuthorizationError):
            worker(client, topic)
        assert subscriptions(place, topic) == []
        with client_of(place, "app") as permitted:
            consumer = worker(permitted, topic)
            with pytest.raises(pulsar.AuthorizationError):
                worker(client, topic)
            with pytest.raises(pulsar.AuthorizationError):
                client.create_producer(topic)
            send(place, topic, KEYS)
            Workers({"permitted": consumer}).receive(KEYS)


def refused_connections(place: Place) -> float:
    """Connections that the broker did not take in."""
    name = 'keyline_gateway_connections_ended_total{cause="broker_refused"} '
    metrics = httpx.get(f"{place.gateway.admin_url}/metrics", trust_env=False, timeout=30).text
    return float(next(line for line in metrics.splitlines() if line.startswith(name)).removeprefix(name))


@pytest.mark.parametrize(("role", "token"), [(None, None), ("app", "no.token.atall")])
def test_without_a_token_nobody_comes_in(place: Place, role: str | None, token: str | None) -> None:
    """Nor with one that nobody signed. The client tries again and again, as at the broker itself, and gives up."""
    before = refused_connections(place)
    with client_of(place, role, token, patience_s=5) as client:
        with pytest.raises((pulsar.AuthenticationError, pulsar.Timeout)):
            worker(client, new_topic("anonymous"))
        eventually(lambda: refused_connections(place) > before, "a refusal to be counted")


def test_a_subscription_may_be_for_some_roles_only(place: Place) -> None:
    """`grant-subscription-permission`: finer rules are the broker's too, and hold for the gateway's own role."""
    topic = new_topic("granted")
    send(place, topic, 1)
    place.broker.grant(NAMESPACE, "other", ["consume"])
    with place.broker.admin() as http:
        path = f"/admin/v2/namespaces/{NAMESPACE}/permissions/subscription/mine"
        http.post(path, json=["app", "keyline"]).raise_for_status()
    with client_of(place, "other") as other, client_of(place, "app") as app:
        worker(other, topic, "theirs")
        with pytest.raises(pulsar.AuthorizationError):
            worker(other, topic, "mine")
        worker(app, topic, "mine")


def test_who_may_no_more_loses_its_worker_and_others_go_on(place: Place) -> None:
    """What it held unacknowledged comes to another, in order; it cannot come back."""
    topic = new_topic("revoked")
    place.broker.grant(NAMESPACE, "second", ["consume"])
    with client_of(place, "second") as revoked, client_of(place, "app") as staying:
        held = Workers({"revoked": worker(revoked, topic, consumer_name="revoked")})
        send(place, topic, KEYS)
        assert len(held.receive(KEYS, acknowledge=False)) == KEYS
        others = Workers({"staying": worker(staying, topic, consumer_name="staying")})
        place.broker.revoke(NAMESPACE, "second")
        came = others.receive(KEYS)
        assert {message.partition_key() for message in came} == {f"key-{number}" for number in range(KEYS)}
        metrics = httpx.get(f"{place.gateway.admin_url}/metrics", trust_env=False, timeout=30).text
        assert "keyline_gateway_permissions_revoked_total 1.0" in metrics
        with pytest.raises(pulsar.AuthorizationError):
            worker(revoked, topic)


@pytest.mark.parametrize(("role", "status"), [(None, 401), ("stranger", 403), ("guest", 403), ("app", None)])
def test_workers_on_websockets_are_asked_too(place: Place, role: str | None, status: int | None) -> None:
    """By the broker, with the token that they bring; refused before the connection is one."""
    topic = new_topic("socket")
    send(place, topic, 1)
    path = f"/ws/v2/consumer/{topic.replace('://', '/')}/s"
    query = {"subscriptionType": "Key_Shared", "subscriptionInitialPosition": "Earliest"}
    if role is not None:
        query["token"] = place.broker.token(role)
    socket = Socket(place.gateway.admin_url, path, **query)
    if status is None:
        with socket:
            assert socket.hear()["properties"] == {}
    else:
        with pytest.raises(InvalidStatus) as refused, socket:
            pass
        assert refused.value.response.status_code == status


def waiting_producer(client: pulsar.Client, topic: str, priority: int, done: list[object]) -> threading.Thread:
    """Waits for the topic in a thread of its own; `done` gets the producer, or why there is none."""

    def wait() -> None:
        try:
            mode = pulsar.ProducerAccessMode.WaitForExclusive
            done.append(client.create_producer(topic, access_mode=mode, properties={PRIORITY: str(priority)}))
        except pulsar.PulsarException as error:
            done.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def waiting_at(place: Place, topic: str) -> int:
    """How many producers wait for a topic."""
    url = f"{place.gateway.admin_url}/api/v1/exclusive-producers"
    elections = httpx.get(url, trust_env=False, timeout=30).json()["elections"]
    return sum(each["waiting_count"] for each in elections if each["topic"] == topic)


@contextmanager
def crowd(place: Place, topic: str) -> Iterator[list[int]]:
    """A client without permissions asks for the topic `CROWD` times at once, and again whenever it is refused.

    Gives how often it was.
    """
    refused, over = [0], threading.Event()
    with RawClient(place.gateway.service_url, connect=False) as client:
        token = place.broker.token("stranger").encode()
        client.send(frame(T.CONNECT, pb.CommandConnect(
            client_version="raw", protocol_version=21, auth_method_name="token", auth_data=token,
        )))  # fmt: skip
        assert client.read().type == T.CONNECTED

        def ask(number: int) -> bytes:
            body = pb.CommandProducer(topic=topic, producer_id=number, request_id=number)
            body.producer_access_mode = pb.WaitForExclusive
            body.metadata.add(key=PRIORITY, value=str(2**31 - 1))
            return frame(T.PRODUCER, body)

        def press() -> None:
            client.send(b"".join(map(ask, range(CROWD))))
            while not over.is_set():
                told = [each for each in client.received() if each.type == T.ERROR]
                assert {each.error.error for each in told} <= {pb.AuthorizationError}
                refused[0] += len(told)
                client.send(b"".join(ask(each.error.request_id) for each in told))

        thread = threading.Thread(target=press)
        thread.start()
        try:
            yield refused
        finally:
            over.set()
            thread.join(REFUSED_S_MAX)


def test_who_may_not_produce_does_not_stand_in_the_way_of_who_may(place: Place) -> None:
    """However high its priority: the broker refuses it, and the next is asked."""
    topic = new_topic("waiting")
    with client_of(place, "app") as app, client_of(place, "stranger") as stranger, client_of(place, "app") as owner:
        owned = owner.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
        outcomes: dict[str, list[object]] = {"stranger": [], "app": []}
        threads = [
            waiting_producer(stranger, topic, 10, outcomes["stranger"]),
            waiting_producer(app, topic, 1, outcomes["app"]),
        ]

        def heard() -> bool:
            return waiting_at(place, topic) + len(outcomes["stranger"]) == len(outcomes)

        eventually(heard, "one to wait, and the other one too, or to be refused")
        owned.close()
        for thread in threads:
            thread.join(REFUSED_S_MAX)
        (refused,), (producer,) = outcomes["stranger"], outcomes["app"]
        assert isinstance(refused, pulsar.AuthorizationError)
        assert isinstance(producer, pulsar.Producer)
        producer.send(b"mine")


def test_who_may_not_produce_keeps_nobody_from_a_topic(place: Place) -> None:
    """However often it asks for it, and with whatever priority: who may is promoted when the owner leaves."""
    topic = new_topic("crowded")
    outcomes: list[object] = []
    with client_of(place, "app") as app, client_of(place, "app") as owner:
        owned = owner.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
        thread = waiting_producer(app, topic, 1, outcomes)
        eventually(lambda: waiting_at(place, topic) == 1, "it to wait")
        with crowd(place, topic) as refused:
            eventually(lambda: refused[0] > CROWD, "the broker's refusals")
            assert waiting_at(place, topic) == 1
            owned.close()
            thread.join(CROWDED_S_MAX)
            assert [type(each) for each in outcomes] == [pulsar.Producer]


def test_replicas_share_a_subscription_at_a_broker_that_asks(place: Place, tmp_path: Path) -> None:
    """With a role that may write in the groups' namespace; each replica asks for its own workers."""
    topic = new_topic("group")
    with ExitStack() as ends:
        gateways = [
            ends.enter_context(
                KeylineGateway(
                    place.broker.service_url,
                    place.broker.admin_url,
                    tmp_path / name,
                    settings={
                        "broker_token": place.broker.token("keyline"),
                        "groups_enabled": "true",
                        "groups_mode": "streams",
                        "groups_namespace": GROUPS,
                        "replica_name": name,
                    },
                )
            )
            for name in ("first", "second")
        ]
        clients = [ends.enter_context(client_of(Place(place.broker, gateway), "app")) for gateway in gateways]
        workers = {
            gateway.log.parent.name: worker(client, topic) for gateway, client in zip(gateways, clients, strict=True)
        }
        stranger = ends.enter_context(client_of(Place(place.broker, gateways[0]), "stranger"))
        with pytest.raises(pulsar.AuthorizationError):
            worker(stranger, topic)
        consumers = Workers(workers)
        eventually(lambda: all(has_half(gateway) for gateway in gateways), "half of all streams at each")
        send(place, topic, 5 * KEYS)
        consumers.receive(5 * KEYS)
        assert set(consumers.received) == set(workers), "each replica has a part"


def has_half(gateway: KeylineGateway) -> bool:
    """Whether it has one of two equal parts of its only group."""
    groups = httpx.get(f"{gateway.admin_url}/api/v1/groups", trust_env=False, timeout=30).json()["groups"]
    return any(2 * group["streams_here"] == group["streams_count"] for group in groups)


@pytest.fixture
def deployment(place: Place, tmp_path: Path) -> Iterator[list[Place]]:
    """Three replicas in owner mode."""
    with replicas_of(place.broker, tmp_path) as deployment:
        yield deployment


def test_side_replicas_refuse_whom_the_broker_refuses(deployment: list[Place]) -> None:
    """Nor does the owner, while it serves others. Who may no more loses its worker; what that held goes to others."""
    topic = new_topic("led")
    side, other = sides(deployment, topic)
    side.broker.grant(NAMESPACE, "third", ["consume"])
    with ExitStack() as ends:
        clients = [ends.enter_context(client_of(each, "app")) for each in deployment]
        revoked = ends.enter_context(client_of(side, "third"))
        names = [f"w{number}" for number in range(len(deployment))]
        joined = [worker(client, topic, consumer_name=name) for name, client in zip(names, clients, strict=True)]
        allowed = Workers(dict(zip(names, joined, strict=True)))
        held = Workers({"revoked": worker(revoked, topic, consumer_name="revoked")})
        for each, role in itertools.product(deployment, ("stranger", "guest")):
            refused = ends.enter_context(client_of(each, role))
            with pytest.raises(pulsar.AuthorizationError):
                worker(refused, topic)
            with pytest.raises(pulsar.AuthorizationError):
                refused.create_producer(topic)
        assert served(other, topic) == {*names, "revoked"}
        send(other, topic, 5 * KEYS)
        eventually(lambda: held.receive_available(acknowledge=False), "messages for the one who will be refused")
        side.broker.revoke(NAMESPACE, "third")
        eventually(lambda: served(other, topic) == set(names), "its worker to be gone")
        allowed.receive(5 * KEYS)
        assert set(allowed.received) == set(names)
        with pytest.raises(pulsar.AuthorizationError):
            worker(revoked, topic)


def test_no_token_is_shown_anywhere(place: Place) -> None:
    """Neither the gateway's own nor a client's, whoever looks where."""
    topic = new_topic("secret")
    tokens = [place.broker.token(role) for role in ("keyline", "app", "stranger")]
    with client_of(place, "app") as client, client_of(place, "stranger") as stranger:
        worker(client, topic)
        with pytest.raises(pulsar.AuthorizationError):
            worker(stranger, topic)
        shown = [place.gateway.log.read_text()]
        with httpx.Client(base_url=place.gateway.admin_url, trust_env=False, timeout=30) as http:
            paths = http.get("/openapi.json").json()["paths"]
            plain = [
                path for path, verbs in paths.items() if "get" in verbs and "{" not in path and "events" not in path
            ]
            assert "/api/v1/configuration" in plain
            shown += [http.get(path).text for path in plain]
    assert not [token for token in tokens for text in shown if token in text]
    assert all(token.count(".") == 2 for token in tokens)


def test_an_expired_token_ends_its_workers(place: Place) -> None:
    """The client has no fresh one, and the broker says so: it must not stay for the sake of its workers."""
    topic = new_topic("expired")
    with client_of(place, "app", token=place.broker.token("app", 2 * EXPIRES_S)) as expiring:
        consumer = worker(expiring, topic)
        eventually(lambda: not place.gateway.workers(topic, "s"), "its worker to be gone", REFUSED_S_MAX)
        send(place, topic, 1)
        with pytest.raises(pulsar.Timeout):
            consumer.receive(timeout_millis=QUIET_MS)


def test_a_token_that_is_renewed_in_time_ends_nothing(place: Place) -> None:
    """The broker's challenge goes to the client, and its answer back; the worker's connection stands all the while."""
    topic = new_topic("renewed")
    handed_out: list[str] = []

    def supply() -> str:
        handed_out.append(place.broker.token("app", EXPIRES_S))
        return handed_out[-1]

    with client_of(place, "app", token=supply) as client:
        consumer = worker(client, topic)
        begun = len(handed_out)
        eventually(lambda: len(handed_out) > begun + 1, "two challenges", 10 * EXPIRES_S)
        send(place, topic, KEYS)
        assert len(Workers({"renewing": consumer}).receive(KEYS)) == KEYS
