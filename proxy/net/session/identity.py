"""The identity of a client at brokers: its own, or the gateway's on its behalf.

A client's input never gets the gateway's own authority. The gateway acts only for a client that requests authentication
by certificate and presented one to a verifying listener. All others are passed on with their own credentials alone,
even with an original principal: brokers accept that from their proxy roles only.

Method ``tls`` in a client's own words would make a broker look at the certificate of our connection, which is the
gateway's, as the client's or as that of the client behind it. So it is never passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.errors import ClientError
from proxy.net.broker.settings import CERTIFICATE_METHOD
from proxy.net.handshake import upstream_connect
from proxy.net.relay.identity import OwnIdentity, ProxiedIdentity
from proxy.net.session.client_principal import principal_of
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.ports import Connector
    from proxy.net.relay.identity import Identity, ProxyRole
    from proxy.net.session.client_principal import Principal
    from proxy.net.session.settings import SessionSettings

OF_PROXIES: Final = ("original_principal", "original_auth_data", "original_auth_method", "proxy_version")
"""Fields of CONNECT by which a proxy speaks for another."""


class Introduction(NamedTuple):
    """What a client's connections to brokers are opened with."""

    identity: Identity
    connector: Connector
    principal: Principal | None
    """The client for which the gateway acts; None for a client with its own credentials."""


def introduced(
    connect: pb.CommandConnect, certificate: bytes | None, settings: SessionSettings, connector: Connector, now_s: float
) -> Introduction:
    """Decide in whose name a client goes on. Raises `ClientError`.

    `certificate` is that of its connection, verified, or None; `connector` opens connections for clients that speak
    for themselves; `now_s` is in seconds since 1970.
    """
    if connect.auth_method_name == CERTIFICATE_METHOD:
        return _spoken_for(connect, certificate, settings.proxy_role, now_s)
    if connect.original_auth_method == CERTIFICATE_METHOD:
        raise _refusal("the certificate of a proxy's client cannot be passed on to the broker")
    return Introduction(OwnIdentity(upstream_connect(connect)), connector, None)


def _spoken_for(
    connect: pb.CommandConnect, certificate: bytes | None, proxy_role: ProxyRole | None, now_s: float
) -> Introduction:
    if proxy_role is None:
        raise _refusal("a client's certificate cannot be passed on to the broker; authenticate with a token")
    if certificate is None:
        raise _refusal("no certificate was shown on this connection; come to the address for TLS, with one")
    named = [field for field in OF_PROXIES if connect.HasField(field)]
    if named:
        raise _refusal(f"a client that is known by its certificate speaks for itself alone, without {', '.join(named)}")
    principal = principal_of(certificate, now_s)
    if principal.role in proxy_role.own_roles:
        raise _refusal("the client's certificate names a role of the gateway")
    return Introduction(ProxiedIdentity(connect, principal.role, proxy_role), proxy_role.connector, principal)


def _refusal(message: str) -> ClientError:
    return ClientError(message, pb.AuthenticationError)
