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
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from admin_api.access.roles import Role
from proxy.errors import ConfigurationError, KeylineError

SECRET: Final = ("HS256", "HS384", "HS512")
PUBLIC: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
EVERYBODY: Final = "*"
COOKIE: Final = "keyline_token"
"""In which a browser keeps the token of who has logged in."""
CALLER: Final = "keyline.caller"
"""Who asks, in the scope of a request, for routes that want to know."""
_OF_CURVE: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
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
        """Who has this token. Raises `NotAuthenticated`, whatever the token or its key make of the libraries."""
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
        except Exception as error:  # a stranger writes what is read here: nothing of it may become a fault of ours
            raise NotAuthenticated(f"the token is not valid: it cannot be read ({type(error).__name__})") from error
        name = claims[self._claim]
        if not isinstance(name, str) or not name:
            raise NotAuthenticated(f"the token is not valid: its claim {self._claim} is no name")
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
        raise ConfigurationError(f"{path}: {len(secret)} bytes are no secret; it should be {SECRET_BYTES_MIN} or more")
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
