"""The identity of a client's connections to brokers: the client itself, or the gateway on behalf of a client.

A client with its own credentials authenticates itself: its CONNECT is passed on, and only it can answer a challenge. A
client that the gateway has authenticated by its certificate has no credentials for the broker. For it the gateway
connects in a role of the brokers' `proxyRoles`, and names the client's role as the original principal; brokers then
require the permission of both. Of the client's CONNECT only its version and features are used.

`original_auth_data` and `original_auth_method` stay empty: with ``tls``, a broker with `authenticateOriginalAuthData`
would take the certificate of *this* connection, the gateway's, for the client's. Without them it refuses all.

`proxy_version` makes a wrong target refuse: a broker accepts it from proxy roles only, and a Pulsar proxy, which would
put the gateway's role in the original principal's place, never.

Specification: `ProxyClientCnx.newConnectCommand` in Pulsar's proxy; `ServerCnx.handleConnect`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from proxy.net.broker.handshake import auth_response_frame
from proxy.net.broker.settings import TOKEN_METHOD
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.broker.settings import CredentialsProvider
    from proxy.net.ports import Connector

_T = pb.BaseCommand


class Identity(Protocol):
    """What one client's connections say to brokers of themselves."""

    def connect_frame(self, wish: str) -> bytes:
        """Give CONNECT for a new connection; `wish` is the broker that a proxy is to be told of, if there is one.

        Raises `ConfigurationError` if the credentials cannot be had.
        """

    def answer(self) -> bytes | None:
        """Give AUTH_RESPONSE to a challenge; None if only the client can. Raises as `connect_frame` does."""

    def renewed(self, response: pb.AuthData) -> bool:
        """Take note of what the client answered; whether the broker is to hear it."""


class OwnIdentity:
    """A client that speaks for itself."""

    def __init__(self, connect: pb.CommandConnect) -> None:
        """`connect` is what brokers get (see `handshake.upstream_connect`)."""
        self._connect = connect

    def connect_frame(self, wish: str) -> bytes:
        """The client's words, its wish aside, which is not its own any more."""
        connect = pb.CommandConnect()
        connect.CopyFrom(self._connect)
        if wish:
            connect.proxy_to_broker_url = wish
        return frames.encode_command(_T(type=_T.CONNECT, connect=connect))

    def answer(self) -> bytes | None:
        """Only the client has its credentials."""
        return None

    def renewed(self, response: pb.AuthData) -> bool:
        """Keep fresh credentials for the next connection where one message holds them whole."""
        if response.auth_method_name == self._connect.auth_method_name == TOKEN_METHOD:
            self._connect.auth_data = response.auth_data
        return True


@dataclass(frozen=True, slots=True)
class ProxyRole:
    """How the gateway connects on behalf of others."""

    credentials: CredentialsProvider
    """Of a role among the brokers' `proxyRoles`, none of which may consume in its own name."""

    connector: Connector
    """Opens its connections; shows its certificate, if it has one."""

    version: str
    """What the gateway calls itself, e.g. ``Keyline-v0.1.0``."""

    own_roles: frozenset[str] = frozenset()
    """Roles of the gateway's own, so far as it knows them: no client is taken for one."""


class ProxiedIdentity:
    """The gateway on behalf of a client that it has authenticated."""

    def __init__(self, connect: pb.CommandConnect, principal: str, proxy_role: ProxyRole) -> None:
        """`connect` is the client's; `principal` its role."""
        self._connect = connect
        self._principal = principal
        self._proxy_role = proxy_role

    def connect_frame(self, wish: str) -> bytes:
        """With today's credentials of the gateway."""
        assert not wish, "a proxy would take the gateway's role for the client's"
        credentials = self._proxy_role.credentials()
        assert credentials is not None, "a proxy role without credentials"
        connect = pb.CommandConnect(
            client_version=self._connect.client_version,
            protocol_version=self._connect.protocol_version,
            auth_method_name=credentials.method,
            auth_data=credentials.data,
            original_principal=self._principal,
            proxy_version=self._proxy_role.version,
            feature_flags=self._connect.feature_flags,
        )
        connect.feature_flags.supports_auth_refresh = True  # regardless of the client: the gateway answers challenges
        return frames.encode_command(_T(type=_T.CONNECT, connect=connect))

    def answer(self) -> bytes | None:
        """With today's credentials of the gateway."""
        return auth_response_frame(self._proxy_role.version, self._proxy_role.credentials())

    def renewed(self, response: pb.AuthData) -> bool:  # noqa: ARG002 - as the protocol has it
        """Nothing that a client says stands for the gateway's credentials."""
        return False
