"""Tokens: a valid signature identifies the caller.

The same JSON web tokens as Pulsar's clients use, and the same keys: a secret, a public key, or the keys that an
identity provider publishes (OIDC). The kind of key determines the accepted algorithms, independent of the token's
header: a public key must never be used as a secret.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from admin_api.access.roles import Role
from proxy.errors import ConfigurationError, KeylineError

SECRET: Final = ("HS256", "HS384", "HS512")
PUBLIC: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
EVERYBODY: Final = "*"
COOKIE: Final = "keyline_token"
"""Cookie with the token of a logged-in user."""
CALLER: Final = "keyline.caller"
"""Key of the caller in the scope of a request."""
_OF_CURVE: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
LEEWAY_S: Final = 10
"""Tolerated difference of clocks."""
SECRET_BYTES_MIN: Final = 32

Key = Callable[[str], Awaitable[Any]]
"""Gives the key that a token says it was signed with."""


class NotAuthenticated(KeylineError):
    """The caller is not authenticated; the message names the error in the token."""

    http_status = 401


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    name: str
    role: Role | None
    """The highest it has; None if it has none here."""
    expires_at_s: float | None
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Roles by caller names."""

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
        """`claim` names the caller; with `audience` and `issuer` a token must name these."""
        self._key = key
        self._algorithms = list(algorithms)
        self._roles = roles
        self._claim = claim
        self._audience = audience
        self._issuer = issuer
        self.version = 0
        """Counts `become`."""

    def become(self, other: Tokens) -> None:
        """Accept what `other` accepts, from the next request on."""
        self._key, self._algorithms, self._roles = other._key, other._algorithms, other._roles
        self._claim, self._audience, self._issuer = other._claim, other._audience, other._issuer
        self.version += 1

    async def caller(self, token: str) -> Caller:
        """The caller with this token. Raises `NotAuthenticated` for every error of the token or its key."""
        try:
            key = await self._key(token)
            claims = jwt.decode(
                token,
                key,
                algorithms=[name for name in self._algorithms if _fits(key, name)],
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"verify_aud": self._audience is not None, "require": [self._claim]},
            )
            expires_at_s = None if claims.get("exp") is None else float(claims["exp"])
        except jwt.PyJWTError as error:
            raise NotAuthenticated(f"the token is not valid: {error}") from error
        except Exception as error:  # untrusted input: no error in it may become an internal error
            raise NotAuthenticated(f"the token is not valid: it cannot be read ({type(error).__name__})") from error
        name = claims[self._claim]
        if not isinstance(name, str) or not name:
            raise NotAuthenticated(f"the token is not valid: its claim {self._claim} is not a name")
        return Caller(name, self._roles.of(name), expires_at_s)


def _fits(key: Any, algorithm: str) -> bool:
    """Whether an algorithm is one of this kind of key (RFC 7518, section 3.1; RFC 8037)."""
    match key:
        case bytes():
            return algorithm in SECRET
        case rsa.RSAPublicKey():
            return algorithm[:2] in {"RS", "PS"}
        case ec.EllipticCurvePublicKey():
            return algorithm == _OF_CURVE.get(key.curve.name)
        case ed25519.Ed25519PublicKey() | ed448.Ed448PublicKey():
            return algorithm == "EdDSA"
        case _:
            return False


def secret_key(path: Path) -> Key:
    """The file's bytes, as Pulsar's `tokenSecretKey`. Raises `ConfigurationError`."""
    secret = _read(path)
    if len(secret) < SECRET_BYTES_MIN:
        raise ConfigurationError(
            f"{path}: {len(secret)} bytes are too short for a secret; use {SECRET_BYTES_MIN} or more"
        )
    return _always(secret)


def public_key(path: Path) -> Key:
    """A key in PEM or DER, as Pulsar's `tokenPublicKey`. Raises `ConfigurationError`."""
    content = _read(path)
    load = serialization.load_pem_public_key if content.startswith(b"-----") else serialization.load_der_public_key
    try:
        key = load(content)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"{path}: no public key can be read from it: {error}") from error
    if not any(_fits(key, algorithm) for algorithm in PUBLIC):
        raise ConfigurationError(f"{path}: no token is signed with such a key; RSA, P-256, P-384, P-521 or Ed25519 is")
    return _always(key)


def _always(key: Any) -> Key:
    async def same(_token: str) -> Any:
        return key

    return same


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
