"""Clients that authenticate by a certificate: the gateway says who they are, and a real broker what they may.

Roles: `app` may consume and produce in the namespace, `reader` consume; `stranger` may nothing, `elsewhere` only where
the gateway's proxy role may not. The gateway's proxy role may do whatever `app` may, so whatever
another client gets it gets by the gateway's fault.
"""

from __future__ import annotations

import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pytest

from integration import artifacts
from integration.artifacts import PULSAR_VERSIONS
from integration.certificates import Authority
from integration.java import java
from proxy.wire import pulsar_pb2 as pb
from tests.integration.certificate_rig import GATEWAY, PROXY, CertifyingPulsar, Gate, gate_of
from tests.integration.clients import Workers
from tests.integration.conditions import eventually
from tests.integration.raw_client import ConnectionEndedError, RawClient, T, frame

pytestmark = [pytest.mark.slow, pytest.mark.broker]

NEWEST, *OLDER = PULSAR_VERSIONS
NAMESPACE, UNPROXIED = "public/ours", "public/unproxied"
KEYS = 20
LIFETIME_S = 20
"""Longer than a client takes to come in, on a busy machine, too."""
GONE_S_MAX = 60.0
JAVA_S_MAX = 240
PROGRAM = Path(__file__).parent / "java" / "CertificateClient.java"
CONNECT = pb.CommandConnect(client_version="raw", protocol_version=21, auth_method_name="tls")
WEBSOCKET_PROXY = "__websocket_dummy_original_principle"


def opened(version: str, directory: Path, **settings: str) -> Iterator[Gate]:
    """A broker with its permissions, and a gateway in front of it."""
    with CertifyingPulsar(version, directory / "authorities", superUserRoles="admin", **settings) as broker:
        broker.shared_namespace(NAMESPACE, "app")
        broker.grant(NAMESPACE, "reader", ["consume"])
        broker.grant(NAMESPACE, "unlisted")
        broker.create_namespace(UNPROXIED)
        broker.grant(UNPROXIED, "elsewhere")
        broker.grant(UNPROXIED, GATEWAY)
        with gate_of(broker, directory / "gateway") as gate:
            yield gate


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """With the newest broker."""
    yield from opened(NEWEST, tmp_path_factory.mktemp("newest"))


@pytest.fixture(scope="module", params=OLDER)
def older_gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """With an older one."""
    yield from opened(request.param, tmp_path_factory.mktemp("older"))


def new_topic(name: str, namespace: str = NAMESPACE) -> str:
    """One for each test."""
    return f"persistent://{namespace}/{name}-{time.monotonic_ns()}"


def worker(client: pulsar.Client, topic: str, **options: Any) -> pulsar.Consumer:
    """A Key_Shared consumer."""
    return client.subscribe(
        topic,
        "s",
        consumer_type=pulsar.ConsumerType.KeyShared,
        initial_position=pulsar.InitialPosition.Earliest,
        **options,
    )


def send(client: pulsar.Client, topic: str, count: int = KEYS) -> None:
    """Messages of many keys."""
    producer = client.create_producer(topic)
    for number in range(count):
        producer.send(f"{number}".encode(), partition_key=f"key-{number % KEYS}")
    producer.close()


def consumes_and_produces(gate: Gate, role: str = "app") -> None:
    """Two workers share the keys of what the same client sends; a Shared consumer, which is relayed, gets all."""
    topic = new_topic("permitted")
    with gate.client(role) as client:
        relayed = client.subscribe(topic, "relayed", consumer_type=pulsar.ConsumerType.Shared)
        consumers = Workers({name: worker(client, topic, consumer_name=name) for name in ("a", "b")})
        send(client, topic, 3 * KEYS)
        consumers.receive(3 * KEYS)
        assert len(consumers.worker_of_each_key()) == KEYS
        assert len(Workers({"relayed": relayed}).receive(3 * KEYS)) == 3 * KEYS


def is_refused_everywhere(gate: Gate, role: str, namespace: str = NAMESPACE) -> None:
    """As worker, producer, waiting producer and relayed consumer; no subscription comes of it."""
    topic = new_topic("refused", namespace)
    with gate.broker.admin() as http:
        http.put(f"/admin/v2/{topic.replace('://', '/')}").raise_for_status()
    waiting = pulsar.ProducerAccessMode.WaitForExclusive
    attempts: list[Callable[[pulsar.Client], object]] = [
        lambda client: worker(client, topic),
        lambda client: client.create_producer(topic),
        lambda client: client.create_producer(topic, access_mode=waiting),
        lambda client: client.subscribe(topic, "relayed", consumer_type=pulsar.ConsumerType.Shared),
    ]
    with gate.client(role) as client:
        for attempt in attempts:
            with pytest.raises(pulsar.AuthorizationError):
                attempt(client)
    with gate.broker.admin() as http:
        assert http.get(f"/admin/v2/{topic.replace('://', '/')}/subscriptions").json() == []


def test_who_may_consumes_and_produces(gate: Gate) -> None:
    """By no more than a certificate; the broker has nothing else of that client."""
    consumes_and_produces(gate)


def test_who_may_not_is_refused_everywhere(gate: Gate) -> None:
    """The gateway's permission is not the client's."""
    is_refused_everywhere(gate, "stranger")


def test_who_may_consume_only_does(gate: Gate) -> None:
    """Permissions are those of the role in the certificate, one by one."""
    topic = new_topic("reading")
    with gate.client("reader") as client, gate.client("app") as sender:
        consumers = Workers({"reader": worker(client, topic)})
        with pytest.raises(pulsar.AuthorizationError):
            client.create_producer(topic)
        send(sender, topic)
        assert len(consumers.receive(KEYS)) == KEYS


@pytest.mark.parametrize("role", ["elsewhere", "admin"])
def test_what_the_proxy_role_may_not_its_clients_may_not(gate: Gate, role: str) -> None:
    """A broker asks for the permission of both, a superuser's too."""
    is_refused_everywhere(gate, role, UNPROXIED)


def test_an_older_broker_keeps_the_same_rules(older_gate: Gate) -> None:
    """Who may is served, and who may not is refused."""
    consumes_and_produces(older_gate)
    is_refused_everywhere(older_gate, "stranger")


@pytest.mark.parametrize(("role", "said"), [("app", str(KEYS)), ("stranger", "AuthorizationException")])
def test_javas_client_is_served_and_refused_alike(gate: Gate, role: str, said: str) -> None:
    """Pulsar's own, with AuthenticationTls."""
    signed = gate.certificate(role)
    libraries = artifacts.ensure(artifacts.TOOLS)
    files = (gate.broker.servers.file, signed.certificate, signed.key)
    arguments = [gate.url.replace("127.0.0.1", "localhost"), new_topic("java"), str(KEYS), *map(str, files)]
    command = [str(java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{libraries}/*", str(PROGRAM), *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=JAVA_S_MAX)
    assert said in answer.stdout.splitlines(), answer.stdout + answer.stderr


def test_who_shows_no_certificate_that_is_believed_does_not_come_in(gate: Gate, tmp_path: Path) -> None:
    """None at all, one of another authority, one that has expired: no byte of theirs is read."""
    stranger = Authority(tmp_path, "strangers").sign("app", "client", role="app")
    expired = gate.certificate("late", datetime.now(UTC) - timedelta(seconds=1))
    before = _ended(gate, "certificate_refused")
    for signed in (None, stranger, expired):
        with pytest.raises((ssl.SSLError, ConnectionEndedError)):
            answer_to(gate.raw(signed), auth_method_name="tls")
    for signed in (stranger, expired):
        with gate.client(signed, patience_s=3) as refused, pytest.raises(pulsar.PulsarException):
            worker(refused, new_topic("unbelieved"))
    assert _ended(gate, "certificate_refused") == before, "TLS itself refuses them"


def _ended(gate: Gate, cause: str) -> float:
    """Connections that ended so."""
    name = f'keyline_gateway_connections_ended_total{{cause="{cause}"}} '
    metrics = httpx.get(f"{gate.gateway.admin_url}/metrics", trust_env=False, timeout=30).text
    return float(next(line for line in metrics.splitlines() if line.startswith(name)).removeprefix(name))


def answer_to(client: RawClient, **fields: Any) -> pb.BaseCommand:
    """Say CONNECT; the first thing that comes back."""
    with client:
        client.send(frame(T.CONNECT, pb.CommandConnect(client_version="raw", protocol_version=21, **fields)))
        return client.read()


@pytest.mark.parametrize("principal", ["admin", "app", WEBSOCKET_PROXY])
def test_nobody_forges_a_principal(gate: Gate, principal: str) -> None:
    """Not with a certificate, not with a token, not without either: a client's word about others gets it nowhere."""
    signed = gate.certificate("stranger")
    plain = gate.gateway.service_url
    token = gate.broker.token("stranger").encode()
    forged = answer_to(gate.raw(signed), auth_method_name="tls", original_principal=principal)
    assert (forged.error.error, "speaks for itself alone" in forged.error.message) == (pb.AuthenticationError, True)
    claims: list[dict[str, Any]] = [
        {},
        {"auth_method_name": "none"},
        {"auth_method_name": "tls"},
        {"auth_method_name": "tls", "original_auth_method": "tls"},
        {"auth_method_name": "token", "auth_data": token, "original_auth_method": "tls"},
    ]
    for claim in claims:
        answer = answer_to(RawClient(plain, connect=False), original_principal=principal, **claim)
        assert answer.error.error == pb.AuthenticationError, claim
    own: dict[str, Any] = {"auth_method_name": "token", "auth_data": token, "original_principal": principal}
    if principal != WEBSOCKET_PROXY:
        assert answer_to(RawClient(plain, connect=False), **own).error.error == pb.AuthorizationError
        return
    with RawClient(plain, connect=False) as client:  # a broker lets it in, as whom its token says
        client.send(frame(T.CONNECT, pb.CommandConnect(client_version="raw", protocol_version=21, **own)))
        assert client.read().type == T.CONNECTED
        assert client.subscribe(new_topic("forged")).error.error == pb.AuthorizationError


@pytest.mark.parametrize("name", [GATEWAY, PROXY, WEBSOCKET_PROXY, "app,x", "app+x", " app"])
def test_a_certificate_that_names_the_gateway_or_nobody_is_refused(gate: Gate, name: str) -> None:
    """No authority makes a client the gateway; and a name that the broker would read as another is none."""
    signed = gate.broker.clients.sign("odd", "client", role=name)
    answer = answer_to(gate.raw(signed), auth_method_name="tls")
    assert (answer.error.error, "the client's certificate" in answer.error.message) == (pb.AuthenticationError, True)


def test_what_a_broker_makes_of_such_names(gate: Gate) -> None:
    """It refuses a proxy role as a principal too; the WebSocket proxy's name it takes, and asks for one role alone."""
    own: dict[str, Any] = {"auth_method_name": "token", "auth_data": gate.broker.token(PROXY).encode()}
    for principal in ("", " ", PROXY):
        answer = answer_to(RawClient(gate.broker.service_url, connect=False), original_principal=principal, **own)
        assert answer.error.error == pb.AuthorizationError
    topic = new_topic("dangerous")
    answers = {}
    for principal in ("stranger", WEBSOCKET_PROXY):
        with RawClient(gate.broker.service_url, connect=False) as client:
            said = pb.CommandConnect(client_version="raw", protocol_version=21, original_principal=principal, **own)
            client.send(frame(T.CONNECT, said))
            assert client.read().type == T.CONNECTED
            client.ask(T.LOOKUP, pb.CommandLookupTopic(topic=topic))
            answers[principal] = client.subscribe(topic).type
    assert answers == {"stranger": T.ERROR, WEBSOCKET_PROXY: T.SUCCESS}


def test_a_role_that_is_no_proxy_speaks_for_nobody(gate: Gate, tmp_path: Path) -> None:
    """The broker has not listed it, so it takes no word of it about others: nobody comes in."""
    token = tmp_path / "token"
    token.write_text(gate.broker.token("unlisted"))
    settings = {"proxy_role_certificate_file": "", "proxy_role_key_file": "", "proxy_role_token_file": str(token)}
    with gate_of(gate.broker, tmp_path, **settings) as unlisted:
        for role in ("app", "stranger"):
            answer = answer_to(unlisted.raw(unlisted.certificate(role)), auth_method_name="tls")
            assert answer.error.error == pb.AuthorizationError, answer


def test_without_a_proxy_role_a_certificate_is_no_name(gate: Gate, tmp_path: Path) -> None:
    """As long as none is configured: it opens the door alone."""
    settings = {"proxy_role_certificate_file": "", "proxy_role_key_file": ""}
    with gate_of(gate.broker, tmp_path, **settings) as closed:
        answer = answer_to(closed.raw(closed.certificate("app")), auth_method_name="tls")
        assert "cannot be passed on" in answer.error.message


def test_who_may_no_more_loses_its_worker(gate: Gate) -> None:
    """The question is asked again in the same two names."""
    topic = new_topic("revoked")
    gate.broker.grant(NAMESPACE, "second", ["consume"])
    with gate.client("second") as client:
        worker(client, topic)
        gate.broker.revoke(NAMESPACE, "second")
        eventually(lambda: not gate.gateway.workers(topic, "s"), "its worker to be gone", GONE_S_MAX)
        with pytest.raises(pulsar.AuthorizationError):
            worker(client, topic)


def test_a_connection_ends_with_its_certificate(gate: Gate) -> None:
    """Nobody is in by a certificate that has expired; the client does not come back with it."""
    topic = new_topic("expiring")
    before = _ended(gate, "certificate_expired")
    signed = gate.certificate("app", datetime.now(UTC) + timedelta(seconds=LIFETIME_S))
    with gate.client(signed) as client:
        worker(client, topic)
        eventually(lambda: not gate.gateway.workers(topic, "s"), "its worker to be gone", GONE_S_MAX)
        assert _ended(gate, "certificate_expired") > before


def test_a_resumed_tls_session_does_not_bring_an_expired_certificate_back(gate: Gate) -> None:
    """TLS itself lets it in without a look at the dates; the gateway looks."""
    signed = gate.certificate("app", datetime.now(UTC) + timedelta(seconds=LIFETIME_S))
    context = gate.tls_context(signed)
    with gate.raw(context) as client:
        client.send(frame(T.CONNECT, CONNECT))
        assert client.read().type == T.CONNECTED
        session = client.tls.session
        assert [command.type for command in client.ended()] == []
    with gate.raw(context, session) as client:
        client.send(frame(T.CONNECT, CONNECT))
        answer = client.read()
        assert client.tls.session_reused, "or this shows nothing"
    assert "has expired" in answer.error.message


def test_a_proxy_roles_token_may_expire_and_be_renewed(gate: Gate, tmp_path: Path) -> None:
    """A broker ends the connections that were opened with it; workers notice nothing, for the file has a new one."""
    topic = new_topic("renewed")
    token = tmp_path / "token"
    token.write_text(gate.broker.token(PROXY))
    settings = {"proxy_role_certificate_file": "", "proxy_role_key_file": "", "proxy_role_token_file": str(token)}
    with gate_of(gate.broker, tmp_path, **settings) as renewing, renewing.client("app") as client:
        token.write_text(gate.broker.token(PROXY, LIFETIME_S))  # now, for it should last until the worker has joined
        consumers = Workers({"app": worker(client, topic)})
        connected = renewing.gateway.workers(topic, "s")
        token.write_text(gate.broker.token(PROXY))
        eventually(
            lambda: "broker disconnected" in renewing.gateway.log.read_text(), "the broker's end of it", GONE_S_MAX
        )
        send(client, topic)
        assert len(consumers.receive(KEYS)) == KEYS
        assert renewing.gateway.workers(topic, "s") == connected
