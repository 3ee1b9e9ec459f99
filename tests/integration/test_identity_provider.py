"""OAuth2 with a real identity provider: clients that get their tokens there, and an admin API that trusts its keys.

Tokens live for seconds. The broker asks for fresh ones on the connection (AUTH_CHALLENGE); Pulsar's C++ client, which
Python's is, answers with the one it has as often as not, is put out and comes again: so it does without a gateway too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import jwt
import pulsar
import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.gateway import KeylineGateway
from integration.keycloak import AUDIENCE, CLAIM, Keycloak
from integration.secured import REFRESH_CHECK_S
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually

LIVES_S = 6
LONG_S = 7_200
LIFETIMES = 4
"""Of a token, for as long as a worker is watched."""
RECEIVE_MS = 60_000
NAMESPACE = "public/default"
CLIENTS = {"admin": LONG_S, "keyline": LONG_S, "app": LIVES_S, "leaver": LIVES_S, "stranger": LIVES_S, "viewer": LONG_S}

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Place(NamedTuple):
    """A provider, a broker that believes it, and a gateway in front of that."""

    provider: Keycloak
    broker: PulsarStandalone
    gateway: KeylineGateway


@pytest.fixture(scope="module")
def provider() -> Iterator[Keycloak]:
    """With a client for each role."""
    with Keycloak(CLIENTS) as started:
        yield started


@pytest.fixture(scope="module", params=PULSAR_VERSIONS)
def place(
    request: pytest.FixtureRequest, provider: Keycloak, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """One for all tests of a version; all but `stranger` may produce and consume."""
    admin = provider.token("admin")
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "authenticationRefreshCheckSeconds": str(REFRESH_CHECK_S),
        "tokenPublicKey": provider.public_key(),
        "tokenAuthClaim": CLAIM,
        "superUserRoles": "admin",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{admin}",
    }
    with PulsarStandalone(request.param, settings=settings, token=admin) as broker:
        with broker.admin() as http:
            for role in ("app", "leaver", "keyline"):
                path = f"/admin/v2/namespaces/{NAMESPACE}/permissions/{role}"
                http.post(path, json=["produce", "consume"]).raise_for_status()
        ours = {
            "broker_token": provider.token("keyline"),
            "admin_token_jwks_url": provider.keys_url,
            "admin_token_claim": CLAIM,
            "admin_token_audience": AUDIENCE,
            "admin_token_issuer": provider.issuer,
            "admin_viewers": "viewer",
            "admin_admins": "admin",
        }
        directory: Path = tmp_path_factory.mktemp("gateway")
        with KeylineGateway(broker.service_url, broker.admin_url, directory, settings=ours) as gateway:
            yield Place(provider, broker, gateway)


@pytest.fixture
def client(place: Place, request: pytest.FixtureRequest) -> Iterator[pulsar.Client]:
    """Pulsar's own, which asks the provider for tokens as the client that the test names."""
    connected = pulsar.Client(
        place.gateway.service_url,
        authentication=pulsar.AuthenticationOauth2(place.provider.credentials(request.param)),
        operation_timeout_seconds=60,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    yield connected
    connected.close()


@pytest.mark.parametrize("client", ["app"], indirect=True)
def test_a_worker_outlives_its_tokens(client: pulsar.Client, place: Place) -> None:
    """Every message comes once and in order, though the token expires again and again."""
    topic = f"persistent://{NAMESPACE}/outlived-{place.broker.version}"
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.KeyShared)
    producer = client.create_producer(topic)
    for number in range(LIFETIMES * LIVES_S):
        producer.send(f"{number}".encode(), partition_key="key")
        message = consumer.receive(RECEIVE_MS)
        assert message.data() == f"{number}".encode()
        consumer.acknowledge(message)
        with pytest.raises(pulsar.Timeout):
            consumer.receive(1_000)


@pytest.mark.parametrize("client", ["leaver"], indirect=True)
def test_a_worker_whose_provider_gives_it_no_tokens_any_more_is_put_out(client: pulsar.Client, place: Place) -> None:
    """When the token that it has expires, its connection ends, and what it had is for others."""
    topic = f"persistent://{NAMESPACE}/left-{place.broker.version}"
    client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.KeyShared)
    eventually(lambda: workers(place) == 1, "the worker")
    place.provider.enable("leaver", whether=False)
    try:
        # A healthy one may be put out too, and comes back with a token that it was given before.
        last_expires_at = time.monotonic() + LIVES_S
        eventually(lambda: time.monotonic() > last_expires_at and workers(place) == 0, "the worker to be put out")
        for _ in range(2 * LIVES_S):
            time.sleep(1)
            assert workers(place) == 0, "it came back without a token"
    finally:
        place.provider.enable("leaver", whether=True)


@pytest.mark.parametrize("client", ["stranger"], indirect=True)
def test_who_may_nothing_is_told_so(client: pulsar.Client, place: Place) -> None:
    """The provider knows it, and the broker gives it no permission."""
    topic = f"persistent://{NAMESPACE}/refused-{place.broker.version}"
    with pytest.raises(pulsar.AuthorizationError):
        client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.KeyShared)
    with pytest.raises(pulsar.AuthorizationError):
        client.create_producer(topic)


def test_the_admin_api_believes_the_providers_tokens(place: Place) -> None:
    """Roles by the claim that is set, and keys that the provider changes; nobody else's tokens."""
    assert status(place, None) == httpx.codes.UNAUTHORIZED
    assert status(place, place.provider.token("viewer")) == httpx.codes.OK
    assert status(place, place.provider.token("stranger")) == httpx.codes.FORBIDDEN
    broken = place.provider.token("viewer")[:-8] + "AAAAAAAA"
    assert status(place, broken) == httpx.codes.UNAUTHORIZED
    before = place.provider.token("viewer")
    place.provider.new_keys()
    after = place.provider.token("viewer")
    assert jwt.get_unverified_header(before)["kid"] != jwt.get_unverified_header(after)["kid"]
    eventually(lambda: status(place, after) == httpx.codes.OK, "a token of the new key to be believed")
    assert status(place, before) == httpx.codes.OK, "the key of before is still published"


def workers(place: Place) -> int:
    """How many the gateway has."""
    headers = {"Authorization": f"Bearer {place.provider.token('viewer')}"}
    answer = httpx.get(f"{place.gateway.admin_url}/api/v1/subscriptions", headers=headers, trust_env=False, timeout=30)
    return int(answer.raise_for_status().json()["workers"])


def status(place: Place, token: str | None) -> int:
    """Of a question about what there is."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.get(
        f"{place.gateway.admin_url}/api/v1/subscriptions", headers=headers, trust_env=False, timeout=30
    ).status_code
