"""The way to the broker's admin API, for who may see and not change: no writing of a request gets a change through.

What a broker reads in a request is told here by a reader that shares nothing with the gateway's: it drops parameters,
decodes as often as anything decodes, takes methods in any case, and looks at every part of the path.
"""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from admin_api.access.tokens import SECRET, Roles, Tokens
from admin_api.app import admin_app
from admin_api.pulsar.proxying import BrokerAdmin
from proxy.views.admin import Admin
from tests.admin_api.rig import CONFIGURATION, AdminRig
from tests.admin_api.test_access import ADMIN, KEY, NOBODY, OPERATOR, ROLES, STRANGER, VIEWER, bearer
from tests.net.session_rig import new_elections

TOPIC = "/admin/v2/persistent/public/default/T"
READS = {"GET", "HEAD", "OPTIONS"}
CHANGES_BY_GET = re.compile(r"backlog-quota-check|checkallowautocreation=(?!false(&|$))", re.IGNORECASE)


class Asked(NamedTuple):
    """What reached the broker."""

    method: str
    target: str


class Place:
    """A gateway that passes changes on, in front of a broker that writes down what it is asked."""

    def __init__(self, roles: Roles | None = ROLES) -> None:
        rig = AdminRig()
        admin = Admin(rig.subscriptions, new_elections(), list, CONFIGURATION)
        self.asked: list[Asked] = []
        broker = BrokerAdmin("http://broker:8080", timeout_s=5, transport=httpx.MockTransport(self._answer))

        async def key(_: str) -> bytes:
            return KEY

        tokens = None if roles is None else Tokens(key, SECRET, roles)
        self.app = admin_app(admin, admin, "1", broker=broker, broker_writes=True, tokens=tokens)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(Asked(request.method, request.url.raw_path.decode("latin-1")))
        return httpx.Response(200, stream=httpx.ByteStream(b"[]"))

    def ask(self, method: str, target: str, name: str | None) -> int:
        """A request as the server hands it over, byte by byte; its status."""
        raw_path, _, query = target.partition("?")
        headers = {"host": "gateway"} | bearer(name)
        statuses: list[int] = []
        body = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not body:
                await asyncio.Event().wait()  # for the client to leave, which it does not
            return body.pop()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope: dict[str, Any] = {
            "type": "http", "method": method, "path": unquote(raw_path), "raw_path": raw_path.encode("ascii"),
            "query_string": query.encode("ascii"), "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
            "scheme": "http", "server": ("gateway", 80), "client": ("192.0.2.9", 1), "root_path": "",
            "http_version": "1.1", "asgi": {"version": "3.0", "spec_version": "2.3"},
        }  # fmt: skip
        asyncio.run(self.app(scope, receive, send))
        (status,) = statuses
        return status


def is_change(asked: Asked) -> bool:
    """Whether any broker, or what may stand before it, could read a change in it."""
    read = asked.target
    for _ in range(4):
        if CHANGES_BY_GET.search(re.sub(r";[^/?]*", "", read)):
            return True
        read = unquote(read, "latin-1")
    return asked.method.upper() not in READS or asked.method != asked.method.upper()


@cache
def place() -> Place:
    """One for all tests, made by the process that runs them, not by each that collects them."""
    return Place()


SEGMENTS = (
    "admin", "v2", "v3", "lookup", "persistent", "non-persistent", "public", "default", "T", "T/stats", "partitions",
    "brokers", "backlog-quota-check", "preview/join", "preview%2Fjoin", "livez", "console", "ws", "metrics", "api",
    "v1", "subscriptions", "..", ".", "%2e%2e", "%252e%252e", "..;x", "", "%2F", "%5C", "\\", "%00", "a%2Fb", "a;b=c",
)  # fmt: skip
TAILS = (
    "", "/preview/join", ";x=%2Fpreview%2Fjoin", ";x=/preview/join", "%3Bx=/preview/join", "%2Fpreview%2Fjoin",
    "?x=/preview/join", "%3Fx=/preview/join", "%23/preview/join", "#/preview/join", "/..;/x", "/%2e%2e/x",
    "?checkAllowAutoCreation=true", "?x=1&%63heckAllowAutoCreation=TRUE", "?checkAllowAutoCreation", ";jsessionid=1",
)  # fmt: skip
STARTS = (
    TOPIC, TOPIC + "/partitions", "/admin/v2/brokers/backlog-quota-check", "/livez/../admin/v2/tenants/x",
    "/console/..%2Fadmin/v2/tenants/x", "/ws/%2e%2e/admin/v2/tenants/x", "/lookup/v2/topic/persistent/public/default/T",
    "http://gateway" + TOPIC, "//gateway" + TOPIC, "/%61dmin/v2/tenants/x", "/ADMIN/v2/tenants/x",
)  # fmt: skip
METHODS = (
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "delete", "Delete", "get", "Get",
    "GET DELETE", "PROPFIND", "",
)  # fmt: skip


@st.composite
def targets(draw: st.DrawFn) -> str:
    """Request targets, most of them crooked."""
    start = draw(
        st.sampled_from(STARTS) | st.lists(st.sampled_from(SEGMENTS), max_size=8).map(lambda p: "/" + "/".join(p))
    )
    target = list(start + draw(st.sampled_from(TAILS)))
    for place in draw(st.lists(st.integers(0, len(target) - 1), max_size=4, unique=True)):
        write = draw(st.sampled_from(["%{:02X}", "%{:02x}", "%25{:02X}"]))
        target[place] = write.format(ord(target[place])) if draw(st.booleans()) else target[place].swapcase()
    return "".join(target)


@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(method=st.sampled_from(METHODS), target=targets(), name=st.sampled_from([NOBODY, STRANGER, VIEWER, OPERATOR]))
@example(method="GET", target=TOPIC + "?%2563heckAllowAutoCreation=true", name=VIEWER)
@example(method="GET", target=TOPIC + "?x=1%26checkAllowAutoCreation=true", name=VIEWER)
@example(method="GET", target=TOPIC + "%3FcheckAllowAutoCreation=true", name=VIEWER)
@example(method="GET", target="/admin/v2/brokers/backlog-quota-check/preview/join", name=VIEWER)
@example(method="GET", target="/admin/v2/brokers/backlog-quota-check%23/preview/join", name=VIEWER)
def test_who_may_not_change_the_broker_never_sends_it_a_change(method: str, target: str, name: str | None) -> None:
    """However path, parameters, escapes and method are written."""
    place().asked.clear()
    place().ask(method, target, name)
    assert not [asked for asked in place().asked if is_change(asked)]
    if name in {NOBODY, STRANGER}:
        assert place().asked == []


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(method=st.sampled_from(METHODS), target=targets())
def test_what_is_passed_on_is_what_was_asked_and_can_be_read_in_one_way(method: str, target: str) -> None:
    """Also for an admin: the very bytes, with no parameters, no dots, nothing encoded twice or needlessly."""
    place().asked.clear()
    place().ask(method, target, ADMIN)
    for asked in place().asked:
        assert asked == (method, target)
        path = asked.target.partition("?")[0]
        assert path.startswith(("/admin/", "/lookup/"))
        assert not re.search(r"[;\\#\s\x00-\x1f\x7f-\xff]|%5c|%25[0-9a-f]{2}|%[01]|%7f", path, re.IGNORECASE)
        assert not {".", ".."} & set(re.split(r"[/\\]", unquote(unquote(path, "latin-1"), "latin-1")))
        assert not re.search(r"[A-Za-z0-9._-]", "".join(unquote(part) for part in re.findall(r"%[2-7].", path)))


@pytest.mark.parametrize("tail", TAILS)
def test_the_end_of_a_path_is_nobodys_permission(tail: str) -> None:
    """A preview of ours ends with /preview/join and changes nothing; a topic that does is a topic."""
    for method in ("DELETE", "POST", "PUT"):
        place().asked.clear()
        assert place().ask(method, TOPIC + tail, VIEWER) == 403
        assert place().asked == []


def test_an_admin_still_changes_what_has_an_unusual_name() -> None:
    """Slashes, semicolons, spaces and other languages, as `pulsar-admin` writes them."""
    for name in ("a%2Fb", "a%3Bb", "a+b", "%C3%A9", "a%3Fb%23c", "100%25"):
        place().asked.clear()
        assert place().ask("DELETE", f"/admin/v2/persistent/public/default/{name}?force=true", ADMIN) == 200
        assert place().asked == [("DELETE", f"/admin/v2/persistent/public/default/{name}?force=true")]


def test_a_read_that_changes_something_is_a_change() -> None:
    """It is not passed on where changes are not, and 405 says which setting would."""
    rig = AdminRig()
    admin = Admin(rig.subscriptions, new_elections(), list, CONFIGURATION)
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, stream=httpx.ByteStream(b"{}"))

    broker = BrokerAdmin("http://broker:8080", timeout_s=5, transport=httpx.MockTransport(answer))
    rig.app = admin_app(admin, admin, "1", broker=broker)
    creating = TOPIC + "/partitions?checkAllowAutoCreation="
    for path in ("/admin/v2/brokers/backlog-quota-check", creating + "true"):
        refused = rig.ask("GET", path)
        assert refused.status_code == 405
        assert "admin_writes_to_broker" in refused.json()["detail"]
    assert asked == []
    assert rig.ask("GET", creating + "false").status_code == 200


def test_a_viewer_reads_what_only_resembles_a_change() -> None:
    """Names that begin like one, percent signs in names and values, and creation that is expressly not wanted."""
    for target in (
        "/admin/v2/persistent/public/default/backlog-quota-checks/stats",
        TOPIC + "/partitions?checkAllowAutoCreation=false&authoritative=true",
        TOPIC + "?%63heckAllowAutoCreation=False",
        TOPIC + "/stats?x=100%25&%2563=d",
        "/admin/v2/persistent/public/default/100%25/stats",
    ):
        place().asked.clear()
        assert place().ask("GET", target, VIEWER) == 200
        assert place().asked == [("GET", target)]


def test_what_is_encoded_without_end_is_a_change() -> None:
    """However deep a name is hidden, it is decoded a few times only."""
    for depth in (1, 3, 4, 10, 10_000):
        place().asked.clear()
        assert place().ask("GET", f"{TOPIC}?%{'25' * depth}63heckAllowAutoCreation=true", VIEWER) == 403
        assert place().asked == []
