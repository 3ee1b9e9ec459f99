"""The proxy role for clients that authenticate by certificates, from the configuration."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from proxy.aio.clock_and_connector import AioConnector
from proxy.app.security import client_version, credentials
from proxy.errors import ClientError, ConfigurationError, StartFailure
from proxy.net.broker.settings import TOKEN_METHOD, certificate_credentials, token_file_credentials
from proxy.net.relay.identity import ProxyRole
from proxy.net.session.client_principal import principal_of

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from proxy.app.security import Certificates
    from proxy.config.settings import Config
    from proxy.limits import Limits
    from proxy.net.broker.settings import CredentialsProvider


def proxy_role_of(
    config: Config, loop: asyncio.AbstractEventLoop, limits: Limits, tls: Certificates
) -> ProxyRole | None:
    """Make it; None if such clients are refused. Raises `StartFailure` if a file cannot be read."""
    security = config.security
    if security.proxy_role_token_file is not None:
        provider: CredentialsProvider = token_file_credentials(security.proxy_role_token_file)
    elif security.proxy_role_certificate_file is not None:
        provider = certificate_credentials
    else:
        return None
    certificates = (config.broker.broker_tls_certificate_file, security.proxy_role_certificate_file)
    try:
        own_roles = _roles_in_tokens(credentials(config), provider) | _roles_in_certificates(*certificates)
    except ConfigurationError as error:
        raise StartFailure(str(error)) from error
    context = tls.broker_context if tls.proxy_role is None else tls.proxy_role.context
    return ProxyRole(provider, AioConnector(loop, limits, context), client_version(), own_roles)


def _roles_in_tokens(*providers: CredentialsProvider) -> frozenset[str]:
    """Roles in the current tokens; a renewed token keeps its role. A broker may use another claim."""
    roles = set()
    for provider in providers:
        given = provider()
        if given is None or given.method != TOKEN_METHOD:
            continue
        with suppress(jwt.InvalidTokenError):  # brokers interpret it
            role = jwt.decode(given.data, options={"verify_signature": False}).get("sub")
            if isinstance(role, str):
                roles.add(role)
    return frozenset(roles)


def _roles_in_certificates(*files: Path | None) -> frozenset[str]:
    """Roles in the certificates, which are already loaded."""
    roles = set()
    for file in files:
        if file is not None:
            first = x509.load_pem_x509_certificates(file.read_bytes())[0]
            with suppress(ClientError):  # it names no role
                roles.add(principal_of(first.public_bytes(Encoding.DER), now_s=0).role)
    return frozenset(roles)
