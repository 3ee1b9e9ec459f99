"""The ports on real sockets of the loopback: order, water marks, failures, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import structlog
import uvloop

from proxy.aio.clock_and_connector import AioClock, AioConnector
from proxy.aio.transport import PUSHED_BYTES_MAX, READ_OUT_S, RESET, SCATTERED_BYTES, AioTransport
from proxy.limits import Limits
from proxy.net.ports import Transport

MIB = 1024 * 1024
PATIENCE_S = 60.0
"""No test takes so long; one that hangs fails instead."""


class NotingReceiver:
    """Writes down what happens, and lets a test await it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, object]] = []
        self.data = bytearray()
        self.transport: Transport | None = None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self.fail_on: str = ""

    def opened(self, transport: Transport) -> None:
        """As the port says."""
        self.transport = transport
        self._note("opened", transport.peer)

    def received(self, data: bytes) -> None:
        """As the port says."""
        self.data += data
        self._note("received", len(data))

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """As the port says."""
        self._note("writable", writable)

    def closed(self, reason: str) -> None:
        """As the port says."""
        self._note("closed", reason)

    @property
    def names(self) -> list[str]:
        """What happened, in order."""
        return [name for name, _ in self.events]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until an event makes the condition true."""
        if not condition():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((condition, future))
            await future

    def _note(self, name: str, value: object) -> None:
        self.events.append((name, value))
        for condition, future in self._waiting:
            if not future.done() and condition():
                future.set_result(None)
        if name == self.fail_on:
            message = f"bug in {name}"
            raise RuntimeError(message)


class Bench:
    """Makes connections and cleans up after the test."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._sockets: list[socket.socket] = []
        self._receivers: list[NotingReceiver] = []

    def listener(self) -> tuple[socket.socket, str]:
        """Give a plain listening socket and its ``host:port``."""
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self._sockets.append(listener)
        return listener, "{}:{}".format(*listener.getsockname())

    async def pair(
        self, limits: Limits | None = None, receiver: NotingReceiver | None = None
    ) -> tuple[NotingReceiver, socket.socket]:
        """Give our end as a receiver and the peer's as a plain socket that reads only when told."""
        receiver = receiver or NotingReceiver()
        listener, address = self.listener()
        AioConnector(self.loop, limits or Limits()).connect(f"pulsar://{address}", receiver)
        assert receiver.events == [], "a port never calls back from inside its own method"
        peer, _ = await self.loop.sock_accept(listener)
        peer.setblocking(False)
        self._sockets.append(peer)
        self._receivers.append(receiver)
        await receiver.until(lambda: "opened" in receiver.names)
        return receiver, peer

    async def close(self) -> None:
        """End what the test left open."""
        for receiver in self._receivers:
            if receiver.transport is not None:
                receiver.transport.abort()
                await receiver.until(lambda receiver=receiver: "closed" in receiver.names)  # type: ignore[misc]
        for each in self._sockets:
            each.close()


def run(test: Callable[[Bench], Awaitable[None]]) -> None:
    """Run on uvloop, as in production."""

    async def main() -> None:
        bench = Bench(asyncio.get_running_loop())
        try:
            await asyncio.wait_for(test(bench), PATIENCE_S)
        finally:
            await bench.close()

    uvloop.run(main())


async def read_all(loop: asyncio.AbstractEventLoop, peer: socket.socket, size: int) -> bytes:
    """Read exactly so much, or to the end."""
    data = bytearray()
    while len(data) < size and (piece := await loop.sock_recv(peer, min(size - len(data), MIB))):
        data += piece
    return bytes(data)


def test_writes_arrive_in_order_and_delay_is_off() -> None:
    """What one turn wrote leaves together; small frames do not wait for Nagle."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        transport = receiver.transport
        assert isinstance(transport, AioTransport)
        for number in range(1000):
            transport.write(number.to_bytes(4, "big"))
        expected = b"".join(number.to_bytes(4, "big") for number in range(1000))
        assert await read_all(bench.loop, peer, 4000) == expected
        inner = transport._transport
        assert inner is not None
        assert inner.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(test)


def test_a_turn_s_writes_are_one_write_to_the_loop() -> None:
    """A system call costs more than all our work on a small message."""

    async def test(bench: Bench) -> None:
        class Counting(asyncio.Transport):
            written: list[bytes] = []  # noqa: RUF012 - one instance

            def write(self, data: bytes | bytearray | memoryview) -> None:
                self.written.append(bytes(data))

            def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
                pass

            def get_extra_info(self, _name: str, default: object = None) -> object:
                return default

        receiver, loop_end = NotingReceiver(), Counting()
        transport = AioTransport(lambda _: receiver, bench.loop, Limits())
        transport.connection_made(loop_end)
        for piece in (b"a", b"b", b"c"):
            transport.write(piece)
        assert loop_end.written == []
        turn = bench.loop.create_future()
        bench.loop.call_soon(turn.set_result, None)
        await turn
        assert loop_end.written == [b"abc"]

    run(test)


def test_what_is_pushed_leaves_at_once_and_what_follows_in_the_turn_is_gathered() -> None:
    """Its reader need not wait for what else the turn does. A second push costs no system call, and order is kept."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        transport = receiver.transport
        assert transport is not None
        for _ in range(2):  # turns
            transport.push()  # nothing is queued: this is not the turn's
            transport.write(b"one ")
            transport.write(b"two ")
            transport.push()
            assert peer.recv(MIB) == b"one two ", "before the turn's end"
            transport.write(b"three ")
            transport.push()
            transport.write(b"four")
            with pytest.raises(BlockingIOError):
                peer.recv(MIB)
            assert await read_all(bench.loop, peer, len(b"three four")) == b"three four"
        large = bytes(SCATTERED_BYTES + 1)
        transport.write(large)
        transport.push()
        assert peer.recv(MIB) == large, "one piece is not joined with any"

    run(test)


def test_what_is_large_is_left_to_the_loop_which_copies_nothing() -> None:
    """Pushed or not: one large piece, or some of which most are."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        assert receiver.transport is not None
        for pieces in [bytes(PUSHED_BYTES_MAX + 1)], [b"start", bytes(2 * SCATTERED_BYTES + 10)]:
            for piece in pieces:
                receiver.transport.write(piece)
            receiver.transport.push()
            with pytest.raises(BlockingIOError):
                peer.recv(MIB)
            sent = b"".join(pieces)
            assert await read_all(bench.loop, peer, len(sent)) == sent

    run(test)


def test_what_the_system_does_not_take_at_once_keeps_its_place() -> None:
    """A peer that does not read for a while gets every byte once, in order, whichever way each was sent."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        transport = receiver.transport
        assert isinstance(transport, AioTransport)
        inner = transport._transport
        assert inner is not None
        sent = bytearray()

        def send() -> None:
            piece = bytes((len(sent) % 251,)) * (PUSHED_BYTES_MAX - len(sent) % 199)
            transport.write(piece)
            transport.push()
            sent.extend(piece)

        while not inner.get_write_buffer_size():  # until the system is full
            send()
            await asyncio.sleep(0)
        read = peer.recv(16 * MIB)  # makes room, of which the loop has not heard
        send()
        assert read + await read_all(bench.loop, peer, len(sent) - len(read)) == sent

    run(test)


def test_what_the_system_takes_of_a_push_in_part_leaves_whole_also_at_a_close() -> None:
    """Several pieces, more than a socket's buffers hold."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        transport = receiver.transport
        assert isinstance(transport, AioTransport)
        assert transport._transport is not None
        sending = transport._transport.get_extra_info("socket")
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        pieces = [bytes((number,)) * 6_000 for number in range(10)]
        for piece in pieces:
            transport.write(piece)
        transport.push()
        assert 0 < transport._pieces_bytes < len(pieces) * 6_000, "a part has left"
        transport.write(b"last")
        transport.close()
        assert await read_all(bench.loop, peer, MIB) == b"".join(pieces) + b"last"

    run(test)


def test_what_was_pushed_no_longer_counts_as_unread() -> None:
    """And what was too much before it was pushed is told as such, and is over when it has left."""

    async def test(bench: Bench) -> None:
        limits = Limits(unread_high_water_bytes=4_096, unread_low_water_bytes=1_024)
        receiver, peer = await bench.pair(limits)
        transport = receiver.transport
        assert transport is not None
        transport.write(bytes(3_000))
        transport.push()
        transport.write(bytes(3_000))
        writable = [transport.writable]
        assert len(await read_all(bench.loop, peer, 6_000)) == 6_000
        assert "writable" not in receiver.names
        transport.write(bytes(5_000))
        writable.append(transport.writable)
        transport.push()
        await receiver.until(lambda: receiver.events[-1] == ("writable", True))
        assert len(await read_all(bench.loop, peer, 5_000)) == 5_000
        assert [*writable, transport.writable] == [True, False, True]

    run(test)


def test_a_push_to_a_peer_that_is_gone_is_told_by_the_loop() -> None:
    """Never by an exception from inside `push`; what is written afterwards goes nowhere."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        transport = receiver.transport
        assert transport is not None
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        peer.close()
        transport.write(b"to a closed peer")
        transport.push()
        await receiver.until(lambda: "closed" in receiver.names)
        other, other_peer = await bench.pair()
        transport.write(b"to a closed peer")
        transport.push()
        assert other.transport is not None
        other.transport.write(b"alone")
        assert await read_all(bench.loop, other_peer, len(b"alone")) == b"alone"

    run(test)


def test_writable_turns_false_in_the_write_that_fills_and_is_told_in_turns() -> None:
    """A peer that reads again makes it true; at the end everything has arrived."""

    async def test(bench: Bench) -> None:
        limits = Limits(unread_high_water_bytes=MIB, unread_low_water_bytes=MIB // 4)
        receiver, peer = await bench.pair(limits)
        transport = receiver.transport
        assert transport is not None
        size = 20 * MIB
        transport.write(bytes(size))
        now = (transport.writable, "writable" in receiver.names)
        assert now == (False, False), "told from the loop, not from inside write"
        await receiver.until(lambda: ("writable", False) in receiver.events)
        received = await read_all(bench.loop, peer, size)
        await receiver.until(lambda: receiver.events[-1] == ("writable", True))
        assert len(received) == size
        assert transport.writable
        news = [value for name, value in receiver.events if name == "writable"]
        assert news == [False, True] * (len(news) // 2)

    run(test)


def test_a_peer_that_leaves_too_much_unread_is_given_up() -> None:
    """Memory is bounded whatever a peer does: it asked for answers and never read one."""

    async def test(bench: Bench) -> None:
        receiver, _peer = await bench.pair(Limits(unread_bytes_max=8 * MIB))
        assert receiver.transport is not None
        with structlog.testing.capture_logs() as logs:
            receiver.transport.write(bytes(40 * MIB))
            await receiver.until(lambda: "closed" in receiver.names)
        assert receiver.events[-1] == ("closed", "the peer left too much unread")
        assert [log["event"] for log in logs] == ["unread connection closed"]

    run(test)


class StandingClock:
    """In place of the module `time`: it stands until it is moved."""

    def __init__(self) -> None:
        """At some moment."""
        self.now = 50.0

    def monotonic(self) -> float:
        """This moment."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StandingClock:
    """The transport's."""
    clock = StandingClock()
    monkeypatch.setattr("proxy.aio.transport.time", clock)
    return clock


STALLED = ("closed", "the gateway stalled with data to send")


@pytest.mark.parametrize("stood_still", [False, True])
def test_a_process_that_stood_still_sends_nothing_of_before(
    stood_still: bool,  # noqa: FBT001 - a parameter of the test
    clock: StandingClock,
) -> None:
    """What was queued under a limit is given up with its connection; in time, and in the next turn, all is as ever."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        assert receiver.transport is not None
        receiver.transport.write(b"1")
        receiver.transport.limit(2.0)
        receiver.transport.limit(5.0)
        clock.now += 2.0 if stood_still else 1.9
        if stood_still:
            await receiver.until(lambda: "closed" in receiver.names)
            assert receiver.events[-1] == STALLED
            return
        assert await read_all(bench.loop, peer, 1) == b"1"
        clock.now += 100.0
        receiver.transport.write(b"2")
        assert await read_all(bench.loop, peer, 1) == b"2"

    run(test)


def test_nothing_pushed_leaves_before_its_limit_is_looked_at(clock: StandingClock) -> None:
    """The process may stand still between the limit and the write, too."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        assert receiver.transport is not None
        receiver.transport.limit(2.0)
        clock.now += 2.0
        receiver.transport.write(b"of before")
        receiver.transport.push()
        await receiver.until(lambda: "closed" in receiver.names)
        assert receiver.events[-1] == STALLED
        assert await read_all(bench.loop, peer, 1) == b""

    run(test)


@pytest.mark.parametrize("paused", [False, True])
def test_what_the_peer_had_sent_is_read_before_its_connection_is_given_up(
    paused: bool,  # noqa: FBT001 - a parameter of the test
    clock: StandingClock,
) -> None:
    """Acknowledgements would be lost otherwise. More than one read of them; nothing is written to the peer any more."""
    sent = bytes(range(256)) * 8192

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        assert receiver.transport is not None
        if paused:
            receiver.transport.pause_reading()
        sending = asyncio.ensure_future(bench.loop.sock_sendall(peer, sent))
        if not paused:
            await receiver.until(lambda: bool(receiver.data))
        receiver.transport.write(b"not to be sent any more")
        receiver.transport.limit(2.0)
        clock.now += 2.0
        await asyncio.sleep(0)
        receiver.transport.write(b"nor this")
        if paused:
            receiver.transport.resume_reading()
        await receiver.until(lambda: "closed" in receiver.names)
        assert receiver.events[-1] == STALLED
        await sending
        assert bytes(receiver.data) == sent
        assert await read_all(bench.loop, peer, 1) == b"", "nothing was sent to the peer"

    run(test)


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("size", [3, 100_000])
def test_what_a_peer_says_before_it_leaves_is_read_though_a_write_to_it_fails_first(
    size: int,
    resets: bool,  # noqa: FBT001 - a parameter of the test
    paused: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A client acknowledges and goes, while it is sent more; with unread bytes the system resets its connection.

    Its receiver may read nothing then, because it has not looked at everything yet.
    """
    said = bytes(range(256)) * (size // 256) + bytes(size % 256)

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        assert receiver.transport is not None
        if resets:
            receiver.transport.write(b"unread")
            assert await read_all(bench.loop, peer, 1) == b"u", "the rest is there, too"
        if paused:
            receiver.transport.pause_reading()
        peer.setblocking(True)
        peer.sendall(said)
        peer.close()
        for _ in range(3):  # the second fails at the latest
            receiver.transport._transport.write(b"more")  # type: ignore[attr-defined]
        await receiver.until(lambda: "closed" in receiver.names)
        assert bytes(receiver.data) == said
        assert receiver.names[-1] == "closed"
        assert receiver.names.count("closed") == 1

    run(test)


@pytest.mark.parametrize("paused", [False, True])
def test_who_reads_or_sends_without_end_is_given_up_all_the_same(
    paused: bool,  # noqa: FBT001 - a parameter of the test
    clock: StandingClock,
) -> None:
    """One that never resumes, and a peer that never ceases to send: the time for it is bounded."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        assert receiver.transport is not None
        if paused:
            receiver.transport.pause_reading()
        receiver.transport.write(b"1")
        receiver.transport.limit(2.0)
        clock.now += 2.0
        await asyncio.sleep(0)
        await bench.loop.sock_sendall(peer, b"x")
        if not paused:
            await receiver.until(lambda: bytes(receiver.data) == b"x")
        clock.now += READ_OUT_S
        await bench.loop.sock_sendall(peer, b"x")
        await receiver.until(lambda: "closed" in receiver.names)
        assert receiver.events[-1] == STALLED

    run(test)


def test_a_limit_is_for_what_is_queued_in_its_own_turn(clock: StandingClock) -> None:
    """Nothing was written after all, as to a worker that does not read: what is written much later is not concerned."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        assert receiver.transport is not None
        receiver.transport.limit(2.0)
        await asyncio.sleep(0)
        clock.now += 100.0
        receiver.transport.write(b"1")
        assert await read_all(bench.loop, peer, 1) == b"1"

    run(test)


def test_paused_reading_delivers_nothing_until_resumed() -> None:
    """And nothing is lost. Both calls may be made twice."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        assert receiver.transport is not None
        receiver.transport.pause_reading()
        receiver.transport.pause_reading()
        await bench.loop.sock_sendall(peer, b"while paused")
        other, other_peer = await bench.pair()  # a whole connection's worth of loop turns
        await bench.loop.sock_sendall(other_peer, b"x")
        await other.until(lambda: bool(other.data))
        assert not receiver.data
        receiver.transport.resume_reading()
        receiver.transport.resume_reading()
        await receiver.until(lambda: len(receiver.data) == len(b"while paused"))

    run(test)


def test_close_sends_what_is_queued_and_abort_does_not_wait() -> None:
    """`closed` follows from the loop, once; what is written afterwards is dropped."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        assert receiver.transport is not None
        receiver.transport.write(b"last words")
        receiver.transport.close()
        receiver.transport.write(b"too late")
        assert "closed" not in receiver.names
        assert await read_all(bench.loop, peer, 100) == b"last words"
        await receiver.until(lambda: "closed" in receiver.names)
        receiver.transport.close()
        receiver.transport.abort()
        receiver, _peer = await bench.pair()
        assert receiver.transport is not None
        receiver.transport.abort()
        assert "closed" not in receiver.names
        await receiver.until(lambda: "closed" in receiver.names)
        assert receiver.names.count("closed") == 1

    run(test)


def test_what_the_system_has_of_an_aborted_connection_is_not_sent() -> None:
    """It may be for others by the time a network that lost it lets it through."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        assert receiver.transport is not None
        receiver.transport.write(bytes(16 * MIB))  # more than both systems take
        await receiver.until(lambda: not receiver.transport.writable)  # type: ignore[union-attr]
        receiver.transport.abort()
        await receiver.until(lambda: "closed" in receiver.names)
        with pytest.raises(ConnectionResetError):
            await read_all(bench.loop, peer, 16 * MIB)

    run(test)


def test_the_peer_s_end_is_told() -> None:
    """With a reason for people."""

    async def test(bench: Bench) -> None:
        receiver, peer = await bench.pair()
        peer.close()
        await receiver.until(lambda: "closed" in receiver.names)
        assert receiver.events[-1] == ("closed", "closed by the peer")

    run(test)


@pytest.mark.parametrize("method", ["opened", "received", "closed", "writable"])
def test_a_bug_costs_its_connection_and_one_log_entry(method: str) -> None:
    """The stack is in the log, the connection is closed, another one goes on."""

    async def test(bench: Bench) -> None:
        good, good_peer = await bench.pair()
        bad = NotingReceiver()
        bad.fail_on = method
        with structlog.testing.capture_logs() as logs:
            _, peer = await bench.pair(receiver=bad)
            if method == "received":
                await bench.loop.sock_sendall(peer, b"x")
            elif method == "writable":
                assert bad.transport is not None
                bad.transport.write(bytes(30 * MIB))
            elif method == "closed":
                peer.close()
            await bad.until(lambda: "closed" in bad.names)
            await bench.loop.sock_sendall(good_peer, b"fine")
            await good.until(lambda: good.data == b"fine")
        assert [(log["event"], log["log_level"]) for log in logs] == [("receiver failed", "error")]
        assert logs[0]["exc_info"]

    run(test)


def test_a_connection_that_cannot_be_made_is_told_as_closed() -> None:
    """Refused, malformed, or TLS that is not configured: never an exception, never from inside `connect`."""

    async def test(bench: Bench) -> None:
        free = socket.create_server(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        for address in (f"pulsar://127.0.0.1:{port}", "http://x", f"pulsar+ssl://127.0.0.1:{port}"):
            receiver = NotingReceiver()
            AioConnector(bench.loop, Limits()).connect(address, receiver)
            assert receiver.events == []
            await receiver.until(lambda receiver=receiver: bool(receiver.events))  # type: ignore[misc]
            ((name, reason),) = receiver.events
            assert name == "closed"
            assert address in str(reason)

    run(test)


def test_a_connector_for_tls_only_opens_no_other_connection() -> None:
    """A replica's address without TLS, of one that has not changed yet, must not get clients' tokens in the clear."""

    async def test(bench: Bench) -> None:
        _, address = bench.listener()
        receiver = NotingReceiver()
        connector = AioConnector(bench.loop, Limits(), ssl.create_default_context(), tls_only=True)
        connector.connect(f"pulsar://{address}", receiver)
        await receiver.until(lambda: bool(receiver.events))
        ((name, reason),) = receiver.events
        assert (name, "TLS only" in str(reason)) == ("closed", True)

    run(test)


def test_a_connection_that_takes_too_long_is_given_up() -> None:
    """A host that accepts and says nothing of TLS holds us for the bound and no longer."""

    async def test(bench: Bench) -> None:
        _, address = bench.listener()
        receiver = NotingReceiver()
        connector = AioConnector(bench.loop, Limits(connect_timeout_s=0.05), ssl.create_default_context())
        connector.connect(f"pulsar+ssl://{address}", receiver)
        await receiver.until(lambda: bool(receiver.events))
        ((name, reason),) = receiver.events
        assert name == "closed"
        assert "in 0.05 s" in str(reason)

    run(test)


def test_tls_carries_the_same_bytes(tmp_path: Path) -> None:
    """Both ends are ours: a TLS listener and ``pulsar+ssl``; the host name is checked."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(certificate, key)
    client_context = ssl.create_default_context(cafile=str(certificate))

    async def test(bench: Bench) -> None:
        ours, theirs = NotingReceiver(), NotingReceiver()
        listener = await bench.loop.create_server(
            lambda: AioTransport(lambda _: theirs, bench.loop, Limits()), "localhost", 0, ssl=server_context
        )
        port = listener.sockets[0].getsockname()[1]
        connector = AioConnector(bench.loop, Limits(), client_context)
        connector.connect(f"pulsar+ssl://localhost:{port}", ours)
        await ours.until(lambda: "opened" in ours.names)
        assert ours.transport is not None
        sent = bytearray()
        for size in (1, 1_024, 2_560_000):
            piece = (bytes(range(256)) * 10_000)[:size]
            ours.transport.write(piece)
            ours.transport.push()  # has no effect: its bytes are the loop's to encrypt
            sent.extend(piece)
            await theirs.until(lambda: len(theirs.data) == len(sent))
        assert theirs.data == sent
        stranger = NotingReceiver()
        connector.connect(f"pulsar+ssl://127.0.0.1:{port}", stranger)
        await stranger.until(lambda: bool(stranger.events))
        assert stranger.names == ["closed"], "the certificate is not for this name"
        listener.close()
        ours.transport.close()
        await ours.until(lambda: "closed" in ours.names)
        await theirs.until(lambda: "closed" in theirs.names)

    run(test)


def test_the_clock_keeps_order_and_survives_a_bug() -> None:
    """Calls come from the loop; one that fails is logged and the next is made; a cancelled one is not."""

    async def test(bench: Bench) -> None:
        clock = AioClock(bench.loop)
        made: list[str] = []
        done = bench.loop.create_future()

        def fail() -> None:
            message = "bug"
            raise RuntimeError(message)

        with structlog.testing.capture_logs() as logs:
            clock.call_soon(lambda: made.append("soon"))
            clock.call_later(0.002, lambda: made.append("later"))
            clock.call_later(0.001, fail)
            clock.call_later(0.001, lambda: made.append("cancelled")).cancel()
            clock.call_later(0.003, lambda: done.set_result(None))
            assert made == []
            before = clock.now()
            await done
        assert made == ["soon", "later"]
        assert clock.now() - before >= 0.002
        assert [log["event"] for log in logs] == ["timer failed"]

    run(test)
