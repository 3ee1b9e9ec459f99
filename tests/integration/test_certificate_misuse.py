"""Clients with certificates where the cluster is not set up as documented: what the gateway can refuse, nobody gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.artifacts import DEFAULT_VERSION
from proxy.wire import pulsar_pb2 as pb
from tests.integration.certificate_rig import GATEWAY, PROXY, CertifyingPulsar, Gate, gate_of
from tests.integration.pulsar_proxy import pulsar_proxy
from tests.integration.raw_client import RawClient, T, frame

pytestmark = [pytest.mark.slow, pytest.mark.broker]

PULSAR_PROXY = "pulsar-proxy"
NAMESPACE = "public/ours"
TOPIC = f"persistent://{NAMESPACE}/topic"
SPOKEN_FOR: dict[str, Any] = {"auth_method_name": "tls"}


@contextmanager
def broker_with(directory: Path, **settings: str) -> Iterator[CertifyingPulsar]:
    """With a namespace of `app`'s."""
    with CertifyingPulsar(DEFAULT_VERSION, directory / "authorities", **settings) as broker:
        broker.shared_namespace(NAMESPACE, "app")
        yield broker


def tokens_of(broker: CertifyingPulsar, directory: Path) -> dict[str, str]:
    """Settings of a gateway that has tokens instead of certificates, for brokers without TLS."""
    token = directory / "token"
    token.write_text(broker.token(PROXY))
    certificates = ("broker_tls_certificate_file", "broker_tls_key_file", "proxy_role_certificate_file")
    without = dict.fromkeys((*certificates, "proxy_role_key_file", "broker_tls_ca_file"), "")
    return {**without, "broker_token": broker.token(GATEWAY), "proxy_role_token_file": str(token)}


def answer_to(client: RawClient, **fields: Any) -> pb.BaseCommand:
    """Say CONNECT; the first thing that comes back."""
    with client:
        client.send(frame(T.CONNECT, pb.CommandConnect(client_version="raw", protocol_version=21, **fields)))
        return client.read()


def by_certificate(gate: Gate, role: str) -> pb.BaseCommand:
    """The answer to a client of that role."""
    return answer_to(gate.raw(gate.certificate(role)), **SPOKEN_FOR)


def test_a_broker_that_authenticates_original_data_lets_nobody_in(tmp_path: Path) -> None:
    """It might take the gateway's certificate for the client's (`authenticateOriginalAuthData`): it gets no chance."""
    with broker_with(tmp_path, authenticateOriginalAuthData="true") as broker, gate_of(broker, tmp_path) as gate:
        for role in ("app", "stranger"):
            refused = by_certificate(gate, role)
            assert refused.error.error in (pb.AuthenticationError, pb.AuthorizationError), refused
        own = {"auth_method_name": "token", "auth_data": broker.token("app").encode()}
        assert answer_to(RawClient(gate.gateway.service_url, connect=False), **own).type == T.CONNECTED


def test_a_pulsar_proxy_in_between_takes_no_client_for_the_gateway(tmp_path: Path) -> None:
    """It would put the gateway's role in the client's place, as it does for whoever does not say it is a proxy."""
    with (
        broker_with(tmp_path, proxyRoles=f"{PROXY},{PULSAR_PROXY}") as broker,
        pulsar_proxy(broker, tmp_path, PULSAR_PROXY) as proxy_url,
        gate_of(broker, tmp_path, broker_url=proxy_url, **tokens_of(broker, tmp_path)) as gate,
    ):
        own = {"auth_method_name": "token", "auth_data": broker.token(PROXY).encode()}
        taken_for_the_gateway = answer_to(RawClient(proxy_url, connect=False), original_principal="stranger", **own)
        assert taken_for_the_gateway.type == T.CONNECTED
        refused = by_certificate(gate, "stranger")
        assert (refused.error.error, refused.error.message) == (pb.NotAllowedError, "Must not provide proxyVersion")


def test_a_provider_that_reads_tokens_gives_every_client_the_gateways_roles(tmp_path: Path) -> None:
    """No gateway can see this, so security.md warns of it; if it holds no more, the warning may go."""
    provider = "org.apache.pulsar.broker.authorization.MultiRolesTokenAuthorizationProvider"
    with (
        broker_with(tmp_path, authorizationProvider=provider, tokenAuthClaim="sub") as broker,
        gate_of(broker, tmp_path, broker_url=broker.service_url, **tokens_of(broker, tmp_path)) as gate,
        gate.raw(gate.certificate("stranger")) as client,
    ):
        client.send(frame(T.CONNECT, pb.CommandConnect(client_version="raw", protocol_version=21, **SPOKEN_FOR)))
        assert client.read().type == T.CONNECTED
        client.locate(TOPIC)
        assert client.subscribe(TOPIC, subType=pb.CommandSubscribe.Shared).type == T.SUCCESS
