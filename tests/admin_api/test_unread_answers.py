"""Clients that ask at the admin port and leave the answers unread, over real sockets: they keep nobody out, and end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from admin_api import http_protocol
from admin_api.http_protocol import TAKEN_BYTES_MIN, StrictHttp
from admin_api.pulsar import proxying
from admin_api.pulsar.proxying import BrokerAdmin
from admin_api.server import AdminServer
from tests.admin_api.rig import AdminRig
from tests.admin_api.test_http_protocol import LAST, answers, everything, play, serving, until

PIPELINED = b"GET /console/console.css HTTP/1.1\r\nhost: a\r\n\r\n" * 40
"""A megabyte of answers: more than the kernel takes here for a client that does not read. It needs no token."""
LONG_BYTES = 4 << 20
KERNEL_BYTES = 1 << 16


@pytest.fixture(autouse=True)
def _small_kernel_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the server's side too; otherwise they take megabytes in a client's stead."""
    made = StrictHttp.connection_made

    def connection_made(self: StrictHttp, transport: asyncio.Transport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
        made(self, transport)

    monkeypatch.setattr(StrictHttp, "connection_made", connection_made)


async def asking(host: str, port: int, sent: bytes) -> socket.socket:
    """A client that has asked, and reads when the test does."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, (host, port))
    await asyncio.get_running_loop().sock_sendall(client, sent)
    return client


def connections(server: AdminServer) -> list[StrictHttp]:
    """All of them."""
    return [*server.connections._silent, *server.connections._answered]


def paused(server: AdminServer) -> list[StrictHttp]:
    """Those whose clients leave answers unread."""
    return [one for one in connections(server) if one.flow.write_paused]


@asynccontextmanager
async def left_unread(*headers: bytes) -> AsyncIterator[tuple[socket.socket, StrictHttp, AdminServer]]:
    """A client with a long answer that was written at once, the connection's side of it, and the server."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(LONG_BYTES)})

    server = AdminServer(app)  # type: ignore[arg-type]  # an app all the same
    host, port = await server.start("127.0.0.1", 0)
    client = await asking(host, port, b"GET / HTTP/1.1\r\nhost: a\r\n" + b"".join(headers) + b"\r\n")
    try:
        await until(lambda: [one for one in connections(server) if one.transport.get_write_buffer_size()])
        yield client, connections(server)[0], server
    finally:
        client.close()
        await server.stop()


def test_many_that_leave_answers_unread_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a token: who has waited longest for its client gives way at once, long before it would be aborted."""

    async def scenario() -> None:
        async with serving(guarded=True) as (host, port, server):
            monkeypatch.setattr(server.connections, "_most", 4)
            unread = [await asking(host, port, PIPELINED) for _ in range(4)]
            await until(lambda: len(paused(server)) == 4)
            assert not server.connections._answered
            for _ in range(3):
                assert answers(await everything(host, port, b"GET /livez HTTP/1.1\r\nhost: a\r\n" + LAST)) == [200]
            for client in unread:
                client.close()
            await until(lambda: len(server.connections) == 0)

    play(scenario())


def test_who_leaves_answers_unread_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many answers, of which none is long, and none needs a token."""
    monkeypatch.setattr(http_protocol, "STALL_S", 0.1)

    async def scenario() -> None:
        async with serving(guarded=True) as (host, port, server):
            client = await asking(host, port, PIPELINED)
            await until(lambda: paused(server))
            await until(lambda: len(server.connections) == 0)
            client.close()

    play(scenario())


@pytest.mark.parametrize("high_bytes", [1 << 16, LONG_BYTES * 2], ids=["much", "so little that writing was not paused"])
def test_a_connection_that_is_closed_with_a_rest_unread_ends(high_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A close waits for the rest to be taken, which may be never."""
    monkeypatch.setattr(http_protocol, "STALL_S", 0.1)
    made = StrictHttp.connection_made

    def connection_made(self: StrictHttp, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=high_bytes)
        made(self, transport)

    monkeypatch.setattr(StrictHttp, "connection_made", connection_made)

    async def scenario() -> None:
        async with left_unread(b"connection: close\r\n") as (_, connection, server):
            await until(connection.transport.is_closing)
            await until(lambda: len(server.connections) == 0)

    play(scenario())


def test_a_slow_reader_of_a_long_answer_stays_and_a_byte_is_not_enough() -> None:
    """It takes what is asked of it between two looks, several times; then it does not."""

    async def scenario() -> None:
        async with left_unread() as (client, connection, _):
            loop = asyncio.get_running_loop()
            left = connection.transport.get_write_buffer_size
            for _ in range(3):
                connection._look()
                enough = left() - TAKEN_BYTES_MIN
                while left() > enough:
                    await loop.sock_recv(client, 1 << 16)
                    await asyncio.sleep(0)
            assert connection.flow.write_paused
            connection._look()
            assert not connection.transport.is_closing()
            assert await loop.sock_recv(client, 1)
            connection._look()
            assert connection.transport.is_closing()
            assert left() == 0, "aborted"

    play(scenario())


def test_who_took_everything_begins_anew() -> None:
    """What waited at an earlier look was another answer."""

    async def scenario() -> None:
        async with left_unread() as (client, connection, server):
            loop = asyncio.get_running_loop()
            connection._look()
            while paused(server):
                await loop.sock_recv(client, 1 << 16)
                await asyncio.sleep(0)
            connection.transport.write(bytes(LONG_BYTES))
            assert paused(server)
            connection._look()
            assert not connection.transport.is_closing()

    play(scenario())


def test_an_unread_answer_of_a_broker_gives_its_connection_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway has so many connections to the broker's admin API; who reads nothing must not keep them."""
    monkeypatch.setattr(http_protocol, "STALL_S", 0.2)
    monkeypatch.setattr(proxying, "CONNECTIONS_MAX", 1)
    asked: list[bytes] = []

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            length = LONG_BYTES if b"/long " in asked[-1] else 2
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % length + bytes(length))
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    async def scenario() -> None:
        listener = await asyncio.start_server(broker, "127.0.0.1", 0)
        admin = BrokerAdmin(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", timeout_s=30)
        server = AdminServer(AdminRig(app_options={"broker": admin}).app)
        host, port = await server.start("127.0.0.1", 0)
        unread = await asking(host, port, b"GET /admin/v2/long HTTP/1.1\r\nhost: a\r\n\r\n")
        await until(lambda: asked)
        said = await everything(host, port, b"GET /admin/v2/short HTTP/1.1\r\nhost: a\r\n" + LAST)
        assert answers(said) == [200]
        unread.close()
        await server.stop()
        await admin.close()
        listener.close()

    play(scenario())
