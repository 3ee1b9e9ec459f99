"""What answers say of themselves to browsers and caches, and what a session's cookie does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from admin_api.answers import EVERY_ANSWER
from tests.admin_api.rig import SUBSCRIPTION, AdminRig
from tests.admin_api.test_access import ADMIN, VIEWER, bearer, cookie, guarded, secret, token
from tests.admin_api.test_pulsar_proxy import STATS, PulsarRig, with_workers

__all__ = ["secret"]
NAMES = [name.decode() for name in EVERY_ANSWER]


def check(answer: httpx.Response, caching: str = "no-store") -> None:
    """Each once, and none contradicts another."""
    for name in NAMES:
        assert len(answer.headers.get_list(name)) == 1, (name, answer.headers)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == caching
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] in {"no-referrer", "same-origin"}


@pytest.mark.parametrize(
    ("method", "path", "name", "status"),
    [
        ("GET", "/api/v1/subscriptions", VIEWER, 200),
        ("GET", SUBSCRIPTION, VIEWER, 200),
        ("GET", "/api/v1/configuration", VIEWER, 200),
        ("GET", "/openapi.json", VIEWER, 200),
        ("GET", "/livez", None, 200),
        ("GET", "/readyz", None, 200),
        ("GET", "/metrics", None, 404),
        ("GET", "/", None, 200),
        ("GET", "/api/v1/me", None, 401),
        ("GET", "/nothing", VIEWER, 404),
        ("GET", f"{SUBSCRIPTION}/pending?limit=x", VIEWER, 404),
        ("GET", "/api/v1/subscriptions?limit=x", VIEWER, 400),
        ("PATCH", "/api/v1/subscriptions", VIEWER, 405),
        ("POST", f"{SUBSCRIPTION}/pause", VIEWER, 403),
        ("POST", f"{SUBSCRIPTION}/pause", ADMIN, 204),
        ("GET", "/admin/v2/tenants", VIEWER, 200),
        ("GET", "/admin/v2/x;y", VIEWER, 400),
        ("POST", "/login", None, 401),
        ("POST", "/logout", None, 303),
    ],
)
def test_every_answer_is_for_its_asker_alone(
    secret: Path,
    method: str,
    path: str,
    name: str | None,
    status: int,
) -> None:
    """Whoever made it: a route, the guard, the framework."""
    rig = guarded(secret)
    answer = rig.ask(method, path, headers=bearer(name))
    assert answer.status_code == status
    check(answer)


def test_a_fault_too() -> None:
    """It leaves by the framework's outermost layer."""
    rig = AdminRig()
    rig.reasons = None  # type: ignore[assignment]  # which no list is made of
    answer = rig.ask("GET", "/readyz", faulty=True)
    assert answer.status_code == 500
    check(answer)


def test_on_loopback_a_refused_name_too() -> None:
    """It is refused before anything else."""
    answer = AdminRig(loopback=True).ask("GET", "/livez")
    assert answer.status_code == 403
    check(answer)


def test_the_consoles_files_are_kept_and_asked_for() -> None:
    """They have no secret, and an etag."""
    rig = AdminRig()
    for path in ("/", "/console/main.js"):
        answer = rig.ask("GET", path)
        check(answer, "no-cache")
        check(rig.ask("GET", path, headers={"if-none-match": answer.headers["etag"]}), "no-cache")


def test_what_the_broker_says_of_its_answer_counts() -> None:
    """And where it says nothing, nobody keeps it; merged or not."""
    check(PulsarRig().ask("GET", "/admin/v2/tenants"))
    rig = PulsarRig(lambda _: httpx.Response(200, json=[], headers={"cache-control": "max-age=5"}))
    check(rig.ask("GET", "/admin/v2/tenants"), "max-age=5")
    check(with_workers().ask("GET", STATS))


# ---- the session's cookie


@pytest.mark.parametrize(
    ("base", "headers", "secure"),
    [
        ("http://gateway", {}, False),
        ("http://gateway", {"origin": "http://gateway"}, False),
        ("https://gateway", {}, True),
        ("https://gateway", {"origin": "https://gateway"}, True),
        ("http://gateway", {"origin": "https://gateway"}, True),  # an ingress ended the TLS
        ("http://gateway", {"origin": "https://gateway", "sec-fetch-site": "same-origin"}, True),
        ("http://gateway", {"x-forwarded-proto": "https"}, False),
    ],
)
def test_the_cookie_is_secure_wherever_the_page_came_by_tls(
    secret: Path,
    base: str,
    headers: dict[str, str],
    secure: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Browsers name the page's origin when they send its form, so no proxy need be believed; out as in."""
    rig = guarded(secret)
    given = token(VIEWER, exp=int(time.time()) + 600)
    for path, more in (("/login", {"data": {"token": given}}), ("/logout", {"headers": cookie(given)})):
        sent: Any = {**more, "headers": {**headers, **more.get("headers", {})}}
        answer = rig.ask("POST", base + path, **sent)
        assert answer.status_code == 303
        assert ("Secure" in answer.headers["set-cookie"].split("; ")) is secure
        check(answer)
