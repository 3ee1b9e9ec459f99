"""TLS on every way in and out: clients, brokers and the admin API, with real certificates and official clients."""

from __future__ import annotations

import socket
import ssl
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pulsar
import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.certificates import Authority
from integration.errors import StartError
from integration.gateway import KeylineGateway
from integration.ports import LOOPBACK, free_ports
from integration.standalone import PulsarStandalone
from tests.integration.clients import Workers
from tests.integration.conditions import eventually

pytestmark = [pytest.mark.slow, pytest.mark.broker]

MESSAGES = 40
HOSTS = (LOOPBACK, "localhost")
RELOADED_S_MAX = 60.0
NOT_READY_S = (5.0, 15.0, 60.0)
"""So long it is waited for a gateway that says why it is not ready: longer where the machine is busy."""
SERVED_S_MAX = 60
REFUSED_S_MAX = 5
"""A client that is refused tries again until then."""


class Place(NamedTuple):
    """A broker that speaks TLS too, by a certificate of this authority."""

    authority: Authority
    broker: PulsarStandalone
    tls_url: str
    admin_url: str


@pytest.fixture(scope="module", params=PULSAR_VERSIONS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for all tests of a version."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    signed = authority.sign("broker", *HOSTS)
    port, web_port = free_ports(2)
    settings = {
        "brokerServicePortTls": str(port),
        "webServicePortTls": str(web_port),
        "tlsCertificateFilePath": str(signed.certificate),
        "tlsKeyFilePath": str(signed.key),
        "tlsTrustCertsFilePath": str(authority.file),
    }
    with PulsarStandalone(request.param, settings=settings) as broker:
        yield Place(authority, broker, f"pulsar+ssl://{LOOPBACK}:{port}", f"https://{LOOPBACK}:{web_port}")


class Served(NamedTuple):
    """A gateway that speaks TLS, and how it is reached."""

    gateway: KeylineGateway
    url: str
    port: int


@contextmanager
def gateway_of(place: Place, directory: Path, **settings: str) -> Iterator[Served]:
    """With TLS to clients by a certificate `gateway`, and to the broker."""
    signed = place.authority.sign("gateway", *HOSTS)
    (port,) = free_ports(1)
    values = {
        "listen_tls": f"{LOOPBACK}:{port}",
        "tls_certificate_file": str(signed.certificate),
        "tls_key_file": str(signed.key),
        "broker_tls_ca_file": str(place.authority.file),
        **settings,
    }
    authorities = place.authority.file
    with KeylineGateway(place.tls_url, place.admin_url, directory, settings=values, authorities=authorities) as gateway:
        yield Served(gateway, f"pulsar+ssl://{LOOPBACK}:{port}", port)


@contextmanager
def client_of(
    url: str, authority: Authority, patience_s: int = SERVED_S_MAX, **options: Any
) -> Iterator[pulsar.Client]:
    """One that believes this authority only, and looks at names."""
    client = pulsar.Client(
        url,
        tls_trust_certs_file_path=str(authority.file),
        tls_validate_hostname=True,
        operation_timeout_seconds=patience_s,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        **options,
    )
    try:
        yield client
    finally:
        client.close()


def worker(client: pulsar.Client, topic: str, **options: Any) -> pulsar.Consumer:
    """A Key_Shared consumer."""
    return client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.KeyShared, **options)


def send(client: pulsar.Client, topic: str) -> None:
    """Messages of many keys."""
    producer = client.create_producer(topic)
    for number in range(MESSAGES):
        producer.send(f"{number}".encode(), partition_key=f"key-{number}")


def certificate_at(port: int, context: ssl.SSLContext) -> bytes:
    """What a server shows to who connects now."""
    with (
        socket.create_connection((LOOPBACK, port), timeout=30) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as secured,
    ):
        shown = secured.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def trusting(authority: Authority) -> ssl.SSLContext:
    """A client's context."""
    return ssl.create_default_context(cafile=str(authority.file))


def old_fashioned(authority: Authority) -> ssl.SSLContext:
    """A client's that knows nothing newer than TLS 1.1, and would take it."""
    context = trusting(authority)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.options &= ~ssl.OP_NO_TLSv1_1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


def test_clients_are_served_by_tls_all_the_way(place: Place, tmp_path: Path, new_topic: Any) -> None:
    """Lookups lead back here by TLS; workers share the keys; also those that come without, at the other address."""
    topic = new_topic("tls")
    with gateway_of(place, tmp_path) as served, client_of(served.url, place.authority) as client:
        consumers = Workers({name: worker(client, topic, consumer_name=name) for name in ("a", "b")})
        send(client, topic)
        consumers.receive(MESSAGES)
        assert len(consumers.worker_of_each_key()) == MESSAGES
        assert {name for name, got in consumers.received.items() if got} == {"a", "b"}
        plain = pulsar.Client(served.gateway.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        send(plain, topic)
        plain.close()
        consumers.receive(MESSAGES)
        log = served.gateway.log.read_text()
        assert "Traceback" not in log


def test_who_does_not_believe_the_gateway_does_not_come(place: Place, tmp_path: Path, new_topic: Any) -> None:
    """Another authority; and old protocols, or none, are refused while others are served."""
    topic = new_topic("unbelieving")
    with gateway_of(place, tmp_path) as served:
        another = Authority(tmp_path, "another")
        with client_of(served.url, another, REFUSED_S_MAX) as client, pytest.raises(pulsar.PulsarException):
            worker(client, topic)
        with pytest.raises(ssl.SSLError):
            certificate_at(served.port, old_fashioned(place.authority))
        with socket.create_connection((LOOPBACK, served.port), timeout=30) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with client_of(served.url, place.authority) as client:
            worker(client, topic)
        assert "Traceback" not in served.gateway.log.read_text()


def test_a_new_certificate_is_shown_without_a_restart(place: Place, tmp_path: Path, new_topic: Any) -> None:
    """Connections that stand are left alone; half of a change, or rubbish, changes nothing."""
    topic = new_topic("renewed")
    with gateway_of(place, tmp_path) as served, client_of(served.url, place.authority) as client:
        consumer = worker(client, topic)
        first = certificate_at(served.port, trusting(place.authority))
        certificate = place.authority.file.with_name("gateway.cert.pem")
        whole = certificate.read_bytes()
        certificate.write_bytes(b"no certificate")
        eventually(
            lambda: "certificates not reloaded" in served.gateway.log.read_text(), "it to be told", RELOADED_S_MAX
        )
        assert certificate_at(served.port, trusting(place.authority)) == first
        certificate.write_bytes(whole)
        place.authority.sign("gateway", *HOSTS)
        eventually(
            lambda: certificate_at(served.port, trusting(place.authority)) != first, "the new one", RELOADED_S_MAX
        )
        send(client, topic)
        assert len(Workers({"stays": consumer}).receive(MESSAGES)) == MESSAGES
        assert served.gateway.workers(topic, "s")


def test_clients_have_to_show_a_certificate_where_that_is_wanted(place: Place, tmp_path: Path, new_topic: Any) -> None:
    """Of the right authority; it opens the door, and does not say to the broker who they are."""
    topic = new_topic("mutual")
    clients = Authority(tmp_path, "clients")
    known = clients.sign("known", "client")
    stranger = Authority(tmp_path, "strangers").sign("stranger", "client")
    with gateway_of(place, tmp_path, tls_client_ca_file=str(clients.file)) as served:
        for signed in (None, stranger):
            shown = {} if signed is None else _shown(signed.certificate, signed.key)
            with (
                client_of(served.url, place.authority, REFUSED_S_MAX, **shown) as client,
                pytest.raises(pulsar.PulsarException),
            ):
                worker(client, topic)
        with client_of(served.url, place.authority, **_shown(known.certificate, known.key)) as client:
            consumer = worker(client, topic)
            send(client, topic)
            assert len(Workers({"known": consumer}).receive(MESSAGES)) == MESSAGES
        as_role = pulsar.AuthenticationTLS(str(known.certificate), str(known.key))
        with (
            client_of(served.url, place.authority, REFUSED_S_MAX, authentication=as_role) as client,
            pytest.raises(pulsar.PulsarException),
        ):
            worker(client, topic)
        assert "certificate cannot be passed on" in served.gateway.log.read_text()


def _shown(certificate: Path, key: Path) -> dict[str, Any]:
    return {"tls_certificate_file_path": str(certificate), "tls_private_key_file_path": str(key)}


def test_a_broker_that_is_not_who_it_should_be_is_not_spoken_to(place: Place, tmp_path: Path) -> None:
    """Its name is looked at, and its authority; the gateway is not ready, and says why."""
    values = {"broker_tls_ca_file": str(Authority(tmp_path, "another").file)}
    gateway = KeylineGateway(place.tls_url, place.admin_url, tmp_path, settings=values)
    try:
        said = ""
        for patience_s in NOT_READY_S:
            with pytest.raises(StartError) as refused:
                gateway.start(patience_s)
            said = str(refused.value)
            if "certificate verify failed" in said:
                return
        pytest.fail(said)
    finally:
        gateway.close()


def test_the_admin_api_is_served_by_tls(place: Place, tmp_path: Path) -> None:
    """The console and the metrics too; the broker's own admin API is asked by TLS behind it."""
    with gateway_of(place, tmp_path, admin_tls="true") as served:
        with httpx.Client(
            base_url=served.gateway.admin_url, verify=trusting(place.authority), trust_env=False, timeout=30
        ) as http:
            for path in ("/livez", "/readyz", "/metrics", "/api/v1/subscriptions", "/admin/v2/clusters", "/"):
                answer = http.get(path, follow_redirects=True)
                assert answer.is_success, (path, answer.text)
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://{LOOPBACK}:{served.gateway.admin_port}/livez", trust_env=False, timeout=30)
