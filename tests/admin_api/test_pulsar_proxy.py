"""Pulsar's admin API over a broker that the test plays: what reaches it, what comes back, what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from http import HTTPStatus
from typing import Any

import httpx
import pytest

from admin_api.app import admin_app
from admin_api.pulsar import proxying
from admin_api.pulsar.consumers import MODEL
from admin_api.pulsar.proxying import BrokerAdmin
from admin_api.server import AdminServer
from proxy.views.admin import Admin
from tests.admin_api.rig import CONFIGURATION, SUBSCRIPTION, AdminRig
from tests.net import subscription_rig_broker
from tests.net.session_rig import new_elections
from tests.net.subscription_rig_broker import TOPIC, single

BASE = "http://broker:8080"
STATS = "/admin/v2/" + TOPIC.replace("://", "/") + "/stats"

Answer = Callable[[httpx.Request], httpx.Response]


class PulsarRig(AdminRig):
    """Workers as in its base; `answer` is the broker's admin API."""

    def __init__(self, answer: Answer | None = None, *, writes: bool = False, read_only: bool = False) -> None:
        super().__init__()
        self.asked: list[httpx.Request] = []
        self.bodies: list[bytes] = []
        self._answer = answer or self._say
        admin = Admin(self.subscriptions, new_elections(), lambda: self.reasons, CONFIGURATION)
        broker = BrokerAdmin(BASE, timeout_s=5, transport=httpx.MockTransport(self._asked))
        self.serve(view=admin, control=admin, version="1.2.3", read_only=read_only, broker=broker, broker_writes=writes)

    async def _asked(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        self.bodies.append(await request.aread())
        answer = self._answer(request)
        # One that was made of bytes has been read already, which nothing from the network has.
        return httpx.Response(answer.status_code, headers=answer.headers, stream=answer.stream)

    @staticmethod
    def _say(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=["ok"])


def own(replica_name: str) -> dict[str, Any]:
    """The gateway's consumer at the broker."""
    metadata = {"keyline.replica": replica_name}
    return {**deepcopy(dict(MODEL)), "consumerName": replica_name, "metadata": metadata}


def topic_statistics(rig_name: str, *others: dict[str, Any]) -> dict[str, Any]:
    """What the broker says of a topic with subscription `s`."""
    subscription = {"type": "Key_Shared", "unackedMessages": 9, "consumers": [own(rig_name), *others]}
    return {"msgRateOut": 0.0, "subscriptions": {"s": subscription}, "publishers": []}


def with_workers() -> PulsarRig:
    """A gateway with workers a and b at `s`, of which one holds a message, and a broker that tells of its own."""

    def answer(request: httpx.Request) -> httpx.Response:
        shown = topic_statistics(name)
        if request.url.path.endswith("partitioned-stats"):
            partition = f"{TOPIC}-partition-0"
            return httpx.Response(200, json={**shown, "partitions": {partition: topic_statistics(name)}})
        return httpx.Response(200, json=shown, headers={"etag": "x", "broker-address": "b1"})

    rig = PulsarRig(answer)
    name = rig.subscriptions.services.settings.replica_name
    rig.worker("a", permits=9, metadata=[{"key": "pod", "value": "w-1"}])
    rig.worker("b", permits=9)
    rig.link.deliver((0, single("k")))
    return rig


def problem(answer: httpx.Response) -> dict[str, Any]:
    """Problem details, with the reason that `pulsar-admin` looks for."""
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["reason"] == body["detail"]
    assert body["status"] == answer.status_code
    return body


# ---- reads


def test_a_read_reaches_the_broker_as_it_came() -> None:
    """Path byte by byte, query, credentials; nothing else of the client's, and no credentials of ours."""
    rig = PulsarRig()
    path = "/admin/v2/persistent/public/default/a%2Fb%3A%20c/internalStats?authoritative=false&x=%2F+"
    sent = {
        "authorization": "Bearer t", "accept": "application/json", "x-original-principal": "admin", "cookie": "a=b",
        "sec-fetch-site": "same-origin", "accept-encoding": "br",
    }  # fmt: skip
    answer = rig.ask("GET", path, headers=sent)
    assert (answer.status_code, answer.json()) == (200, ["ok"])
    (asked,) = rig.asked
    assert (asked.method, str(asked.url.copy_with(raw_path=b"/"))) == ("GET", BASE + "/")
    assert asked.url.raw_path == path.encode()
    assert (asked.headers["authorization"], asked.headers["accept"]) == ("Bearer t", "application/json")
    assert asked.headers["accept-encoding"] == "identity"
    assert not {"x-original-principal", "cookie", "sec-fetch-site"} & set(asked.headers)
    rig.ask("GET", "/lookup/v2/topic/persistent/public/default/t")
    assert "authorization" not in rig.asked[1].headers


@pytest.mark.parametrize(
    "path",
    ["/admin/v2/tenants", "/admin/v3/packages/x", "/lookup/v2/topic/persistent/p/d/t", "/admin/v2/brokers/health"],
)
def test_status_body_and_headers_come_back(path: str) -> None:
    """All that the broker says, but what is of its connection, or the gateway's to say."""
    said = {"content-type": "text/weird", "broker-address": "b1", "x-pulsar-sequence-id": "7", "x": "y"}
    kept_back = {
        "set-cookie": "a=b",
        "server": "Jetty",
        "access-control-allow-origin": "*",
        "content-security-policy": "default-src *",
        "keep-alive": "timeout=5",
        "connection": "close, X-Mine",
        "x-mine": "z",
    }
    headers = said | kept_back
    rig = PulsarRig(lambda _: httpx.Response(412, content=b"\x00no", headers=headers))
    answer = rig.ask("GET", path)
    assert (answer.status_code, answer.content) == (412, b"\x00no")
    assert {name: answer.headers[name] for name in said} == said
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy, "the gateway's own"
    assert not set(kept_back) - {"content-security-policy"} & set(answer.headers)


def test_a_compressed_answer_stays_as_it_is() -> None:
    """It is passed on unread, with the header that says so."""
    packed = gzip.compress(b'["a"]')
    rig = PulsarRig(lambda _: httpx.Response(200, content=packed, headers={"content-encoding": "gzip"}))
    assert rig.ask("GET", "/admin/v2/tenants").json() == ["a"]


def test_a_brokers_cookies_are_nobodys() -> None:
    """One client's session would be the next one's."""
    rig = PulsarRig(lambda _: httpx.Response(200, headers={"set-cookie": "session=alice"}))
    rig.ask("GET", "/admin/v2/tenants")
    rig.ask("GET", "/admin/v2/tenants")
    assert "cookie" not in rig.asked[1].headers


def test_our_own_paths_are_not_the_brokers() -> None:
    """What the gateway serves itself never leaves it; what nobody serves is 404, not a way to the broker."""
    rig = with_workers()
    assert rig.ask("GET", SUBSCRIPTION).status_code == 200
    assert rig.ask("GET", "/livez").status_code == 200
    for path in ("/status.html", "/api/v1/x", "/%61dmin/v2/tenants", "//admin/v2/tenants"):
        assert rig.ask("GET", "http://gateway" + path).status_code in {400, 404}
    assert rig.asked == []


@pytest.mark.parametrize("path", ["/admin/%2e%2e/x", "/admin/v2/..%2f..%2fx", "/lookup/..;/x"])
def test_a_path_out_of_the_admin_api_is_refused(path: str) -> None:
    """400, and the broker is not asked."""
    rig = PulsarRig()
    answer = rig.ask("GET", "http://gateway" + path)
    assert answer.status_code == 400
    assert "dots" in problem(answer)["detail"]
    assert rig.asked == []


def test_the_passed_paths_are_no_part_of_the_document() -> None:
    """They are documented by Pulsar."""
    paths = PulsarRig().ask("GET", "/openapi.json").json()["paths"]
    assert not [path for path in paths if path.startswith(("/admin", "/lookup"))]


def test_a_client_that_leaves_ends_the_brokers_answer() -> None:
    """Over sockets: a long answer arrives as it is made, and nobody goes on making it for nobody."""

    async def scenario() -> None:
        left = asyncio.Event()

        async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                while not writer.is_closing():
                    writer.write(b"x" * 1_000)
                    await writer.drain()
                    await asyncio.sleep(0.001)
            left.set()

        rig = AdminRig()
        admin = Admin(rig.subscriptions, new_elections(), list, CONFIGURATION)
        broker_server = await asyncio.start_server(endless, "127.0.0.1", 0)
        port = broker_server.sockets[0].getsockname()[1]
        broker = BrokerAdmin(f"http://127.0.0.1:{port}", timeout_s=30)
        server = AdminServer(admin_app(admin, admin, "1.2.3", broker=broker))
        host, admin_port = await server.start("127.0.0.1", 0)
        async with (
            httpx.AsyncClient(trust_env=False) as client,
            client.stream("GET", f"http://{host}:{admin_port}/admin/v2/functions/download") as answer,
        ):
            assert answer.headers["content-type"] == "text/plain"
            assert await anext(answer.aiter_raw())
        async with asyncio.timeout(30):
            await left.wait()
        await server.stop()
        await broker.close()
        broker_server.close()
        await broker_server.wait_closed()

    asyncio.run(scenario())


# ---- statistics


def test_workers_are_shown_where_the_broker_shows_the_gateway() -> None:
    """With addresses, metadata, permits, what they hold, and all hashes between them."""
    rig = with_workers()
    answer = rig.ask("GET", STATS + "?getPreciseBacklog=true")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert (answer.headers["broker-address"], "etag" in answer.headers) == ("b1", False)
    subscription = answer.json()["subscriptions"]["s"]
    a, b = subscription["consumers"]
    assert (a["consumerName"], b["consumerName"]) == ("a", "b")
    assert list(a) == list(MODEL)
    assert a["metadata"] == {"pod": "w-1"}
    assert a["address"].startswith("/192.0.2.7:")
    assert a["unackedMessages"] + b["unackedMessages"] == subscription["unackedMessages"] == 1
    assert a["availablePermits"] + b["availablePermits"] == 17
    assert sum(end - start + 1 for item in (a, b) for start, end in item["keyHashRangeArrays"]) == 65_535
    assert str(rig.asked[0].url) == f"{BASE}{STATS}?getPreciseBacklog=true"


def test_a_draining_hash_is_shown_at_its_holder() -> None:
    """With what it holds and how often another message was stopped by it."""
    rig = with_workers()
    holder = next(item for item in rig.get("")["dispatcher"]["workers"] if item["unacked_messages"])["name"]
    for number in range(40):
        rig.worker(f"later-{number}", permits=1)
    rig.link.deliver((1, single("k")))
    subscription = rig.ask("GET", STATS).json()["subscriptions"]["s"]
    by_name = {item["consumerName"]: item for item in subscription["consumers"]}
    (draining,) = by_name[holder]["drainingHashes"]
    assert (draining["unackMsgs"], draining["blockedAttempts"]) == (1, 1)
    assert by_name[holder]["drainingHashesCount"] == by_name[holder]["drainingHashesUnackedMessages"] == 1


def test_rates_are_there_from_the_second_look_on() -> None:
    """Over the time between the two."""
    rig = with_workers()
    first = rig.ask("GET", STATS).json()["subscriptions"]["s"]["consumers"]
    assert [item["msgRateOut"] for item in first] == [0.0, 0.0]
    rig.clock.advance(2.0)
    rig.link.deliver(*((entry, single(f"k{entry}")) for entry in range(1, 9)))
    subscription = rig.ask("GET", STATS).json()["subscriptions"]["s"]
    assert sum(item["msgRateOut"] for item in subscription["consumers"]) == 4.0


def test_a_topic_without_workers_of_ours_is_not_read_at_all() -> None:
    """It may be as large as it likes, and need not even be JSON."""
    rig = PulsarRig(lambda _: httpx.Response(200, content=b"x" * 100))
    rig.worker("a")
    path = STATS.removesuffix("/stats")
    for other in ("-2/stats", "-partition-0/stats", "/partitioned-stats", "/internalStats"):
        assert rig.ask("GET", path + other).content == b"x" * 100


def test_partitions_are_asked_for_and_left_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """We need them to know our part; the asker need not see them."""
    rig = with_workers()
    path = STATS.replace("/stats", "/partitioned-stats")
    partition_name = f"{TOPIC}-partition-0"
    monkeypatch.setattr(subscription_rig_broker, "TOPIC", partition_name)
    rig.worker("p", permits=3, topic=partition_name)
    shown = rig.ask("GET", path + "?perPartition=false").json()
    assert shown["partitions"] == {}
    assert [item["consumerName"] for item in shown["subscriptions"]["s"]["consumers"]] == ["p"]
    assert rig.asked[-1].url.params["perPartition"] == "true"
    shown = rig.ask("GET", path + "?perPartition=true").json()
    (partition,) = shown["partitions"].values()
    assert [item["consumerName"] for item in partition["subscriptions"]["s"]["consumers"]] == ["p"]


def test_consumers_that_are_not_wanted_are_counted_all_the_same() -> None:
    """The broker is asked for them, or we would not know which of its numbers are ours."""
    rig = with_workers()
    subscription = rig.ask("GET", STATS + "?excludeConsumers=true").json()["subscriptions"]["s"]
    assert (subscription["consumers"], subscription["unackedMessages"]) == ([], 1)
    assert "excludeConsumers" not in rig.asked[0].url.params


def test_a_brokers_error_about_statistics_is_passed_on() -> None:
    """There is nothing to merge into."""
    rig = with_workers()
    rig._answer = lambda _: httpx.Response(404, json={"reason": "Topic not found"})
    answer = rig.ask("GET", STATS)
    assert (answer.status_code, answer.json()) == (404, {"reason": "Topic not found"})


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_statistics_that_cannot_be_read_are_502(body: bytes) -> None:
    """A proxy in between that answers a page of its own, for instance."""
    rig = with_workers()
    rig._answer = lambda _: httpx.Response(200, content=body)
    answer = rig.ask("GET", STATS)
    assert answer.status_code == 502
    assert "JSON" in problem(answer)["detail"]


def test_statistics_larger_than_the_bound_are_502(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are held in memory, and only so much of it."""
    monkeypatch.setattr(proxying, "STATS_BYTES_MAX", 100)
    answer = with_workers().ask("GET", STATS)
    assert answer.status_code == 502
    assert "100 bytes" in problem(answer)["detail"]


# ---- redirects


def test_redirects_to_another_broker_are_followed() -> None:
    """The client could not: brokers' addresses are none of its business."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "broker":
            where = f"http://owner:8080{request.url.raw_path.decode()}&authoritative=true"
            return httpx.Response(307, headers={"location": where})
        return httpx.Response(200, json=["owned"])

    rig = PulsarRig(answer)
    answered = rig.ask("GET", "/admin/v2/persistent/t/n/a%2Fb/x?y=1", headers={"authorization": "Bearer t"})
    assert answered.json() == ["owned"]
    last = rig.asked[1]
    assert str(last.url) == "http://owner:8080/admin/v2/persistent/t/n/a%2Fb/x?y=1&authoritative=true"
    assert last.headers["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    "where",
    [
        BASE + "/admin/v2/tenants",
        "/admin/v2/tenants",
        "http://owner/secret",
        "http://owner/admin/%2e%2e/secret",
        "https://owner/admin/v2/tenants",
        "http://[",
    ],
)
def test_redirects_in_circles_or_out_of_the_admin_api_are_502(where: str) -> None:
    """Three are followed, and only to where requests may go."""
    rig = PulsarRig(lambda _: httpx.Response(307, headers={"location": where}))
    answer = rig.ask("GET", "/admin/v2/tenants")
    assert answer.status_code == 502
    assert "redirect" in problem(answer)["detail"]
    assert len(rig.asked) == (4 if where in {BASE + "/admin/v2/tenants", "/admin/v2/tenants"} else 1)


# ---- a broker that is not there


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (httpx.ConnectError("refused"), 503),
        (httpx.ConnectTimeout(""), 503),
        (httpx.ReadTimeout("too late"), 503),
        (httpx.ReadError(""), 503),
        (httpx.RemoteProtocolError("no HTTP"), 502),
    ],
)
@pytest.mark.parametrize("path", [STATS, "/admin/v2/tenants"])
def test_a_dead_broker_is_told_with_its_cause(error: Exception, status: int, path: str) -> None:
    """And our own part still answers."""

    def answer(_: httpx.Request) -> httpx.Response:
        raise error

    rig = with_workers()
    rig._answer = answer
    answered = rig.ask("GET", path)
    assert answered.status_code == status
    told = problem(answered)
    assert told["title"] == HTTPStatus(status).phrase
    assert BASE in told["detail"]
    assert type(error).__name__ in told["detail"]
    assert [item["name"] for item in rig.get("")["dispatcher"]["workers"]] == ["a", "b"]


def test_statistics_that_break_off_are_502() -> None:
    """Half of them are no statistics."""

    async def broken() -> AsyncIterator[bytes]:
        yield b'{"subscriptions":'
        raise httpx.ReadError("reset")

    rig = with_workers()
    rig._answer = lambda _: httpx.Response(200, content=broken())
    answer = rig.ask("GET", STATS)
    assert answer.status_code == 502
    assert "reset" in problem(answer)["detail"]


# ---- writes


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_write_is_refused_with_the_setting_that_would_allow_it(method: str) -> None:
    """405, and the broker is not asked."""
    rig = PulsarRig()
    answer = rig.ask(method, "/admin/v2/tenants/x", content=b"{}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert "admin_writes_to_broker" in problem(answer)["detail"]
    assert rig.asked == []


@pytest.mark.parametrize(("method", "body"), [("PUT", b'{"a":1}'), ("POST", b""), ("DELETE", b"")])
def test_a_write_is_passed_on_where_it_is_configured(method: str, body: bytes) -> None:
    """With its body and content type; the answer comes back."""
    rig = PulsarRig(lambda _: httpx.Response(204), writes=True)
    headers = {"content-type": "application/json", "authorization": "Bearer t"}
    answer = rig.ask(method, "/admin/v2/tenants/x?force=true", content=body, headers=headers)
    assert (answer.status_code, answer.content) == (204, b"")
    (asked,) = rig.asked
    assert (asked.method, asked.url.raw_path) == (method, b"/admin/v2/tenants/x?force=true")
    assert rig.bodies == [body]
    assert (asked.headers["content-type"], asked.headers["authorization"]) == ("application/json", "Bearer t")
    assert "transfer-encoding" not in asked.headers


def test_a_body_of_unknown_length_is_streamed() -> None:
    """As `curl -T -` sends one."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    rig = PulsarRig(writes=True)
    assert rig.ask("POST", "/admin/v2/x", content=pieces()).status_code == 200
    assert rig.bodies == [b"one two"]


def test_a_body_beyond_the_bound_is_413(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by its length, or found while it comes."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 60

    rig = PulsarRig(writes=True)
    length = {"content-length": str(proxying.BODY_BYTES_MAX + 1)}
    assert rig.ask("POST", "/admin/v2/x", headers=length, content=b"x").status_code == 413
    monkeypatch.setattr(proxying, "BODY_BYTES_MAX", 100)
    rig.ask("POST", "/admin/v2/x", content=b"x" * 100)
    answer = rig.ask("POST", "/admin/v2/x", content=b"x" * 101)
    assert answer.status_code == 413
    assert "100 bytes" in problem(answer)["detail"]


def test_a_write_that_another_broker_must_take_is_the_clients_to_repeat() -> None:
    """Its body has gone by."""
    where = "http://owner:8080/admin/v2/x"
    rig = PulsarRig(lambda _: httpx.Response(307, headers={"location": where}), writes=True)
    answer = rig.ask("PUT", "/admin/v2/x", content=b"1")
    assert (answer.status_code, answer.headers["location"]) == (307, where)
    assert len(rig.asked) == 1


def test_a_write_from_another_site_or_to_a_gateway_that_takes_no_orders_is_403() -> None:
    """As orders to the gateway are."""
    rig = PulsarRig(writes=True)
    answer = rig.ask("DELETE", "/admin/v2/x", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403
    assert rig.ask("DELETE", "/admin/v2/x", headers={"sec-fetch-site": "same-origin"}).status_code == 200
    answer = PulsarRig(writes=True, read_only=True).ask("DELETE", "/admin/v2/x")
    assert answer.status_code == 403
    assert "admin_read_only" in problem(answer)["detail"]


def test_a_problem_is_json_that_names_the_request() -> None:
    """Problem details for programs, the reason for `pulsar-admin`."""
    body = json.loads(PulsarRig().ask("POST", "/admin/v2/tenants/x").content)
    assert list(body) == ["type", "title", "status", "detail", "instance", "reason"]
    assert body["instance"] == "/admin/v2/tenants/x"
