"""A client's credentials on its connections to owners, and the question for fresh ones.

Problem: a broker that a client is connected to asks for a fresh token when the one before has expired, but only at its
next look (`authenticationRefreshCheckSeconds`, a minute). A leg is a new connection in the client's name. One that is
opened within that minute would be refused for a token that the client's own connection is still served with, and a
client takes that refusal for its last word.

Rule: the replica at the client's side then asks for fresh credentials, as a broker would, and what waits for an owner
waits for the answer. It asks once until an owner lets the client in: an answer that is refused, too, is told. Only
tokens can be asked for so: other methods need more than one message, or end with the connection.

Specification: PIP-55 (refresh of credentials by AUTH_CHALLENGE on a connection that stands).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.broker.settings import TOKEN_METHOD
from proxy.net.handshake import upstream_connect
from proxy.net.relay.identity import OwnIdentity
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

REFRESH: Final = b"PulsarAuthRefresh"
"""What brokers say in the challenge for credentials that have expired (`AuthData.REFRESH_AUTH_DATA`)."""


class FreshCredentials:
    """Of one client."""

    def __init__(self, connect: pb.CommandConnect, send: Callable[[bytes], None]) -> None:
        """`connect` is the client's CONNECT, and `send` reaches it."""
        self.identity = OwnIdentity(upstream_connect(connect))
        """What legs say of themselves: with the latest credentials."""
        self.version = 0
        """Of the credentials; higher with each change."""
        self.refusal: pb.CommandError | None = None
        """While the client is asked: why."""
        self._send = send
        self._data = connect.auth_data
        self._may_ask = connect.auth_method_name == TOKEN_METHOD and connect.feature_flags.supports_auth_refresh
        self._asked = False
        self._protocol_version = connect.protocol_version

    def refused(self, version: int, refusal: pb.CommandError) -> bool:
        """An owner refused a leg with credentials of this version; whether it is worth to try others.

        These are there already, or the client is asked for them.
        """
        if refusal.error != pb.AuthenticationError:
            return False
        if version != self.version or self.refusal is not None:
            return True
        if self._asked or not self._may_ask:
            return False
        self._asked = True
        self.refusal = refusal
        challenge = pb.CommandAuthChallenge(protocol_version=self._protocol_version)
        challenge.challenge.auth_method_name = TOKEN_METHOD
        challenge.challenge.auth_data = REFRESH
        self._send(frames.encode_command(pb.BaseCommand(type=pb.BaseCommand.AUTH_CHALLENGE, authChallenge=challenge)))
        return True

    def answered(self, response: pb.AuthData) -> bool:
        """The client gives credentials; whether they are the answer to the question here."""
        self.identity.renewed(response)
        if response.auth_data != self._data:
            self._data = response.auth_data
            self.version += 1
        awaited, self.refusal = self.refusal is not None, None
        if not awaited:
            self._asked = False
        return awaited

    def accepted(self) -> None:
        """An owner has let the client in: it may be asked again."""
        self._asked = False
