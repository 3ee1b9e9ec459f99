"""Who may ask the admin API what: row by row, by token and by cookie, and what a token must be like."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from fastapi import APIRouter
from fastapi.routing import APIWebSocketRoute, iter_route_contexts

from admin_api.access.guard import GuardedRoute
from admin_api.access.published_keys import ASKED_AGAIN_S, KEPT_S, PublishedKeys
from admin_api.access.roles import declared
from admin_api.access.tokens import PUBLIC, SECRET, Roles, Tokens, public_key, secret_key
from admin_api.pulsar.proxying import BrokerAdmin
from proxy.errors import ConfigurationError, NotFound
from tests.admin_api.rig import SUBSCRIPTION, AdminRig

KEY = b"0123456789abcdef0123456789abcdef"
ROLES = Roles(viewers=frozenset({"vera"}), operators=frozenset({"otto"}), admins=frozenset({"ada"}))
NOBODY, STRANGER, VIEWER, OPERATOR, ADMIN = None, "stranger", "vera", "otto", "ada"
RANKS = (NOBODY, STRANGER, VIEWER, OPERATOR, ADMIN)


def token(name: str | None = "ada", key: Any = KEY, algorithm: str = "HS256", **claims: Any) -> str:
    """What an operator's tool makes; claims may name somebody else, or nobody."""
    return jwt.encode(({} if name is None else {"sub": name}) | claims, key, algorithm=algorithm)


def bearer(name: str | None, **claims: Any) -> dict[str, str]:
    """A request's header."""
    return {} if name is None else {"authorization": f"Bearer {token(name, **claims)}"}


def cookie(value: str) -> dict[str, str]:
    """A browser's header."""
    return {"cookie": f"keyline_token={value}"}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """As a file."""
    path = tmp_path / "secret.key"
    path.write_bytes(KEY)
    return path


class NoMetrics:
    """In place of the gateway's numbers: who gets as far as asking for them hears that there are none."""

    def __getattr__(self, _: str) -> Any:
        """Whatever of them is asked for."""
        raise NotFound("no numbers here")


def guarded(secret: Path, **options: Any) -> AdminRig:
    """A gateway that wants to know."""
    broker = BrokerAdmin(
        "http://broker:8080",
        timeout_s=5,
        transport=httpx.MockTransport(lambda _: httpx.Response(200, stream=httpx.ByteStream(b"[]"))),
    )
    everything = {"metrics": NoMetrics(), "broker": broker, "broker_writes": True}
    rig = AdminRig(tokens=Tokens(secret_key(secret), SECRET, ROLES), app_options=everything, **options)
    rig.worker("a", permits=9)
    return rig


class Row(NamedTuple):
    """A request and the least who may."""

    method: str
    path: str
    least: str | None
    body: Any = None


WORKER = f"{SUBSCRIPTION}/workers/a"
TABLE = [
    Row("GET", "/livez", NOBODY),
    Row("GET", "/readyz", NOBODY),
    Row("GET", "/metrics", NOBODY),
    Row("GET", "/console/console.css", NOBODY),
    Row("GET", "/api/v1/me", VIEWER),
    Row("GET", "/openapi.json", VIEWER),
    Row("GET", "/api/v1/subscriptions", VIEWER),
    Row("GET", SUBSCRIPTION, VIEWER),
    Row("GET", f"{SUBSCRIPTION}/limits", VIEWER),
    Row("GET", f"{SUBSCRIPTION}/stuck", VIEWER),
    Row("GET", f"{SUBSCRIPTION}/hot-keys", VIEWER),
    Row("GET", "/api/v1/configuration", VIEWER),
    Row("GET", "/api/v1/exclusive-producers", VIEWER),
    Row("GET", "/api/v1/groups", VIEWER),
    Row("GET", "/admin/v2/clusters", VIEWER),
    Row("GET", "/lookup/v2/topic/persistent/public/default/x", VIEWER),
    Row("GET", "/admin/v2/brokers/backlog-quota-check", ADMIN),
    Row("GET", "/admin/v2/persistent/public/default/x/partitions?checkAllowAutoCreation=true", ADMIN),
    Row("GET", "/admin/v2/persistent/public/default/x/partitions?checkAllowAutoCreation=false", VIEWER),
    Row("GET", "/no/such/path", VIEWER),
    Row("POST", f"{SUBSCRIPTION}/preview/join", VIEWER, {"worker": "b"}),
    Row("POST", f"{SUBSCRIPTION}/pause", OPERATOR),
    Row("POST", f"{SUBSCRIPTION}/resume", OPERATOR),
    Row("POST", f"{WORKER}/drain", OPERATOR),
    Row("DELETE", f"{WORKER}/drain", OPERATOR),
    Row("POST", f"{WORKER}/exclude", OPERATOR),
    Row("DELETE", f"{WORKER}/exclude", OPERATOR),
    Row("POST", f"{WORKER}/evict", OPERATOR),
    Row("POST", f"{SUBSCRIPTION}/parked/redrive?slot=7", OPERATOR),
    Row("PUT", f"{SUBSCRIPTION}/owner", OPERATOR, {"replica": None}),
    Row("POST", "/api/v1/deployment/replicas/here/drain", OPERATOR),
    Row("DELETE", "/api/v1/deployment/replicas/here/drain", OPERATOR),
    Row("GET", "/api/v1/group-topics", OPERATOR),
    Row("DELETE", "/api/v1/group-topics/{topic}", ADMIN),
    Row("POST", "/api/v1/configuration/reload", ADMIN),
    Row("POST", "/api/v1/whatever/comes", VIEWER),
    Row("TRACE", "/api/v1/subscriptions", VIEWER),
    Row("POST", f"{SUBSCRIPTION}/parked/drop?slot=7", ADMIN),
    Row("POST", f"{SUBSCRIPTION}/parked/drop-incomplete?slot=7", ADMIN),
    Row("PUT", f"{SUBSCRIPTION}/ordering-mode", ADMIN, {"ordering_mode": "draining_hashes"}),
    Row("PUT", f"{SUBSCRIPTION}/limits", ADMIN, {"look_ahead_messages_per_worker": 10}),
    Row("PATCH", f"{SUBSCRIPTION}/limits", ADMIN, {"look_ahead_messages_per_worker": 10}),
    Row("POST", SUBSCRIPTION.replace("/subscriptions/", "/groups/") + "/replay", ADMIN, {"from": "earliest"}),
    Row("PUT", "/admin/v2/persistent/public/default/x", ADMIN),
    Row("POST", "/admin/v2/persistent/public/default/x", ADMIN),
    Row("DELETE", "/admin/v2/persistent/public/default/x", ADMIN),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.method} {row.path.removeprefix(SUBSCRIPTION)}")
@pytest.mark.parametrize("name", RANKS)
def test_who_may_do_what(secret: Path, row: Row, name: str | None) -> None:
    """Who may gets an answer of the route; who may not hears why, by name."""
    rig = guarded(secret)
    answer = rig.ask(row.method, row.path, headers=bearer(name), json=row.body)
    if RANKS.index(name) >= RANKS.index(row.least):
        assert answer.status_code not in {401, 403}, answer.text
    elif name is NOBODY:
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "Authorization: Bearer" in answer.json()["detail"]
    else:
        assert answer.status_code == 403
        assert answer.json()["detail"].startswith(f"{name} has ")


def test_every_route_that_changes_something_is_in_the_table(secret: Path) -> None:
    """A new order is given a role here first."""
    rows = {(row.method, row.path.partition("?")[0].rpartition("/")[2]) for row in TABLE}
    for path, verbs in rig_document(secret).items():
        for verb in verbs:
            if verb not in {"get", "head"}:
                assert (verb.upper(), path.rpartition("/")[2]) in rows, f"{verb} {path}"


def rig_document(secret: Path) -> dict[str, dict[str, Any]]:
    """The API's paths."""
    document = guarded(secret).ask("GET", "/openapi.json", headers=bearer(ADMIN)).json()
    paths: dict[str, dict[str, Any]] = document["paths"]
    return paths


def test_no_route_is_without_a_declared_role(secret: Path) -> None:
    """Each is entered through the guard, WebSockets aside, whose declared need is nobody's."""
    routes = list(iter_route_contexts(guarded(secret).app.routes))
    assert len(routes) > len(TABLE) / 2
    for route in routes:
        if isinstance(route.original_route, APIWebSocketRoute):
            assert declared(route.endpoint).of({}) is None
        else:
            assert isinstance(route.original_route, GuardedRoute), route.path


def test_a_route_that_declares_no_role_cannot_be_made() -> None:
    """The mistake is found when the gateway is built, not by who finds the hole."""

    async def undeclared() -> None:
        """Says nothing of a role."""

    with pytest.raises(LookupError, match=r"undeclared.*must declare"):
        APIRouter(route_class=GuardedRoute).get("/x")(undeclared)


def test_where_nobody_is_asked_all_is_open() -> None:
    """As before there were tokens."""
    rig = AdminRig()
    assert rig.ask("GET", "/api/v1/subscriptions").status_code == 200
    assert rig.ask("GET", "/api/v1/me").json() == {"name": None, "role": None, "login": False}
    assert rig.ask("POST", "/login", data={"token": "x"}).status_code == 404


def test_metrics_can_be_closed(secret: Path) -> None:
    """Scrapers bring a token then."""
    rig = guarded(secret, metrics_open=False)
    assert rig.ask("GET", "/metrics").status_code == 401
    assert rig.ask("GET", "/metrics", headers=bearer(VIEWER)).status_code != 401


# ---- tokens


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (token(key=b"another key, as long as it should be"), "Signature verification failed"),
        (token(exp=int(time.time()) - 60), "Signature has expired"),
        (token(nbf=int(time.time()) + 86_400), "not yet valid"),
        (token(None), "sub"),
        (token(""), "not a name"),
        (token(algorithm="HS256").rpartition(".")[0] + ".", "Signature verification failed"),
        (jwt.encode({"sub": "ada"}, "", algorithm="none"), "alg"),
        ("no.token.atall", "Invalid"),
        ("", "authentication required"),
        ("x" * 10_000, "Not enough segments"),
    ],
    ids=lambda value: value if " " in value else "",
)
def test_a_bad_token_is_nobodys(secret: Path, bad: str, said: str) -> None:
    """And it is said what is wrong with it."""
    answer = guarded(secret).ask("GET", "/api/v1/subscriptions", headers=cookie(bad))
    assert answer.status_code == 401
    assert said in answer.json()["detail"]


def test_other_ways_to_authenticate_are_none(secret: Path) -> None:
    """It says which is."""
    answer = guarded(secret).ask("GET", "/api/v1/subscriptions", headers={"authorization": "Basic YWRhOmFkYQ=="})
    assert (answer.status_code, answer.json()["detail"][:29]) == (401, "authentication is by a token:")


def public_pem(private: Any) -> bytes:
    """Its public half."""
    made: bytes = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return made


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_tokens_by_a_key_pair(tmp_path: Path, algorithm: str) -> None:
    """In PEM or DER; and who takes the public key for a secret gets nowhere."""
    private: Any = ec.generate_private_key(ec.SECP256R1())
    if algorithm == "RS256":
        private = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = public_pem(private)
    der = b"".join(pem.split(b"\n")[1:-2])
    for name, content in (("pem", pem), ("der", base64.b64decode(der))):
        path = tmp_path / name
        path.write_bytes(content)
        rig = AdminRig(tokens=Tokens(public_key(path), PUBLIC, ROLES))
        good = {"authorization": f"Bearer {token(key=private, algorithm=algorithm)}"}
        assert rig.ask("GET", "/api/v1/me", headers=good).json()["name"] == "ada"
    header = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode()).rstrip(b"=")
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "ada"}).encode()).rstrip(b"=")
    signature = base64.urlsafe_b64encode(hmac.digest(pem, header + b"." + claims, "sha256"))
    forged = b".".join((header, claims, signature.rstrip(b"="))).decode()
    public = AdminRig(tokens=Tokens(public_key(tmp_path / "pem"), PUBLIC, ROLES))
    assert public.ask("GET", "/api/v1/me", headers={"authorization": f"Bearer {forged}"}).status_code == 401


@pytest.mark.parametrize(("read", "content"), [(secret_key, b"short"), (public_key, b"no key"), (secret_key, None)])
def test_a_key_that_is_none_is_an_error_at_the_start(tmp_path: Path, read: Any, content: bytes | None) -> None:
    """It names the file."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=str(path)):
        read(path)


def test_audience_and_issuer_are_looked_at(secret: Path) -> None:
    """Where they are set; and another claim may say who it is."""
    tokens = Tokens(secret_key(secret), SECRET, ROLES, claim="email", audience="keyline", issuer="idp")
    rig = AdminRig(tokens=tokens)
    right = {"email": "ada", "aud": ["keyline", "other"], "iss": "idp"}
    for claims, status in (
        (right, 200),
        (right | {"aud": "other"}, 401),
        (right | {"iss": "another"}, 401),
        ({"email": "ada"}, 401),
        ({"sub": "ada", "aud": "keyline", "iss": "idp"}, 401),
    ):
        assert rig.ask("GET", "/api/v1/me", headers=bearer("", **claims)).status_code == status


@pytest.fixture
def provider() -> Iterator[tuple[str, Any]]:
    """An identity provider that publishes its keys, and the private one."""
    private = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    published = jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key(), as_dict=True) | {"kid": "k1", "use": "sig"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"keys": [published]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}/jwks", private
    server.shutdown()
    serving.join()
    server.server_close()


def test_the_keys_of_an_identity_provider(provider: tuple[str, Any]) -> None:
    """By the id that a token names."""
    url, private = provider
    rig = AdminRig(tokens=Tokens(PublishedKeys(url), PUBLIC, ROLES))
    for kid, status in (("k1", 200), ("k2", 401)):
        made = jwt.encode({"sub": "ada"}, private, algorithm="RS256", headers={"kid": kid})
        assert rig.ask("GET", "/api/v1/me", headers={"authorization": f"Bearer {made}"}).status_code == status


class Counted(PublishedKeys):
    """How often they are fetched."""

    fetches = 0

    async def _fetch(self) -> None:
        self.fetches += 1
        await super()._fetch()


class Provider:
    """Its keys, asked for at a time that the test sets."""

    def __init__(self, url: str, private: Any) -> None:
        self.now = 0.0
        self.keys = Counted(url, lambda: self.now)
        self._private = private

    async def know(self, *names: str) -> list[bool]:
        """Which of the keys named so are known, all asked for at once."""

        async def known(name: str) -> bool:
            try:
                await self.keys(jwt.encode({"sub": "ada"}, self._private, algorithm="RS256", headers={"kid": name}))
            except jwt.InvalidTokenError:
                return False
            return True

        return await asyncio.gather(*map(known, names))


def test_strangers_do_not_make_the_gateway_ask_the_provider_again_and_again(provider: tuple[str, Any]) -> None:
    """A name that nobody knows is looked for once in a while; a key that is known goes on being known meanwhile."""
    asked = Provider(*provider)
    made_up = [f"made-up-{number}" for number in range(50)]

    async def story() -> None:
        assert await asked.know(*made_up, "k1") == [False] * 50 + [True]
        assert asked.keys.fetches == 1
        asked.now = ASKED_AGAIN_S
        assert await asked.know(*made_up, "k1") == [False] * 50 + [True]
        assert asked.keys.fetches == 2
        asked.now += KEPT_S
        assert await asked.know("k1") == [True]
        assert asked.keys.fetches == 3

    asyncio.run(story())


def test_who_was_known_stays_known_while_the_provider_is_away(provider: tuple[str, Any]) -> None:
    """It is asked again every few seconds."""
    asked = Provider(*provider)

    async def story() -> None:
        assert await asked.know("k1") == [True]
        asked.keys.url = "http://127.0.0.1:1/jwks"
        for fetches in (2, 3):
            asked.now += KEPT_S
            assert await asked.know("k1", "k1", "k2") == [True, True, False]
            assert asked.keys.fetches == fetches

    asyncio.run(story())


def test_a_provider_that_is_away_lets_nobody_in() -> None:
    """And breaks nothing."""
    rig = AdminRig(tokens=Tokens(PublishedKeys("http://127.0.0.1:1/jwks"), PUBLIC, ROLES))
    private = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    made = jwt.encode({"sub": "ada"}, private, algorithm="RS256", headers={"kid": "k1"})
    assert rig.ask("GET", "/api/v1/me", headers={"authorization": f"Bearer {made}"}).status_code == 401


# ---- logging in


def test_a_person_logs_in_and_out(secret: Path) -> None:
    """The token becomes a cookie that no script reads and no other site sends, for as long as it is valid."""
    rig = guarded(secret)
    page = rig.ask("GET", "/")
    assert page.status_code == 200
    assert '<form method="post" action="login">' in page.text
    assert "form-action 'self'" in page.headers["content-security-policy"]
    answer = rig.ask("POST", "/login", data={"token": f" {token(VIEWER, exp=int(time.time()) + 600)}\n"})
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    kept = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(kept.split("; "))
    assert "Max-Age=" in kept
    mine = cookie(answer.cookies["keyline_token"])
    assert '<form method="post" action="login">' not in rig.ask("GET", "/", headers=mine).text
    assert rig.ask("GET", "/api/v1/me", headers=mine).json() == {"name": "vera", "role": "viewer", "login": True}
    gone = rig.ask("POST", "/logout", headers=mine)
    assert 'keyline_token=""' in gone.headers["set-cookie"]


@pytest.mark.parametrize(("given", "said"), [("rubbish", "not valid"), ("", "not valid"), (token(STRANGER), "no role")])
def test_who_cannot_log_in_is_told_on_the_page(secret: Path, given: str, said: str) -> None:
    """With no cookie; and nothing of the token is shown."""
    answer = guarded(secret).ask("POST", "/login", data={"token": given})
    assert answer.status_code == 401
    assert said in answer.text
    assert "set-cookie" not in answer.headers
    assert not given or given not in answer.text


def test_a_page_of_another_site_logs_nobody_in_or_out(secret: Path) -> None:
    """Else it could let a person act under a name of its choice."""
    for path in ("/login", "/logout"):
        answer = guarded(secret).ask(
            "POST", path, data={"token": token()}, headers={"sec-fetch-site": "cross-site", "origin": "https://evil"}
        )
        assert answer.status_code == 403


def test_a_body_that_is_no_form_is_bounded(secret: Path) -> None:
    """However much is sent."""
    answer = guarded(secret).ask("POST", "/login", content=b"token=" + b"x" * 1_000_000)
    assert answer.status_code == 401
