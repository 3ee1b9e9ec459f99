"""Tokens: what is signed is believed, and says who asks.

The same JSON web tokens as Pulsar's clients have, and the same keys: a secret, a public key, or the keys that an
identity provider publishes (OIDC). A kind of key settles which algorithms are taken, whatever a token says of itself:
a public key must never be taken for a secret.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization

from admin_api.access.roles import Role
from proxy.errors import ConfigurationError, KeylineError

SECRET: Final = ("HS256", "HS384", "HS512")
PUBLIC: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
EVERYBODY: Final = "*"
COOKIE: Final = "keyline_token"
"""In which a browser keeps the token of who has logged in."""
CALLER: Final = "keyline.caller"
"""Who asks, in the scope of a request, for routes that want to know."""
LEEWAY_S: Final = 10
"""By so much clocks may differ."""
SECRET_BYTES_MIN: Final = 32

Key = Callable[[str], Awaitable[Any]]
"""Gives the key that a token says it was signed with."""


class NotAuthenticated(KeylineError):
    """Nobody knows who asks; the message says what is wrong with the token."""

    http_status = 401


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    name: str
    role: Role | None
    """The highest it has; None if it has none here."""
    expires_at_s: float | None
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Who has which role, by name."""

    viewers: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    admins: frozenset[str] = frozenset()

    def of(self, name: str) -> Role | None:
        """The highest."""
        for role, names in ((Role.ADMIN, self.admins), (Role.OPERATOR, self.operators), (Role.VIEWER, self.viewers)):
            if name in names or EVERYBODY in names:
                return role
        return None


class Tokens:
    """Reads tokens."""

    def __init__(
        self,
        key: Key,
        algorithms: tuple[str, ...],
        roles: Roles,
        *,
        claim: str = "sub",
        audience: str | None = None,
        issuer: str | None = None,
    ) -> None:
        """`claim` says who it is; with `audience` and `issuer` a token has to name these."""
        self._key = key
        self._algorithms = list(algorithms)
        self._roles = roles
        self._claim = claim
        self._audience = audience
        self._issuer = issuer

    async def caller(self, token: str) -> Caller:
        """Who has this token. Raises `NotAuthenticated`."""
        try:
            claims = jwt.decode(
                token,
                await self._key(token),
                algorithms=self._algorithms,
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"verify_aud": self._audience is not None, "require": [self._claim]},
            )
        except (jwt.PyJWTError, ValueError) as error:
            raise NotAuthenticated(f"the token is not valid: {error}") from error
        name = claims[self._claim]
        if not isinstance(name, str) or not name:
            raise NotAuthenticated(f"the token is not valid: its claim {self._claim} is no name")
        return Caller(name, self._roles.of(name), claims.get("exp"))


def secret_key(path: Path) -> Key:
    """The file's bytes, as Pulsar's `tokenSecretKey`. Raises `ConfigurationError`."""
    secret = _read(path)
    if len(secret) < SECRET_BYTES_MIN:
        raise ConfigurationError(f"{path}: {len(secret)} bytes are no secret; it should be {SECRET_BYTES_MIN} or more")
    return _always(secret)


def public_key(path: Path) -> Key:
    """A key in PEM or DER, as Pulsar's `tokenPublicKey`. Raises `ConfigurationError`."""
    content = _read(path)
    load = serialization.load_pem_public_key if content.startswith(b"-----") else serialization.load_der_public_key
    try:
        return _always(load(content))
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{path}: no public key can be read from it: {error}") from error


def _always(key: Any) -> Key:
    async def same(_token: str) -> Any:
        return key

    return same


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
