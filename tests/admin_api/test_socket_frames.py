"""Frames by hand, beside the library that knows the protocol."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from admin_api.socket_frames import FrameReader, written

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = (0, 1, 124, 125, 126, 127, 300, 65_535, 65_536)


class Taker:
    """Gives what is no short text to the library, as the connection does; what came of it, in order."""

    def __init__(self) -> None:
        self.library = _opened()
        self.came: list[tuple[Opcode, bytes]] = []
        self.by_hand = 0

    @property
    def takes_texts(self) -> bool:
        """As the port says."""
        return self.library.state is OPEN and self.library.current_size is None

    def text(self, data: bytes) -> None:
        """As the port says."""
        self.by_hand += 1
        self.came.append((Opcode.TEXT, data))

    def other(self, data: bytes) -> None:
        """As the port says."""
        assert data
        self.library.receive_data(data)
        self.came += _frames(self.library)


def _opened() -> ServerProtocol:
    return ServerProtocol(state=OPEN, max_size=1 << 20)


def _frames(library: ServerProtocol) -> Iterator[tuple[Opcode, bytes]]:
    for event in library.events_received():
        assert isinstance(event, Frame)
        yield event.opcode, bytes(event.data)


def _masked(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin=fin).serialize(mask=True)


STREAM = b"".join(
    (
        _masked(Opcode.TEXT, b"first"),
        _masked(Opcode.TEXT, b""),
        _masked(Opcode.PING, b"ping"),
        _masked(Opcode.TEXT, b"x" * 125),
        _masked(Opcode.TEXT, b"y" * 126),
        _masked(Opcode.BINARY, b"\x81\x85 which is no frame"),
        _masked(Opcode.TEXT, b"a", fin=False),
        _masked(Opcode.PONG, b"within"),
        _masked(Opcode.CONT, b"b", fin=False),
        _masked(Opcode.CONT, b"c"),
        _masked(Opcode.BINARY, b"z" * 70_000),
        _masked(Opcode.TEXT, b"last"),
    )
)


def _by_library(data: bytes) -> list[tuple[Opcode, bytes]]:
    library = _opened()
    library.receive_data(data)
    return list(_frames(library))


def test_what_is_read_is_what_the_library_reads() -> None:
    """In the same order, in one piece, byte by byte, and cut anywhere; short texts by hand."""
    expected = _by_library(STREAM)
    chance = random.Random(25)  # noqa: S311 - a repeatable choice, no secret
    for most in (len(STREAM), 1, *(chance.randrange(2, 400) for _ in range(20))):
        taker = Taker()
        reader = FrameReader(taker)
        at = 0
        while at < len(STREAM):
            size = chance.randint(1, most) if most > 1 else 1
            reader.feed(STREAM[at : at + (len(STREAM) if most == len(STREAM) else size)])
            at += len(STREAM) if most == len(STREAM) else size
        assert taker.came == expected
        assert taker.by_hand == 4


@pytest.mark.parametrize(
    "bad",
    [
        Frame(Opcode.TEXT, b"x").serialize(mask=False),
        bytes((0xC1, 0x81, 0, 0, 0, 0)) + b"x",
        bytes((0x82, 0xFF)) + b"\xff" * 8,
        _masked(Opcode.CONT, b"x"),
        _masked(Opcode.TEXT, b"x", fin=False) + _masked(Opcode.TEXT, b"y"),
        Frame(Opcode.CLOSE, b"\x03\xe8").serialize(mask=True),
    ],
    ids=["no mask", "a reserved bit", "a length without end", "of nothing", "within another", "the end"],
)
def test_behind_an_end_nothing_is_taken(bad: bytes) -> None:
    """Neither by hand nor by the library, which says what was wrong."""
    taker = Taker()
    reader = FrameReader(taker)
    for byte in _masked(Opcode.TEXT, b"before") + bad + _masked(Opcode.TEXT, b"behind") * 3:
        reader.feed(bytes([byte]))
    assert taker.came[0] == (Opcode.TEXT, b"before")
    assert all(data != b"behind" for _, data in taker.came)
    assert taker.library.close_sent is not None


@pytest.mark.parametrize("size", SIZES)
def test_what_is_written_is_what_the_library_writes(size: int) -> None:
    """Text and bytes of every kind of length, several at once."""
    text, data = "é" + "x" * size, b"\x00" * size
    expected = [Frame(Opcode.TEXT, text.encode()), Frame(Opcode.BINARY, data), Frame(Opcode.TEXT, b"x" * size)]
    assert written([text, data, "x" * size]) == b"".join(frame.serialize(mask=False) for frame in expected)
