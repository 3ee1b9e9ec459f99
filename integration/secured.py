"""A broker with authentication: tokens for its clients, and permissions of its namespaces.

Everything is as Pulsar's own `conf/standalone.conf` has it for token authentication with a symmetric key.
"""

from __future__ import annotations

import base64
import secrets
import time
from typing import TYPE_CHECKING, Final

import jwt

from integration import artifacts
from integration.standalone import PulsarStandalone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SUPERUSER: Final = "admin"
KEY_BYTES: Final = 32
REFRESH_CHECK_S: Final = 2
"""How often the broker looks whose token has expired; a minute by default."""


def token_settings(key: bytes) -> dict[str, str]:
    """Lines of a broker's configuration, with which it lets in who has a token that this key signed."""
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "authenticationRefreshCheckSeconds": str(REFRESH_CHECK_S),
        "tokenSecretKey": f"data:;base64,{base64.b64encode(key).decode()}",
        "superUserRoles": SUPERUSER,
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{signed_token(key, SUPERUSER)}",
    }


def signed_token(key: bytes, role: str, lifetime_s: float | None = None) -> str:
    """A JSON web token for a role, which may expire."""
    claims: dict[str, object] = {"sub": role}
    if lifetime_s is not None:
        claims["exp"] = int(time.time() + lifetime_s)
    return jwt.encode(claims, key, algorithm="HS256")


class SecuredPulsar(PulsarStandalone):
    """One standalone broker with authentication and authorization."""

    def __init__(
        self,
        version: str = artifacts.DEFAULT_VERSION,
        *,
        settings: Mapping[str, str] | None = None,
        transactions: bool = False,
    ) -> None:
        """Describe it, with a new key; nothing is started yet."""
        self._key = secrets.token_bytes(KEY_BYTES)
        secured = token_settings(self._key) | dict(settings or {})
        super().__init__(version, settings=secured, transactions=transactions, token=self.token(SUPERUSER))

    def token(self, role: str, lifetime_s: float | None = None) -> str:
        """A JSON web token for a role, which may expire."""
        return signed_token(self._key, role, lifetime_s)

    def grant(self, namespace: str, role: str, actions: Iterable[str] = ("produce", "consume")) -> None:
        """Let a role do this in a namespace."""
        with self.admin() as http:
            http.post(f"/admin/v2/namespaces/{namespace}/permissions/{role}", json=list(actions)).raise_for_status()

    def revoke(self, namespace: str, role: str) -> None:
        """Take back everything it was granted there."""
        with self.admin() as http:
            http.delete(f"/admin/v2/namespaces/{namespace}/permissions/{role}").raise_for_status()

    def create_namespace(self, namespace: str) -> None:
        """In a tenant that is there."""
        with self.admin() as http:
            http.put(f"/admin/v2/namespaces/{namespace}").raise_for_status()
