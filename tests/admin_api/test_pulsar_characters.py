"""Bytes beyond ASCII on their way to the broker's admin API and back: passed on or refused, never a fault of ours."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from admin_api.app import admin_app
from admin_api.pulsar.paths import stats_query
from admin_api.pulsar.proxying import BrokerAdmin
from admin_api.server import AdminServer
from proxy.views.admin import Admin
from tests.admin_api.rig import CONFIGURATION, AdminRig
from tests.admin_api.test_pulsar_proxy import STATS, PulsarRig, problem, with_workers
from tests.net.session_rig import new_elections

TENANTS = "/admin/v2/tenants"
BEYOND_ASCII = "Zoë €".encode() + b"\xff\x80"


def ask_raw(rig: PulsarRig, **changed: Any) -> httpx.Response:
    """GET with parts of the request as no client of ours would send them."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await rig.app({**scope, **changed}, receive, send)

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://gateway") as client:
            return await client.get(TENANTS)

    return asyncio.run(asked())


@pytest.mark.parametrize("name", ["accept", "authorization", "content-type", "user-agent", "x-pulsar-auth-method-name"])
@pytest.mark.parametrize("path", [TENANTS, STATS])
def test_a_header_reaches_the_broker_byte_by_byte(name: str, path: str) -> None:
    """HTTP allows what is beyond ASCII there, and leaves to its two ends what it means."""
    rig = with_workers()
    answer = rig.ask("GET", path, headers={name.encode(): b"x " + BEYOND_ASCII})
    assert answer.status_code == 200
    sent = dict(rig.asked[0].headers.raw)
    assert {key.lower(): value for key, value in sent.items()}[name.encode()] == b"x " + BEYOND_ASCII


@pytest.mark.parametrize("value", [b"a\x01b", b"a\nb", b"a\x7fb", b"\x00"])
def test_a_header_that_no_request_may_have_is_400_with_its_name(value: bytes) -> None:
    """And the broker is not asked."""
    rig = PulsarRig()
    answer = rig.ask("GET", TENANTS, headers={b"authorization": value})
    assert answer.status_code == 400
    assert "header authorization" in problem(answer)["detail"]
    assert rig.asked == []
    assert rig.ask("GET", TENANTS, headers={b"x-not-passed-on": value}).status_code == 200


def test_an_answers_headers_come_back_byte_by_byte() -> None:
    """A file name in the broker's language, for instance."""
    rig = PulsarRig(lambda _: httpx.Response(200, headers={b"content-disposition": BEYOND_ASCII}))
    answer = rig.ask("GET", TENANTS)
    assert answer.status_code == 200
    assert dict(answer.headers.raw)[b"content-disposition"] == BEYOND_ASCII


@pytest.mark.parametrize("query", [b"x=\xc3\xa9", b"x=\xe9", b"\xff", b"x= y", b"x=\x00", b"x#y"])
def test_a_query_that_no_request_may_have_is_400(query: bytes) -> None:
    """Percent-encoded it might be passed on, but then it would not be what the client sent."""
    rig = PulsarRig()
    answer = ask_raw(rig, query_string=query)
    assert answer.status_code == 400
    assert "query has characters" in problem(answer)["detail"]
    assert rig.asked == []


@pytest.mark.parametrize("raw_path", [b"/admin/v2/\xc3\xa9", b"/admin/v2/\xff"])
def test_a_path_that_no_request_may_have_is_400(raw_path: bytes) -> None:
    """Whatever the server made of it."""
    rig = PulsarRig()
    answer = ask_raw(rig, raw_path=raw_path, path=raw_path.decode(errors="replace"), query_string=b"\xff")
    assert answer.status_code == 400
    assert "path" in problem(answer)["detail"]
    assert rig.asked == []


@pytest.mark.parametrize("query", ["x=%C3%A9", "x=%FF%2F%25", "x=a+b&y="])
def test_a_query_for_statistics_means_the_same_at_the_broker(query: str) -> None:
    """It is written anew, with every byte in its place."""
    assert stats_query(query + "&excludeConsumers=true", partitioned=False).text == query


def test_bytes_beyond_ascii_go_through_real_servers_in_both_directions() -> None:
    """Nothing below us changes them either."""

    async def scenario() -> None:
        heads: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\ncache-control: " + BEYOND_ASCII + b"\r\n\r\n")
            await writer.drain()
            writer.close()

        rig = AdminRig()
        admin = Admin(rig.subscriptions, new_elections(), list, CONFIGURATION)
        broker_server = await asyncio.start_server(answer, "127.0.0.1", 0)
        broker = BrokerAdmin(f"http://127.0.0.1:{broker_server.sockets[0].getsockname()[1]}", timeout_s=30)
        server = AdminServer(admin_app(admin, admin, "1.2.3", broker=broker))
        host, port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /admin/v2/tenants HTTP/1.1\r\nhost: x\r\nuser-agent: " + BEYOND_ASCII + b"\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"cache-control: " + BEYOND_ASCII + b"\r\n" in head
        assert BEYOND_ASCII + b"\r\n" in heads[0]
        writer.close()
        await server.stop()
        await broker.close()
        broker_server.close()
        await broker_server.wait_closed()

    asyncio.run(scenario())
