"""The fault proxy itself, between plain sockets: each fault does what it says, and nothing else to the bytes."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from integration.faults.conditions import Conditions, Direction
from integration.faults.frame_border import FrameBorder
from integration.faults.proxy import FaultProxy
from integration.ports import LOOPBACK
from tests.integration.conditions import eventually

PATIENCE_S = 30.0
SILENCE_S = 0.2
"""How long nothing must come before we believe that nothing comes; too short can only make a test pass."""


class Ends:
    """Both ends of one connection through the proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server


class Path:
    """A listening server, the proxy before it, and connections made one by one."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server((LOOPBACK, 0)))
        self._listener.settimeout(PATIENCE_S)
        self.proxy = stack.enter_context(FaultProxy(self._listener.getsockname()[1]))

    def connect(self) -> Ends:
        """Return once both ends stand."""
        client = self._stack.enter_context(socket.create_connection((LOOPBACK, self.proxy.port), PATIENCE_S))
        server, _ = self._listener.accept()
        self._stack.enter_context(server).settimeout(PATIENCE_S)
        client.sendall(b"c")
        assert server.recv(1) == b"c", "the proxy's side stands too"
        return Ends(client, server)


@pytest.fixture
def path() -> Iterator[Path]:
    """Make a path that ends with the test."""
    with ExitStack() as stack:
        yield Path(stack)


def read(end: socket.socket, count: int) -> bytes:
    """Return exactly `count` bytes."""
    data = b""
    while len(data) < count:
        piece = end.recv(count - len(data))
        assert piece, f"ended after {len(data)} of {count} bytes"
        data += piece
    return data


def read_to_end(end: socket.socket) -> bytes:
    """Return everything until FIN or RST."""
    data = b""
    while True:
        try:
            piece = end.recv(65_536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


def assert_silent(end: socket.socket) -> None:
    """Nothing comes for a while, not even an end."""
    end.settimeout(SILENCE_S)
    with pytest.raises(TimeoutError):
        end.recv(1)
    end.settimeout(PATIENCE_S)


def connect_and_read(port: int) -> bytes:
    """Connect, perhaps in vain, and read one byte."""
    with socket.create_connection((LOOPBACK, port), PATIENCE_S) as end:
        return end.recv(1)


def frame(size_bytes: int, filler: bytes = b"x") -> bytes:
    """One frame as Pulsar cuts them."""
    return size_bytes.to_bytes(4, "big") + filler * size_bytes


def test_without_faults_bytes_and_ends_pass_both_ways(path: Path) -> None:
    """More than all buffers hold arrives unchanged, and an end's FIN reaches the other while that still answers."""
    ends = path.connect()
    sent = bytes(range(256)) * 20_000
    writer = threading.Thread(target=ends.client.sendall, args=(sent,))
    writer.start()
    assert read(ends.server, len(sent)) == sent
    writer.join()
    ends.client.shutdown(socket.SHUT_WR)
    assert ends.server.recv(1) == b""
    ends.server.sendall(b"answer")
    assert read(ends.client, 6) == b"answer"
    ends.server.close()
    assert ends.client.recv(1) == b""
    eventually(lambda: path.proxy.connection_count == 0, "the proxy to let go")
    assert path.proxy.forwarded_bytes(Direction.TO_SERVER) == len(sent) + 1


def test_a_delay_holds_bytes_and_jitter_keeps_their_order(path: Path) -> None:
    """What is sent in pieces arrives late, whole and in order."""
    ends = path.connect()
    path.proxy.impair(Conditions(delay_ms=100, jitter_ms=50), Direction.TO_CLIENT)
    began = time.monotonic()
    for number in range(50):
        ends.server.sendall(bytes([number]))
    assert read(ends.client, 50) == bytes(range(50))
    assert time.monotonic() - began >= 0.1
    ends.client.sendall(b"now")
    assert read(ends.server, 3) == b"now"


def test_a_stall_forwards_nothing_and_loses_nothing(path: Path) -> None:
    """Bytes and ends wait while it lasts, connections are accepted, and all of it goes on afterwards."""
    ends = path.connect()
    path.proxy.stall(Direction.TO_SERVER)
    ends.client.sendall(b"late")
    assert_silent(ends.server)
    ends.server.sendall(b"other way")
    assert read(ends.client, 9) == b"other way"
    with socket.create_connection((LOOPBACK, path.proxy.port), PATIENCE_S) as another:
        another.sendall(b"?")
        eventually(lambda: path.proxy.connection_count == 2, "the second connection")
    path.proxy.heal()
    assert read(ends.server, 4) == b"late"


def test_a_stall_presses_back_on_the_sender(path: Path) -> None:
    """A stalled way holds a bounded number of bytes."""
    ends = path.connect()
    path.proxy.stall()
    ends.client.settimeout(SILENCE_S)
    with pytest.raises(TimeoutError):
        ends.client.sendall(bytes(64 * 1024 * 1024))


def test_a_bound_of_bandwidth_slows_each_connection_down(path: Path) -> None:
    """A tenth of a second's bytes take no less than that; the other way is as fast as ever."""
    ends = path.connect()
    path.proxy.impair(Conditions(bytes_per_s=100_000), Direction.TO_CLIENT)
    began = time.monotonic()
    ends.server.sendall(bytes(30_000))
    read(ends.client, 30_000)
    assert time.monotonic() - began >= 0.2
    ends.client.sendall(b"at once")
    assert read(ends.server, 7) == b"at once"


def test_a_cut_resets_both_ends(path: Path) -> None:
    """Both get RST, not FIN, and new connections are taken."""
    ends = path.connect()
    assert path.proxy.cut() == 1
    for end in (ends.client, ends.server):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    path.connect()


def test_a_half_close_ends_one_way_only(path: Path) -> None:
    """The receiver sees FIN, what its peer sends is dropped, and the receiver may still speak."""
    ends = path.connect()
    assert path.proxy.half_close(Direction.TO_SERVER) == 1
    assert ends.server.recv(1) == b""
    ends.client.sendall(b"into the void")
    ends.server.sendall(b"heard")
    assert read(ends.client, 5) == b"heard"
    ends.server.close()
    assert ends.client.recv(1) == b"", "the end of the way back is passed on"


def test_a_truncation_cuts_inside_a_frame(path: Path) -> None:
    """Where the bound falls on the border of two frames, the cut is one byte into the second."""
    ends = path.connect()
    ends.server.sendall(frame(10))
    read(ends.client, 14)
    assert path.proxy.truncate(Direction.TO_CLIENT, len(frame(10))) == 1
    ends.server.sendall(frame(10) + frame(20))
    assert read_to_end(ends.client) == frame(10) + frame(20)[:1]
    eventually(lambda: path.proxy.connection_count == 0, "the cut")
    path.connect()


def test_a_refusing_proxy_lets_standing_connections_be(path: Path) -> None:
    """The kernel refuses for it; on the same port it accepts again when told."""
    ends = path.connect()
    path.proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, path.proxy.port), PATIENCE_S)
    ends.client.sendall(b"still here")
    assert read(ends.server, 10) == b"still here"
    path.proxy.accept()
    path.proxy.accept()
    path.connect()


def test_a_target_that_refuses_is_passed_on() -> None:
    """Where nothing listens behind the proxy, the client's connection is reset."""
    with socket.socket() as unused:
        unused.bind((LOOPBACK, 0))  # kept, so that no other program listens there
        with FaultProxy(unused.getsockname()[1]) as proxy, pytest.raises(ConnectionResetError):
            connect_and_read(proxy.port)


def test_every_offset_is_known_to_be_inside_a_frame_or_not() -> None:
    """However the stream is cut into pieces, and whatever the bound, the first offset inside a frame is found."""
    stream = frame(3) + frame(0) + frame(1) + frame(70_000)
    borders = {7, 11, 16, len(stream)}
    for piece_bytes in (1, 2, 5, len(stream)):
        for bound in range(1, 24):
            border, passed, found = FrameBorder(), 0, None
            while found is None:
                piece = stream[passed : passed + piece_bytes]
                count = border.first_inside(piece, max(0, bound - passed))
                passed, found = (passed + len(piece), None) if count is None else (passed, passed + count)
            assert found == next(offset for offset in range(bound, len(stream)) if offset not in borders)


def test_a_forgotten_connection_carries_nothing_and_neither_end_is_told(path: Path) -> None:
    """Not even of the other's end; those that carried less go on."""
    lost, other = path.connect(), path.connect()
    lost.server.sendall(b"x" * 100)
    assert read(lost.client, 100) == b"x" * 100
    assert path.proxy.forget(100) == 1
    lost.client.sendall(b"y")
    lost.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    lost.client.close()
    lost.server.settimeout(SILENCE_S)
    with pytest.raises(TimeoutError):
        lost.server.recv(1)
    other.server.sendall(b"z")
    assert read(other.client, 1) == b"z"
