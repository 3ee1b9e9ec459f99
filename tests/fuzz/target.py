"""What a fuzz target is: a function of bytes that raises when a promise is broken, and inputs to begin with.

A target knows nothing of the engine, so that one function serves the guided search (`tests.fuzz.engine`), the replay of
known inputs in every test run, and a person with one file in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.wire.builders import GOLDEN, golden

HERE: Final = Path(__file__).parent
REGRESSIONS: Final = HERE / "regressions"
"""Inputs that once broke a promise, one folder for each target."""


class BrokenPromiseError(Exception):
    """The code under test did something that it says it never does."""


def promise(kept: object, what: str) -> None:
    """Raise unless a promise was kept; an `assert` would mix ours with those of the code under test."""
    if not kept:
        raise BrokenPromiseError(what)


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to search for faults in."""

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    """Valid inputs to begin with: what official clients sent, in the target's own form."""
    input_bytes_max: int = 4096

    def regressions(self) -> list[Path]:
        """Files of inputs that once failed."""
        folder = REGRESSIONS / self.name
        return sorted(folder.iterdir()) if folder.is_dir() else []


class Choices:
    """Reads an input as a row of decisions; where the input has ended every decision is 0 or empty.

    So every input means something, a prefix of an input means the same up to its end, and a flipped byte changes one
    decision.
    """

    def __init__(self, data: bytes) -> None:
        """Begin at the first byte."""
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        """Whether anything is left."""
        return self._at < len(self._data)

    def number(self, limit: int = 256) -> int:
        """A number below `limit`, from one byte, or from two for a larger limit."""
        size = 1 if limit <= 1 << 8 else 2
        return int.from_bytes(self.take(size), "big") % limit

    def varint(self) -> int:
        """Any number of 64 bits, small ones short."""
        value = shift = 0
        while shift < 64:
            (byte,) = self.take(1) or b"\0"
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        return value & (1 << 64) - 1

    def flag(self) -> bool:
        """Yes or no."""
        return self.number(2) == 1

    def take(self, size: int) -> bytes:
        """So many bytes, or as many as are left."""
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def sized(self) -> bytes:
        """Bytes behind their size, which takes two bytes."""
        return self.take(self.number(1 << 16))

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data))


def golden_frames() -> list[bytes]:
    """Every frame of every recording of an official client or of a broker."""
    return [frame for path in sorted(GOLDEN.iterdir()) for frame in golden(path.stem)]


def sized(data: bytes) -> bytes:
    """As `Choices.sized` reads it."""
    return len(data).to_bytes(2, "big") + data
