"""Requests at the admin port as attackers write them, over real sockets: byte by byte, with no client in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admin_api import http_protocol
from admin_api.access.tokens import SECRET, Tokens
from admin_api.answers import EVERY_ANSWER
from admin_api.request_head import head_fault
from admin_api.server import AdminServer
from tests.admin_api.rig import AdminRig
from tests.admin_api.test_access import KEY, ROLES, VIEWER, token

PATIENCE_S = 60.0
SMUGGLED = b"GET /api/v1/subscriptions HTTP/1.1\r\nhost: a\r\n\r\n"
CHUNKS = b"0\r\n\r\n"
LAST = b"connection: close\r\n\r\n"
"""Ends the head of a client's last request."""


async def _key(_: str) -> bytes:
    return KEY


@asynccontextmanager
async def serving(*, loopback: bool = False, guarded: bool = False) -> AsyncIterator[tuple[str, int, AdminServer]]:
    """The admin API on a free port."""
    rig = AdminRig(loopback=loopback, tokens=Tokens(_key, SECRET, ROLES) if guarded else None)
    server = AdminServer(rig.app)
    host, port = await server.start("127.0.0.1", 0)
    try:
        yield host, port, server
    finally:
        await server.stop()


def play(scenario: Coroutine[Any, Any, None]) -> None:
    """Run it, with an end to its patience."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scenario

    asyncio.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until it holds."""
    while not condition():  # noqa: ASYNC110 - nobody would set an event
        await asyncio.sleep(0)


async def everything(host: str, port: int, sent: bytes) -> bytes:
    """All that is answered until the connection is closed from there.

    The client does not end its side: behind that the server may close before it has answered what came first.
    """
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    return answer


def answers(said: bytes) -> list[int]:
    """The statuses in it."""
    return [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]


POST = b"POST /api/v1/subscriptions HTTP/1.1\r\nhost: a\r\n"
AMBIGUOUS = {
    "CL.TE": POST
    + b"content-length: %d\r\ntransfer-encoding: chunked\r\n\r\n" % len(CHUNKS + SMUGGLED)
    + CHUNKS
    + SMUGGLED,
    "TE.CL": POST + b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n" + CHUNKS + SMUGGLED,
    "two lengths": POST + b"content-length: 0\r\ncontent-length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
    "one length twice": POST + b"content-length: 0\r\ncontent-length: 0\r\n\r\n" + SMUGGLED,
    "lengths in a list": POST + b"content-length: 0, 0\r\n\r\n" + SMUGGLED,
    "a length with a sign": POST + b"content-length: +0\r\n\r\n" + SMUGGLED,
    "a negative length": POST + b"content-length: -1\r\n\r\n" + SMUGGLED,
    "a length in hex": POST + b"content-length: 0x0\r\n\r\n" + SMUGGLED,
    "TE xchunked": POST + b"transfer-encoding: xchunked\r\n\r\n" + CHUNKS + SMUGGLED,
    "TE identity": POST + b"transfer-encoding: identity\r\n\r\n" + CHUNKS + SMUGGLED,
    "TE twice": POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKS + SMUGGLED,
    "TE and another": POST + b"transfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n" + CHUNKS + SMUGGLED,
    "TE in a list": POST + b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKS + SMUGGLED,
    "TE with a space before the colon": POST + b"transfer-encoding : chunked\r\n\r\n" + CHUNKS + SMUGGLED,
    "TE with a vertical tab": POST + b"transfer-encoding:\x0bchunked\r\n\r\n" + CHUNKS + SMUGGLED,
    "TE behind a bare LF": POST + b"x: y\ntransfer-encoding: chunked\r\n\r\n" + CHUNKS + SMUGGLED,
    "TE behind a bare CR": POST + b"x: y\rtransfer-encoding: chunked\r\n\r\n" + CHUNKS + SMUGGLED,
    "TE folded": POST + b"transfer-encoding:\r\n chunked\r\n\r\n" + CHUNKS + SMUGGLED,
    "TE behind a fold": POST + b"x: y\r\n transfer-encoding: chunked\r\n\r\n" + CHUNKS + SMUGGLED,
    "only bare LF": b"GET /livez HTTP/1.1\nhost: a\n\n" + SMUGGLED,
    "a head ended by LF LF": b"GET /livez HTTP/1.1\r\nhost: a\n\n" + SMUGGLED,
    "a NUL in a header": b"GET /livez HTTP/1.1\r\nhost: a\r\nx: \x00\r\n\r\n" + SMUGGLED,
    "no name of a header": b"GET /livez HTTP/1.1\r\nhost: a\r\n: x\r\n\r\n" + SMUGGLED,
    "two hosts": b"GET /livez HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n" + SMUGGLED,
    "no host": b"GET /livez HTTP/1.1\r\n\r\n" + SMUGGLED,
    "a host with a user": b"GET /livez HTTP/1.1\r\nhost: evil@localhost\r\n\r\n" + SMUGGLED,
    "a host with a path": b"GET /livez HTTP/1.1\r\nhost: localhost/evil\r\n\r\n" + SMUGGLED,
    "a host with a fragment": b"GET /livez HTTP/1.1\r\nhost: localhost#evil\r\n\r\n" + SMUGGLED,
    "absolute form": b"GET http://localhost/livez HTTP/1.1\r\nhost: a\r\n\r\n" + SMUGGLED,
    "absolute form of another host": b"GET http://evil/livez HTTP/1.1\r\nhost: localhost\r\n\r\n" + SMUGGLED,
    "CONNECT": b"CONNECT broker:6650 HTTP/1.1\r\nhost: broker:6650\r\n\r\n" + SMUGGLED,
    "asterisk form": b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n" + SMUGGLED,
    "no version": b"GET /livez\r\nhost: a\r\n\r\n" + SMUGGLED,
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED,
    "two spaces": b"GET  /livez HTTP/1.1\r\nhost: a\r\n\r\n" + SMUGGLED,
    "a space in the target": b"GET /livez /x HTTP/1.1\r\nhost: a\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("guarded", [False, True], ids=["open", "guarded"])
@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_one_refusal(name: str, guarded: bool) -> None:  # noqa: FBT001 - a parameter
    """400 and closed: what is behind it is never taken for a request, in whichever way somebody before us counted."""

    async def scenario() -> None:
        async with serving(guarded=guarded) as (host, port, _):
            said = await everything(host, port, AMBIGUOUS[name])
            assert answers(said) == [400]
            assert b"connection: close" in said
            for header, value in EVERY_ANSWER.items():
                assert header + b": " + value in said

    play(scenario())


def test_a_second_request_is_looked_at_as_the_first() -> None:
    """Also one that comes while the first is answered, or behind a body that nobody read."""
    bad = AMBIGUOUS["CL.TE"]
    unread = b"POST /api/v1/nothing HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello"

    async def scenario() -> None:
        async with serving() as (host, port, _):
            for first in (b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n", unread):
                assert answers(await everything(host, port, first + bad))[1:] == [400]
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(first[:-1])
                await asyncio.sleep(0.01)
                writer.write(first[-1:] + bad[:30])
                await asyncio.sleep(0.01)
                writer.write(bad[30:])
                assert answers(await reader.read())[1:] == [400]
                writer.close()

    play(scenario())


def test_honest_requests_are_served() -> None:
    """With a length, in chunks, one behind the other, in HTTP/1.0, for a name, an address and none."""
    honest = [
        b"GET /livez HTTP/1.1\r\nHost: gateway.example:8750\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: [::1]:8750\r\nx-empty:\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost:\r\n\r\n",
        b"GET /api/v1/subscriptions?after=%F0%9F%98%80 HTTP/1.1\r\nhost: a_b\r\naccept: */*\r\n" + LAST,
    ]

    async def scenario() -> None:
        async with serving() as (host, port, _):
            assert answers(await everything(host, port, b"".join(honest))) == [200] * len(honest)
            assert answers(await everything(host, port, b"GET /livez HTTP/1.0\r\n\r\n")) == [200]
            chunked = POST + b"Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + honest[-1]
            assert answers(await everything(host, port, chunked)) == [405, 200]

    play(scenario())


@pytest.mark.parametrize("method", ["TRACE", "get", "Get", "PROPFIND", "CONNECT"])
def test_a_method_that_nobody_serves_says_back_nothing(method: str) -> None:
    """A request's headers, which may have a token in them, are not in the answer."""

    async def scenario() -> None:
        async with serving(guarded=True) as (host, port, _):
            secret = token(VIEWER)
            asked = f"{method} /livez HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {secret}\r\n"
            said = await everything(host, port, asked.encode() + LAST)
            assert answers(said) == [405]
            assert secret.encode() not in said

    play(scenario())


@pytest.mark.parametrize("host_header", ["evil", "localhost.evil", "evil:8750", "127.0.0.1.evil", "", "[::2]"])
def test_on_loopback_another_host_is_refused(host_header: str) -> None:
    """However it is written: a page whose name leads here is no page of ours."""

    async def scenario() -> None:
        async with serving(loopback=True) as (host, port, _):
            asked = f"GET /api/v1/subscriptions HTTP/1.1\r\nhost: {host_header}\r\nx-forwarded-host: localhost\r\n"
            assert answers(await everything(host, port, asked.encode() + LAST)) == [403]

    play(scenario())


def test_what_a_proxy_says_of_a_client_is_not_believed() -> None:
    """Anybody can write these headers."""

    async def scenario() -> None:
        seen: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            seen.append((scope["client"][0], scope["scheme"]))
            await AdminRig().app(scope, receive, send)

        server = AdminServer(app)  # type: ignore[arg-type]  # an app all the same
        host, port = await server.start("127.0.0.1", 0)
        forwarded = b"x-forwarded-for: 192.0.2.1\r\nx-forwarded-proto: https\r\nforwarded: for=192.0.2.1\r\n"
        await everything(host, port, b"GET /livez HTTP/1.1\r\nhost: a\r\n" + forwarded + LAST)
        await server.stop()
        assert seen == [("127.0.0.1", "http")]

    play(scenario())


# ---- silence


def test_silence_and_half_a_head_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between two requests, and a byte now and then is silence too."""
    monkeypatch.setattr(http_protocol, "HEAD_S_MAX", 0.2)

    async def scenario() -> None:
        async with serving() as (host, port, _):
            whole = b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n"
            for at_once, said in ((b"", b""), (b"", b"GET /livez HT"), (whole, b"GET /")):
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(at_once)
                for byte in said:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0)
                heard = await reader.read()
                assert answers(heard) == ([200] if at_once else [])
                writer.close()

    play(scenario())


def test_many_that_say_nothing_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest silent makes room for who comes; half a body is silence; who is answered stays."""

    async def scenario() -> None:
        async with serving() as (host, port, server):
            monkeypatch.setattr(server.connections, "_most", 20)
            streams = [await asyncio.open_connection(host, port) for _ in range(5)]
            for _, writer in streams:
                writer.write(b"GET /api/v1/events HTTP/1.1\r\nhost: a\r\n\r\n")
            for reader, _ in streams:
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            silent = [await asyncio.open_connection(host, port) for _ in range(60)]
            for _, writer in silent[::2]:
                writer.write(b"POST /login HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nx")
            for _ in range(10):
                assert answers(await everything(host, port, b"GET /livez HTTP/1.1\r\nhost: a\r\n" + LAST)) == [200]
            assert len(server.connections) <= 20
            assert not any(reader.at_eof() for reader, _ in silent[-10:]), "the longest silent go first"
            await until(lambda: all(reader.at_eof() for reader, _ in silent[:40]))
            for reader, writer in streams:
                assert not reader.at_eof()
                writer.close()
            for _, writer in silent:
                writer.close()
            await until(lambda: len(server.connections) == 0)

    play(scenario())


# ---- the core of it


TOKENS = st.sampled_from(
    [b"GET", b" ", b"/", b"x", b"HTTP/1.1", b"\r\n", b"\n", b"\r", b":", b"host", b"a", b"content-length", b"0", b"\t",
     b"transfer-encoding", b"chunked", b"\x00", b"\xff", b","]
)  # fmt: skip


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TOKENS, max_size=40).map(b"".join))
def test_a_head_without_a_fault_has_one_reading(head: bytes) -> None:
    """Whatever is in it: lines end in one way, and one header at most says where the request ends."""
    for whole in (head, b"GET / HTTP/1.1\r\n" + head + b"\r\n\r\n"):
        if head_fault(whole) is None:
            lines = whole.lower().split(b"\r\n")
            assert not any(b"\n" in line or b"\r" in line or line.startswith((b" ", b"\t")) for line in lines)
            framing = [line for line in lines if line.partition(b":")[0] in {b"content-length", b"transfer-encoding"}]
            assert len(framing) <= 1
            assert len([line for line in lines if line.startswith(b"host:")]) <= 1
