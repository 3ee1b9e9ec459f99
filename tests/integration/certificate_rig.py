"""A broker that authorizes, and gateways that know their clients by certificates.

Two authorities: `servers` signs for the broker and for the gateway, `clients` for clients. Brokers believe the first
alone, so that no client's certificate gets anywhere but by what the gateway says of it.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pulsar

from integration.certificates import Authority, Signed
from integration.gateway import KeylineGateway
from integration.ports import LOOPBACK, free_ports
from integration.secured import SecuredPulsar
from tests.integration.raw_client import RawClient

HOSTS: Final = (LOOPBACK, "localhost")
GATEWAY, PROXY = "keyline", "keyline-proxy"
"""The roles in which the gateway consumes and speaks for clients."""
PROVIDERS: Final = ",".join(
    f"org.apache.pulsar.broker.authentication.AuthenticationProvider{kind}" for kind in ("Token", "Tls")
)
PATIENCE_S: Final = 30


class CertifyingPulsar(SecuredPulsar):
    """A broker that takes tokens, and certificates of `servers` at an address with TLS."""

    def __init__(self, version: str, directory: Path, **settings: str) -> None:
        """Describe it; `settings` are further lines of its configuration."""
        self.servers = Authority(directory, "servers")
        self.clients = Authority(directory, "clients")
        signed = self.servers.sign("broker", *HOSTS)
        (self._tls_port,) = free_ports(1)
        lines = {
            "authenticationProviders": PROVIDERS,
            "proxyRoles": PROXY,
            "brokerServicePortTls": str(self._tls_port),
            "tlsCertificateFilePath": str(signed.certificate),
            "tlsKeyFilePath": str(signed.key),
            "tlsTrustCertsFilePath": str(self.servers.file),
            "tlsRequireTrustedClientCertOnConnect": "false",
        }
        super().__init__(version, settings=lines | settings)

    @property
    def tls_url(self) -> str:
        """For clients with TLS."""
        return f"pulsar+ssl://{LOOPBACK}:{self._tls_port}"

    def shared_namespace(self, name: str, *roles: str) -> str:
        """Make a namespace for these roles, and for the gateway's two."""
        self.create_namespace(name)
        for role in (PROXY, *roles):
            self.grant(name, role)
        self.grant(name, GATEWAY, ["consume"])
        return name


class Gate(NamedTuple):
    """A gateway that knows clients by certificates, and how it is reached."""

    broker: CertifyingPulsar
    gateway: KeylineGateway
    port: int

    @property
    def url(self) -> str:
        """With TLS."""
        return f"pulsar+ssl://{LOOPBACK}:{self.port}"

    def certificate(self, role: str, not_after: datetime | None = None) -> Signed:
        """For a client of that role."""
        return self.broker.clients.sign(f"client-{role}", "client", role=role, not_after=not_after)

    @contextmanager
    def client(self, role: str | Signed, patience_s: int = PATIENCE_S, **options: Any) -> Iterator[pulsar.Client]:
        """One that authenticates by its certificate (AuthenticationTls)."""
        signed = self.certificate(role) if isinstance(role, str) else role
        client = pulsar.Client(
            self.url,
            authentication=pulsar.AuthenticationTLS(str(signed.certificate), str(signed.key)),
            tls_trust_certs_file_path=str(self.broker.servers.file),
            tls_validate_hostname=True,
            operation_timeout_seconds=patience_s,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
            **options,
        )
        try:
            yield client
        finally:
            client.close()

    def tls_context(self, signed: Signed | None = None) -> ssl.SSLContext:
        """A client's, with its certificate."""
        context = ssl.create_default_context(cafile=str(self.broker.servers.file))
        if signed is not None:
            context.load_cert_chain(signed.certificate, signed.key)
        return context

    def raw(self, shown: Signed | ssl.SSLContext | None = None, session: ssl.SSLSession | None = None) -> RawTlsClient:
        """One that sends what it is told, and has not said CONNECT yet; `session` is one to be resumed."""
        context = shown if isinstance(shown, ssl.SSLContext) else self.tls_context(shown)
        return RawTlsClient(self.port, context, session)


class RawTlsClient(RawClient):
    """A raw client with TLS."""

    def __init__(self, port: int, context: ssl.SSLContext, session: ssl.SSLSession | None) -> None:
        """Shake hands; TLS 1.3 refuses a client's certificate only once something is read."""
        super().__init__(f"pulsar://{LOOPBACK}:{port}", connect=False)
        self.tls = context.wrap_socket(self.socket, server_hostname="localhost", session=session)
        self.socket: socket.socket = self.tls

    def __enter__(self) -> Self:
        """It is open already."""
        return self


@contextmanager
def gate_of(broker: CertifyingPulsar, directory: Path, **settings: str) -> Iterator[Gate]:
    """A gateway whose two roles have certificates; `settings` change that."""
    shown = broker.servers.sign("gateway", *HOSTS)
    own = broker.servers.sign(GATEWAY, "gateway", role=GATEWAY)
    proxy = broker.servers.sign(PROXY, "gateway", role=PROXY)
    (port,) = free_ports(1)
    values = {
        "listen_tls": f"{LOOPBACK}:{port}",
        "tls_certificate_file": str(shown.certificate),
        "tls_key_file": str(shown.key),
        "tls_client_ca_file": str(broker.clients.file),
        "broker_tls_ca_file": str(broker.servers.file),
        "broker_tls_certificate_file": str(own.certificate),
        "broker_tls_key_file": str(own.key),
        "proxy_role_certificate_file": str(proxy.certificate),
        "proxy_role_key_file": str(proxy.key),
        "authorize_again_s": "1",
        **settings,
    }
    with KeylineGateway(
        broker.tls_url, broker.admin_url, directory, settings={name: text for name, text in values.items() if text}
    ) as gateway:
        yield Gate(broker, gateway, port)
