"""WebSockets as attackers speak them, frame by frame: refused with the code that says why, at a bounded cost."""

from __future__ import annotations

import asyncio
import os
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from admin_api.routes.sockets import PARAMETERS_MAX
from admin_api.server import SOCKET_FRAME_BYTES_MAX
from admin_api.socket_protocol import FRAGMENTS_MAX, SLICE_BYTES, SocketProtocol
from tests.admin_api.test_sockets import WORKER, Gateway, accept, play, serving, until

if TYPE_CHECKING:
    from collections.abc import Awaitable

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
FIN, RSV1, RSV2 = 0x80, 0x40, 0x20
PROTOCOL_ERROR, INVALID_DATA, TOO_BIG = 1002, 1007, 1009


def frame(
    opcode: int, payload: bytes = b"", *, flags: int = FIN, masked: bool = True, length: int | None = None
) -> bytes:
    """One, as written on the wire (RFC 6455, section 5.2); `length` may be a lie."""
    size = len(payload) if length is None else length
    mask_bit = 0x80 if masked else 0
    if size < 126:
        head = struct.pack("!BB", opcode | flags, size | mask_bit)
    elif size < 1 << 16:
        head = struct.pack("!BBH", opcode | flags, 126 | mask_bit, size)
    else:
        head = struct.pack("!BBQ", opcode | flags, 127 | mask_bit, size)
    return head + (b"\0\0\0\0" if masked else b"") + payload


class Attacker(NamedTuple):
    """A client that has joined, and writes what it likes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    handshake: bytes

    async def next(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame that comes."""
        first, size = await self.reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", await self.reader.readexactly(2))
        return first & 0x0F, await self.reader.readexactly(size)

    async def end(self) -> int:
        """The code with which it is closed; whatever comes before is passed over."""
        while True:
            opcode, payload = await self.next()
            if opcode == CLOSE:
                return int(struct.unpack("!H", payload[:2])[0])


async def attacker(address: str, *headers: str) -> Attacker:
    """Let one join."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    more = "".join(f"{line}\r\n" for line in headers)
    writer.write(
        f"GET /ws/{WORKER} HTTP/1.1\r\nhost: {address}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n{more}"
        "sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nsec-websocket-version: 13\r\n\r\n".encode()
    )
    handshake = await reader.readuntil(b"\r\n\r\n")
    assert handshake.startswith(b"HTTP/1.1 101 ")
    return Attacker(reader, writer, handshake)


async def still_serves(address: str, gateway: Gateway) -> None:
    """Another worker joins and is heard."""
    other = await attacker(address)
    gateway.said.clear()
    other.writer.write(frame(TEXT, b"hello"))
    await until(lambda: "hello" in gateway.said)
    other.writer.close()


BAD = {
    "a length of a terabyte": (frame(BINARY, length=1 << 40), TOO_BIG),
    "a byte too much": (frame(BINARY, length=SOCKET_FRAME_BYTES_MAX + 1), TOO_BIG),
    "too much in two": (
        frame(BINARY, b"x" * (SOCKET_FRAME_BYTES_MAX - 1), flags=0) + frame(CONT, b"xx"),
        TOO_BIG,
    ),
    "too many fragments": (frame(TEXT, flags=0) + frame(CONT, flags=0) * (FRAGMENTS_MAX + 1), TOO_BIG),
    "compressed, which was not agreed on": (frame(TEXT, b"\xaa\x56\x4a", flags=FIN | RSV1), PROTOCOL_ERROR),
    "another reserved bit": (frame(TEXT, b"x", flags=FIN | RSV2), PROTOCOL_ERROR),
    "an opcode of nobody's": (frame(0x3, b"x"), PROTOCOL_ERROR),
    "no mask": (frame(TEXT, b"x", masked=False), PROTOCOL_ERROR),
    "a continuation of nothing": (frame(CONT, b"x"), PROTOCOL_ERROR),
    "a message within another": (frame(TEXT, b"x", flags=0) + frame(TEXT, b"y"), PROTOCOL_ERROR),
    "a ping in fragments": (frame(PING, b"x", flags=0), PROTOCOL_ERROR),
    "a ping that is too long": (frame(PING, b"x" * 126), PROTOCOL_ERROR),
    "a close of one byte": (frame(CLOSE, b"x"), PROTOCOL_ERROR),
    "a close with a code that none has": (frame(CLOSE, b"\x00\x01"), PROTOCOL_ERROR),
    "text that is no UTF-8": (frame(TEXT, b"\xff\xfe"), INVALID_DATA),
    "half a character": (frame(TEXT, b"\xe2\x82"), INVALID_DATA),
    "half a character in fragments": (frame(TEXT, b"\xe2", flags=0) + frame(CONT, b"\x82"), INVALID_DATA),
    "a surrogate": (frame(TEXT, b"\xed\xa0\x80"), INVALID_DATA),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_websocket_ends_with_its_code(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The gateway hears of the end and of nothing else, nothing is logged, and others are served."""
    sent, code = BAD[name]

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway) as address:
            client = await attacker(address)
            client.writer.write(sent)
            assert await client.end() == code
            await until(lambda: gateway.ends)
            assert gateway.said == []
            client.writer.close()
            await still_serves(address, gateway)

    play(scenario())
    assert [record.message for record in caplog.records if record.name.startswith("uvicorn")] == []


def test_compression_is_not_agreed_on() -> None:
    """So that a kilobyte cannot become a megabyte on the loop."""

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway) as address:
            client = await attacker(address, "sec-websocket-extensions: permessage-deflate; client_max_window_bits")
            assert b"sec-websocket-extensions" not in client.handshake.lower()
            client.writer.close()

    play(scenario())


def test_honest_fragments_are_one_message() -> None:
    """With pings between them, a character over two of them, byte by byte, as large as may be."""
    text = "a€b" * 100
    pieces = [bytes([byte]) for byte in text.encode()]
    large = os.urandom(SOCKET_FRAME_BYTES_MAX)

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway) as address:
            client = await attacker(address)
            client.writer.write(frame(TEXT, pieces[0], flags=0))
            for piece in pieces[1:-1]:
                client.writer.write(frame(CONT, piece, flags=0) + frame(PING, b"p"))
            client.writer.write(frame(CONT, pieces[-1]))
            client.writer.write(frame(BINARY, large[:1000], flags=0) + frame(CONT, large[1000:]))
            await until(lambda: len(gateway.said) == 2)
            assert gateway.said == [text, large]
            for _ in pieces[1:-1]:
                assert await client.next() == (PONG, b"p")
            client.writer.close()

    play(scenario())


class Slices(NamedTuple):
    """What was read, slice by slice."""

    turns: list[int]
    """The turn of the loop of each."""
    held: list[int]
    """How many messages waited to be taken behind each."""


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> Slices:
    """Those of all connections of the test."""
    seen = Slices([], [])
    now = [0]
    inner = SocketProtocol._read_slice

    def turn() -> None:
        now[0] += 1
        asyncio.get_running_loop().call_soon(turn)

    def reading(self: SocketProtocol) -> None:
        if now[0] == 0:
            turn()
        inner(self)
        seen.turns.append(now[0])
        seen.held.append(self.queue.qsize())

    monkeypatch.setattr(SocketProtocol, "_read_slice", reading)
    return seen


async def flooded(flood: bytes, awaited: Awaitable[object], client: Attacker) -> None:
    """Send all of it while `awaited` happens."""
    client.writer.write(flood)
    await asyncio.gather(client.writer.drain(), awaited)


@pytest.mark.parametrize("payload", [b"", b"x" * 125], ids=["empty", "full"])
def test_a_flood_of_pings_leaves_the_loop_to_others(slices: Slices, payload: bytes) -> None:
    """Each is answered to who reads, and between two slices of them everybody else has a turn."""
    count = 20_000
    flood = frame(PING, payload) * count

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway, keep_alive_s=600) as address:
            client = await attacker(address)

            async def answers() -> None:
                for _ in range(count):
                    assert await client.next() == (PONG, payload)

            await flooded(flood, answers(), client)
            await still_serves(address, gateway)
            client.writer.close()

    play(scenario())
    assert len(slices.turns) >= len(flood) // SLICE_BYTES
    assert sum(later > earlier for earlier, later in pairwise(slices.turns)) >= len(slices.turns) * 0.9


def test_a_flood_of_pings_whose_answers_nobody_reads_is_cut() -> None:
    """Their answers would pile up here."""

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway, keep_alive_s=600) as address:
            client = await attacker(address)
            client.writer.transport.set_write_buffer_limits(high=1 << 16)
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # as one that does not read
            flood = frame(PING, b"x" * 125) * 1_000
            while not gateway.ends:
                client.writer.write(flood)
                await asyncio.sleep(0)
            client.writer.close()
            await still_serves(address, gateway)

    play(scenario())


def test_a_flood_of_tiny_messages_waits_until_they_are_taken(slices: Slices) -> None:
    """All arrive in order; no more than a slice of them is held at any time."""
    count = 20_000
    flood = b"".join(frame(TEXT, b"%05d" % number) for number in range(count))

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway, keep_alive_s=600) as address:
            client = await attacker(address)
            await flooded(flood, until(lambda: len(gateway.said) == count), client)
            assert gateway.said == [f"{number:05d}" for number in range(count)]
            client.writer.close()

    play(scenario())
    assert len(slices.turns) >= len(flood) // SLICE_BYTES
    assert max(slices.held) <= SLICE_BYTES // len(frame(TEXT, b"00000")) + 1


def test_a_query_has_a_bound_before_anybody_is_authenticated() -> None:
    """And what is within it is read: of a parameter that is there twice the first."""
    most = f"/ws/{WORKER}&consumerName=first&consumerName=second" + "".join(f"&{i}=" for i in range(PARAMETERS_MAX - 3))

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway) as address:
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"ws://{address}{most}&more=", proxy=None)
            assert refused.value.response.status_code == 400
            said = f"the query may have {PARAMETERS_MAX} parameters, not {PARAMETERS_MAX + 1}"
            assert said in refused.value.response.body.decode()
            assert not gateway.requests
            async with connect(f"ws://{address}{most}", proxy=None):
                assert [request.consumer_name for request in gateway.requests] == ["first"]

    play(scenario())
