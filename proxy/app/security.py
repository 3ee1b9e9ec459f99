"""The gateway's credentials, certificates and keys, from the configuration."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

import structlog

from admin_api.access.published_keys import PublishedKeys
from admin_api.access.tokens import PUBLIC, SECRET, Roles, Tokens, public_key, secret_key
from admin_api.origins import is_loopback
from proxy import __version__
from proxy.aio.tls import TlsFiles
from proxy.config.load import ADMIN_KEYS
from proxy.config.types import split_host_port
from proxy.errors import ConfigurationError, StartFailure
from proxy.net.broker.settings import (
    CredentialsProvider,
    certificate_credentials,
    no_credentials,
    token_credentials,
    token_file_credentials,
)
from proxy.service_url import TLS
from proxy.views.metrics import CertificatesSummary

if TYPE_CHECKING:
    from proxy.aio.tls import TlsWatch
    from proxy.config.broker import Broker
    from proxy.config.settings import Config


log = structlog.get_logger("keyline.gateway")


def client_version() -> str:
    """The gateway's name at brokers."""
    return f"Keyline-v{__version__}"


class ReplicaTls(NamedTuple):
    """A replica's certificate among the others: the same one to accept and to connect."""

    accepts: TlsFiles
    connects: TlsFiles


class Certificates:
    """Every certificate that the configuration names."""

    def __init__(self, config: Config) -> None:
        """Read them. Raises `StartFailure`.

        `broker` identifies the gateway; `callers` has no certificate: with it callers of the admin API are passed on.
        """
        broker, security = config.broker, config.security
        certificate, key = security.tls_certificate_file, security.tls_key_file
        try:
            wanted = any(url.startswith(("https:", f"{TLS}:")) for url in (broker.broker_url, broker.broker_admin_url))
            self.broker = _broker_tls(broker) if wanted else None
            self.callers = TlsFiles(authorities=broker.broker_tls_ca_file, server=False) if wanted else None
            self.proxy_role = _proxy_role_tls(config) if security.proxy_role_certificate_file is not None else None
            self.server = self.clients = None
            if certificate is not None:
                self.server = self.clients = TlsFiles(certificate=certificate, key=key, server=True)
            if security.tls_client_ca_file is not None:  # callers of the admin API authenticate by tokens
                authorities = security.tls_client_ca_file
                self.clients = TlsFiles(certificate=certificate, key=key, authorities=authorities, server=True)
            self.replicas = _replica_tls(config) if config.replicas.replica_tls_certificate_file is not None else None
        except ConfigurationError as error:
            raise StartFailure(str(error)) from error

    @property
    def all(self) -> list[TlsFiles]:
        """Those that are in use, each once."""
        named = (self.broker, self.callers, self.proxy_role, self.server, self.clients, *(self.replicas or ()))
        return list({id(files): files for files in named if files}.values())

    @property
    def broker_context(self) -> ssl.SSLContext | None:
        """For brokers' own protocol."""
        return None if self.broker is None else self.broker.context

    def summary(self, watch: TlsWatch) -> CertificatesSummary:
        """When those expire that others see, and how reading them again goes."""
        shown = {"clients": self.clients, "brokers": self.broker, "brokers_as_proxy": self.proxy_role}
        if self.replicas is not None:
            shown["replicas"] = self.replicas.accepts
        expire_at_s = {name: files.not_after_s for name, files in shown.items() if files is not None}
        return CertificatesSummary(
            {name: at_s for name, at_s in expire_at_s.items() if at_s is not None}, watch.well, watch.reloads
        )


def credentials(config: Config) -> CredentialsProvider:
    """The gateway's credentials for brokers."""
    broker = config.broker
    if broker.broker_token is not None:
        return token_credentials(broker.broker_token.get_secret_value())
    if broker.broker_token_file is not None:
        return token_file_credentials(broker.broker_token_file)
    if broker.broker_tls_certificate_file is not None:
        return certificate_credentials
    return no_credentials


def tokens(config: Config) -> Tokens | None:
    """Make the reader of the admin API's tokens; None without authentication."""
    security = config.security
    algorithms: tuple[str, ...] = PUBLIC
    try:
        if security.admin_token_secret_file is not None:
            key, algorithms = secret_key(security.admin_token_secret_file), SECRET
        elif security.admin_token_public_key_file is not None:
            key = public_key(security.admin_token_public_key_file)
        elif security.admin_token_jwks_url is not None:
            key = PublishedKeys(security.admin_token_jwks_url)
        else:
            return None
    except ConfigurationError as error:
        raise StartFailure(str(error)) from error
    roles = Roles(*map(frozenset, (security.admin_viewers, security.admin_operators, security.admin_admins)))
    return Tokens(
        key,
        algorithms,
        roles,
        claim=security.admin_token_claim,
        audience=security.admin_token_audience,
        issuer=security.admin_token_issuer,
    )


def _proxy_role_tls(config: Config) -> TlsFiles:
    return TlsFiles(
        certificate=config.security.proxy_role_certificate_file,
        key=config.security.proxy_role_key_file,
        authorities=config.broker.broker_tls_ca_file,
        server=False,
    )


def _replica_tls(config: Config) -> ReplicaTls:
    replicas = config.replicas

    def read(*, server: bool) -> TlsFiles:
        return TlsFiles(
            certificate=replicas.replica_tls_certificate_file,
            key=replicas.replica_tls_key_file,
            authorities=replicas.replica_tls_ca_file,
            server=server,
        )

    tls = ReplicaTls(accepts=read(server=True), connects=read(server=False))
    # Pods have no names that a certificate could have, and who has one of this authority is a replica. Which one it is,
    # it proves by the secret: see `net.owner.proof`.
    tls.connects.context.check_hostname = False
    return tls


def _broker_tls(broker: Broker) -> TlsFiles:
    return TlsFiles(
        certificate=broker.broker_tls_certificate_file,
        key=broker.broker_tls_key_file,
        authorities=broker.broker_tls_ca_file,
        server=False,
    )


def warn_of_access(config: Config) -> None:
    """Warn of the access that the configuration gives to others on the network."""
    if not is_loopback(split_host_port(config.serving.listen)[0]):
        log.warning("client port not encrypted", listen=config.serving.listen)
    security, admin = config.security, config.serving.admin_listen
    if not is_loopback(split_host_port(admin)[0]):
        if not any(getattr(security, name) for name in ADMIN_KEYS):
            log.warning("admin API not authenticated", admin_listen=admin)
        elif not security.admin_tls:
            log.warning("admin API not encrypted", admin_listen=admin)
    if not config.security.authorize_workers:
        log.warning("worker authorization disabled", detail="any connected client may consume what the gateway may")
