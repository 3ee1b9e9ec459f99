"""Tokens of every kind before keys of every kind: what fits is let in, everything else is a refusal, never a fault."""

from __future__ import annotations

import ast
import asyncio
import base64
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa

import admin_api
from admin_api.access.published_keys import PublishedKeys
from admin_api.access.tokens import PUBLIC, SECRET, Key, NotAuthenticated, Roles, Tokens, public_key, secret_key
from proxy.errors import ConfigurationError
from tests.admin_api.rig import AdminRig

ROLES = Roles(admins=frozenset({"ada"}))
RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
PRIVATE: Final[dict[str, Any]] = {
    "secret": b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "rsa": RSA,
    "p-256": ec.generate_private_key(ec.SECP256R1()),
    "p-384": ec.generate_private_key(ec.SECP384R1()),
    "p-521": ec.generate_private_key(ec.SECP521R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
    "ed448": ed448.Ed448PrivateKey.generate(),
}
FITTING: Final[dict[str, set[str]]] = {
    "secret": set(SECRET),
    "rsa": {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"},
    "p-256": {"ES256"},
    "p-384": {"ES384"},
    "p-521": {"ES512"},
    "ed25519": {"EdDSA"},
    "ed448": {"EdDSA"},
}
NAMES = (*SECRET, *PUBLIC, "ES256K", "none", "None", "HS1", "RSA-OAEP", "hs256", "", "x" * 1_000)


def encoded(content: bytes) -> str:
    """As tokens are written."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def unsigned(header: Any, claims: Any = None) -> str:
    """All of a token but its signature."""
    return f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims or {'sub': 'ada'}).encode())}"


def tokens_of(algorithm: str, private: Any) -> Iterator[str]:
    """Tokens that say this algorithm of themselves, signed as far as anybody without the key could sign them."""
    head = unsigned({"alg": algorithm, "typ": "JWT", "kid": "k1"})
    for signature in (b"", b"\0" * 64, b"x" * 256, b"\xff" * 132):
        yield f"{head}.{encoded(signature)}"
    if not isinstance(private, bytes):  # who takes the public key for a secret
        yield f"{head}.{encoded(hmac.digest(public_bytes(private), head.encode(), 'sha256'))}"


def public_bytes(private: Any, encoding: serialization.Encoding = serialization.Encoding.PEM) -> bytes:
    """Its public half."""
    made: bytes = private.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    return made


def refused(tokens: Tokens, token: str) -> str:
    """Why; the test fails if it is let in, or if anything else is raised."""
    with pytest.raises(NotAuthenticated) as error:
        asyncio.run(tokens.caller(token))
    return str(error.value)


@contextmanager
def provider(body: bytes, status: int = 200, length: int | None = None) -> Iterator[str]:
    """An identity provider that answers this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body) if length is None else length))
            self.send_header("location", "/again")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/jwks"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def published(private: Any) -> bytes:
    """As an identity provider does it."""
    kind = jwt.algorithms.get_default_algorithms()
    name = next(name for name in ("RS256", "ES256", "EdDSA", "HS256") if _makes(kind[name], private))
    key = private if isinstance(private, bytes) else private.public_key()
    return json.dumps({"keys": [dict(kind[name].to_jwk(key, as_dict=True)) | {"kid": "k1"}]}).encode()


def _makes(algorithm: Any, private: Any) -> bool:
    try:
        algorithm.to_jwk(private if isinstance(private, bytes) else private.public_key())
    except Exception:  # noqa: BLE001 - each refuses the keys of others in its own way
        return False
    return not isinstance(private, bytes) or isinstance(algorithm, jwt.algorithms.HMACAlgorithm)


def check(kind: str, key: Key, algorithms: tuple[str, ...], fitting: set[str]) -> None:
    """Let every algorithm come before this key."""
    private = PRIVATE[kind]
    tokens = Tokens(key, algorithms, ROLES)
    for name in NAMES:
        for forged in tokens_of(name, private):
            refused(tokens, forged)
        if name in fitting:
            good = jwt.encode({"sub": "ada"}, private, algorithm=name, headers={"kid": "k1"})
            assert asyncio.run(tokens.caller(good)).name == "ada"
            refused(tokens, good[:-4])
    for other, theirs in PRIVATE.items():
        for name in FITTING[other]:
            if other != kind:
                refused(tokens, jwt.encode({"sub": "ada"}, theirs, algorithm=name, headers={"kid": "k1"}))


@pytest.mark.parametrize("kind", PRIVATE)
def test_every_algorithm_before_a_key_of_a_file(tmp_path: Path, kind: str) -> None:
    """Only those of its kind, signed with it, are let in."""
    path = tmp_path / "key"
    private = PRIVATE[kind]
    path.write_bytes(private if isinstance(private, bytes) else public_bytes(private))
    key = secret_key(path) if kind == "secret" else public_key(path)
    check(kind, key, SECRET if kind == "secret" else PUBLIC, FITTING[kind])


@pytest.mark.parametrize("kind", PRIVATE)
def test_every_algorithm_before_a_published_key(kind: str) -> None:
    """The same; but a secret that somebody publishes is none, and PyJWT reads no published Ed448 keys."""
    with provider(published(PRIVATE[kind])) as url:
        check(kind, PublishedKeys(url), PUBLIC, FITTING[kind] if kind not in {"secret", "ed448"} else set())


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA", "HS256", "none"])
def test_a_token_that_does_not_fit_the_key_is_401(tmp_path: Path, algorithm: str) -> None:
    """Over HTTP, with a detail and no fault."""
    path = tmp_path / "key"
    path.write_bytes(public_bytes(RSA))
    rig = AdminRig(tokens=Tokens(public_key(path), PUBLIC, ROLES))
    token = f"{unsigned({'alg': algorithm, 'typ': 'JWT'})}.{encoded(b'x' * 64)}"
    answer = rig.ask("GET", "/api/v1/me", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 401
    assert "token is not valid" in answer.json()["detail"]


@pytest.mark.parametrize(
    "token",
    [
        encoded(b"[" * 30_000) + ".e30.e30",
        encoded(b'{"alg":"HS256","kid":["k1"]}') + ".e30.e30",
        encoded(b'{"alg":["HS256"]}') + ".e30.e30",
        encoded(b'{"alg":"HS256","crit":["b64"],"b64":false}') + ".e30.e30",
        encoded(b"null") + ".e30.e30",
        encoded(b"\xff\xfe") + ".e30.e30",
        "\u00e9.\u00e9.\u00e9",
        "..",
        ".",
        "\x00",
        "a.b.c.d.e",
    ],
)
def test_a_token_that_is_none_is_refused(tmp_path: Path, token: str) -> None:
    """Nested without end, of other types than should be, of other characters."""
    path = tmp_path / "key"
    path.write_bytes(PRIVATE["secret"])
    refused(Tokens(secret_key(path), SECRET, ROLES), token)
    with provider(published(RSA)) as url:
        refused(Tokens(PublishedKeys(url), PUBLIC, ROLES), token)


@pytest.mark.parametrize(
    "claims", [{"exp": "soon"}, {"exp": 1e400}, {"exp": []}, {"nbf": {}}, {"iat": "x"}, {"sub": 1}]
)
def test_claims_that_are_none_are_refused(tmp_path: Path, claims: dict[str, Any]) -> None:
    """Though the signature is right: whoever signs for us makes mistakes too."""
    path = tmp_path / "key"
    path.write_bytes(PRIVATE["secret"])
    head = unsigned({"alg": "HS256", "typ": "JWT"}, {"sub": "ada"} | claims)
    signature = hmac.digest(PRIVATE["secret"], head.encode(), "sha256")
    refused(Tokens(secret_key(path), SECRET, ROLES), f"{head}.{encoded(signature)}")


@pytest.mark.parametrize(
    ("body", "status", "length"),
    [
        (b"", 500, None),
        (b"", 200, None),
        (b'{"keys": [', 200, None),
        (b'{"keys": []}', 200, 1_000),
        (b"[]", 200, None),
        (b"null", 200, None),
        (b'{"keys": 1}', 200, None),
        (b'{"keys": [1]}', 200, None),
        (b'{"keys": [{}]}', 200, None),
        (b'{"keys": [{"kty": "RSA", "n": 1, "e": []}]}', 200, None),
        (b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}', 200, None),
        (b"\xff\xfe\x00", 200, None),
        (b"[" * 100_000, 200, None),
        (b"", 302, None),
    ],
)
def test_whatever_the_identity_provider_answers_is_a_refusal_at_worst(
    body: bytes, status: int, length: int | None
) -> None:
    """An error, half of an answer, no JSON, no keys, keys that are none."""
    token = jwt.encode({"sub": "ada"}, RSA, algorithm="RS256", headers={"kid": "k1"})
    with provider(body, status, length) as url:
        refused(Tokens(PublishedKeys(url), PUBLIC, ROLES), token)


def test_a_key_that_signs_no_token_is_an_error_at_the_start(tmp_path: Path) -> None:
    """DSA, or a curve that no algorithm has: every token would be refused, and nobody would know why."""
    others: tuple[Any, ...] = (dsa.generate_private_key(2_048), ec.generate_private_key(ec.SECP256K1()))
    for private in others:
        path = tmp_path / "key"
        path.write_bytes(public_bytes(private))
        with pytest.raises(ConfigurationError, match="no token is signed with such a key"):
            public_key(path)


# ---- how long a look takes tells nothing


def test_a_secrets_signature_is_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hmac.compare_digest` alone decides: were it to say yes, a forged token would be let in."""
    path = tmp_path / "key"
    path.write_bytes(PRIVATE["secret"])
    tokens = Tokens(secret_key(path), SECRET, ROLES)
    forged = f"{unsigned({'alg': 'HS256', 'typ': 'JWT'})}.{encoded(b'x' * 32)}"
    refused(tokens, forged)
    compared: list[tuple[bytes, bytes]] = []

    def compare(mine: bytes, theirs: bytes) -> bool:
        compared.append((mine, theirs))
        return True

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert asyncio.run(tokens.caller(forged)).name == "ada"
    assert b"x" * 32 in compared[0]


def test_no_secret_is_compared_by_our_own_hands() -> None:
    """No `==` of a token, a secret, a signature or a password is anywhere in the admin API."""
    secrets = {"token", "secret", "password", "signature", "digest", "credentials"}
    places = []
    for path in Path(admin_api.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
                sides = (node.left, *node.comparators)
                named = {inner.id for side in sides for inner in ast.walk(side) if isinstance(inner, ast.Name)}
                named |= {inner.attr for side in sides for inner in ast.walk(side) if isinstance(inner, ast.Attribute)}
                if secrets & {name.lower() for name in named}:
                    places.append(f"{path.name}:{node.lineno}")
    assert places == []
