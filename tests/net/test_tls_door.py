"""What strangers do at the TLS port, through real sockets: half a hello, no hello, old protocols, asking again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from integration.certificates import Authority
from proxy.aio.tls import TlsFiles
from proxy.aio.tls_door import ACCEPTED_PER_TURN, TlsDoor
from proxy.app.listener import GatewayServer
from proxy.limits import Limits
from tests.net.session_rig import connect
from tests.net.test_server import PATIENCE_S, Bench

HELLO = bytes.fromhex("160301020001000200")
"""The first bytes of a client hello of 512 bytes, and nothing more."""
SHORT_S = 0.5


class TlsBench(Bench):
    """A gateway that listens with TLS beside its plain port."""

    def __init__(self, loop: asyncio.AbstractEventLoop, directory: Path) -> None:
        """Nothing runs yet."""
        super().__init__(loop)
        self.authority = Authority(directory)
        signed = self.authority.sign("server", "localhost")
        self.files = TlsFiles(certificate=signed.certificate, key=signed.key, server=True)
        self.sockets: list[socket.socket] = []

    async def open(self, limits: Limits | None = None) -> GatewayServer:
        """Both ports."""
        server = await self.gateway(limits)
        await server.listen("127.0.0.1", 0, self.files.context)
        return server

    @property
    def tls_address(self) -> tuple[str, int]:
        """Where TLS is spoken."""
        assert self._server is not None
        return self._server.addresses[1]

    async def stranger(self, said: bytes = b"") -> socket.socket:
        """Connect to the TLS port and say something, perhaps nothing."""
        made = socket.socket()
        self.sockets.append(made)
        made.setblocking(False)
        await self.loop.sock_connect(made, self.tls_address)
        await self.loop.sock_sendall(made, said)
        return made

    async def is_over(self, stranger: socket.socket) -> bool:
        """Whether the gateway ends the connection, without a word that is not TLS's."""
        try:
            while await asyncio.wait_for(self.loop.sock_recv(stranger, 4096), PATIENCE_S):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True

    async def handshake(self, context: ssl.SSLContext | None = None) -> asyncio.StreamWriter:
        """A client that means it."""
        context = context or ssl.create_default_context(cafile=str(self.authority.file))
        _, writer = await asyncio.open_connection(*self.tls_address, ssl=context, server_hostname="localhost")
        return writer

    async def close(self) -> None:
        """The end of them all."""
        for made in self.sockets:
            made.close()
        await super().close()


def run(directory: Path, test: Callable[[TlsBench], Awaitable[None]]) -> None:
    """On uvloop, as in production."""

    async def main() -> None:
        bench = TlsBench(asyncio.get_running_loop(), directory)
        try:
            await asyncio.wait_for(test(bench), 2 * PATIENCE_S)
        finally:
            await bench.close()

    uvloop.run(main())


async def until(what: Callable[[], bool]) -> None:
    """Wait for what another task does."""
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.01)


def test_half_open_handshakes_take_the_places_of_connections(tmp_path: Path) -> None:
    """One more than there may be is closed without a handshake; a place that is left is free again."""

    async def test(bench: TlsBench) -> None:
        server = await bench.open(Limits(connections_max=3))
        half_open = [await bench.stranger(HELLO), await bench.stranger(), await bench.stranger(HELLO[:1])]
        await until(lambda: server.statistics().handshakes == 3)
        assert await bench.is_over(await bench.stranger(HELLO))
        plain = await bench.client()
        assert "maximum number of connections: 3" in (await plain.read()).error.message
        statistics = server.statistics()
        assert (statistics.connections, statistics.refused_total) == (0, 2)
        half_open[0].close()
        await until(lambda: server.statistics().handshakes == 2)
        writer = await bench.handshake()
        await until(lambda: server.statistics().connections == 1)
        assert server.statistics().handshakes == 2
        writer.close()

    run(tmp_path, test)


def test_half_open_handshakes_count_for_their_address(tmp_path: Path) -> None:
    """One neighbour's silence takes no place of another's."""

    async def test(bench: TlsBench) -> None:
        server = await bench.open(Limits(connections_per_address_max=2))
        await bench.stranger(HELLO)
        await bench.stranger()
        await until(lambda: server.statistics().handshakes == 2)
        assert await bench.is_over(await bench.stranger(HELLO))
        assert server.statistics().refused_per_address_total == 1

    run(tmp_path, test)


def test_a_slow_hello_is_given_up_after_its_time(tmp_path: Path) -> None:
    """A byte now and then does not make the time longer; it is counted, and its place is free."""

    async def test(bench: TlsBench) -> None:
        server = await bench.open(Limits(handshake_timeout_s=SHORT_S))
        slow = await bench.stranger(HELLO)
        over = asyncio.ensure_future(bench.is_over(slow))
        while not over.done():
            with contextlib.suppress(OSError):
                await bench.loop.sock_sendall(slow, b"\0")
            await asyncio.sleep(0.05)
        assert await over
        await until(lambda: server.statistics().handshakes == 0)
        assert server.statistics().handshakes_failed_total == 1

    run(tmp_path, test)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(range(256)) * 80,
        b"\x16\x03\x01\xff\xff" + b"\xff" * 20_000,
        b"\x16\x03\x01\x00\x05hello",
        b"\x15\x03\x01\x00\x02\x01\x00",
        b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(37),
    ],
    ids=["http", "noise", "a record too long", "no hello", "an alert", "SSL 2"],
)
def test_what_is_no_hello_ends_the_connection_at_once(tmp_path: Path, said: bytes) -> None:
    """Without a traceback, and without anybody else's trouble."""

    async def test(bench: TlsBench) -> None:
        server = await bench.open()
        assert await bench.is_over(await bench.stranger(said))
        await until(lambda: server.statistics().handshakes_failed_total == 1)
        assert server.statistics().handshakes == 0
        (await bench.handshake()).close()

    run(tmp_path, test)


def test_plain_pulsar_at_the_tls_port_and_tls_at_the_plain_port_end_at_once(tmp_path: Path) -> None:
    """The first is no hello, the second no frame."""

    async def test(bench: TlsBench) -> None:
        server = await bench.open()
        assert await bench.is_over(await bench.stranger(connect()))
        plain = server.addresses[0]
        trusting = ssl.create_default_context(cafile=str(bench.authority.file))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(*plain, ssl=trusting, server_hostname="localhost")
        await until(lambda: server.statistics().ended_total["bad_frame"] == 1)
        (await bench.handshake()).close()

    run(tmp_path, test)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_of_tls_are_refused(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """By a handshake that fails, whatever the client would accept of ciphers."""

    async def test(bench: TlsBench) -> None:
        server = await bench.open()
        old = ssl.create_default_context(cafile=str(bench.authority.file))
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = old.maximum_version = version
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await bench.handshake(old)
        await until(lambda: server.statistics().handshakes_failed_total == 1)

    run(tmp_path, test)


def test_a_client_that_asks_for_new_keys_is_refused_them(tmp_path: Path) -> None:
    """TLS 1.2's renegotiation would cost a signature each time it is asked for, on one connection."""

    async def test(bench: TlsBench) -> None:
        await bench.open()
        assert bench.files.context.options & ssl.OP_NO_RENEGOTIATION
        host, port = bench.tls_address
        asked = await asyncio.create_subprocess_exec(
            *("openssl", "s_client", "-tls1_2", "-connect", f"{host}:{port}"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert asked.stdin is not None
        asked.stdin.write(b"R\n")
        await asked.stdin.drain()
        told, _ = await asyncio.wait_for(asked.communicate(), PATIENCE_S)
        assert b"RENEGOTIATING" in told
        assert b"no renegotiation" in told or b"handshake failure" in told or b"error" in told

    run(tmp_path, test)


def test_a_client_that_comes_again_and_again_leaves_nothing(tmp_path: Path) -> None:
    """Tickets are the client's to keep: no session of a connection that is over is remembered here."""

    async def test(bench: TlsBench) -> None:
        server = await bench.open()
        for _ in range(30):
            (await bench.handshake()).close()
        await until(lambda: server.statistics().connections_total == 30)
        await until(lambda: server.statistics().connections == 0)
        assert bench.files.context.session_stats()["number"] == 0
        assert server.statistics().handshakes == server.statistics().handshakes_failed_total == 0

    run(tmp_path, test)


def test_the_oldest_handshake_gives_way_where_there_are_many(tmp_path: Path) -> None:
    """It had a second for itself. Who comes meanwhile waits in the operating system's queue, and is served then."""

    async def test(bench: TlsBench) -> None:
        server = await bench.open(Limits(handshakes_max=2))
        first = await bench.stranger(HELLO)
        await until(lambda: server.statistics().handshakes == 1)
        second = await bench.stranger(HELLO)
        await until(lambda: server.statistics().handshakes == 2)
        writer = await bench.handshake()
        assert await bench.is_over(first)
        assert server.statistics().handshakes_failed_total == 1
        writer.close()
        second.close()
        await until(lambda: server.statistics().handshakes == 0)
        (await bench.handshake()).close()

    run(tmp_path, test)


def test_few_are_accepted_in_a_turn(tmp_path: Path) -> None:
    """So that many hellos at once leave room for others in between."""

    async def test(bench: TlsBench) -> None:
        server = await bench.open()
        door = next(listener for listener in server._listeners if isinstance(listener, TlsDoor))
        door._stop_listening()
        for _ in range(ACCEPTED_PER_TURN + 3):
            await bench.stranger()
        (listening,) = door.sockets
        door._accept(listening)
        assert len(door._under_way) == ACCEPTED_PER_TURN
        door._accept(listening)
        assert len(door._under_way) == ACCEPTED_PER_TURN + 3

    run(tmp_path, test)


def test_an_end_breaks_off_what_shakes_hands(tmp_path: Path) -> None:
    """No client comes in after the gateway said that it takes none."""

    async def test(bench: TlsBench) -> None:
        server = await bench.open()
        stranger = await bench.stranger(HELLO)
        await until(lambda: server.statistics().handshakes == 1)
        address = bench.tls_address
        server.stop_accepting()
        assert server.statistics().handshakes == 0
        assert await bench.is_over(stranger)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)

    run(tmp_path, test)
