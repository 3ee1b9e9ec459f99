"""Fuzzing the frame splitter and the command parser.

Input: how the stream is cut (1 byte), then the stream. Promises: however a stream is cut, it yields the same frames and
the same verdict; no more than one frame's bytes are held; a command parses or raises FrameError, and what parsed says
the same when it is written and read again.
"""

from __future__ import annotations

from collections.abc import Iterable

from proxy.wire.errors import FrameError
from proxy.wire.frames import (
    MIN_FRAME_BYTES,
    FrameSplitter,
    encode_command,
    frame_type,
    parse_command,
    payload_start,
)
from tests.fuzz.target import Choices, Target, golden_frames, promise

FRAME_BYTES_MAX = 2048


def split(stream: bytes, piece_bytes: int, kinds: frozenset[int] = frozenset()) -> tuple[list[bytes], str]:
    """The frames of a stream fed in pieces, runs of these types as such, and the error it ended with."""
    splitter = FrameSplitter(FRAME_BYTES_MAX)
    frames: list[bytes] = []
    for start in range(0, len(stream), piece_bytes):
        try:
            piece = stream[start : start + piece_bytes]
            run, count = splitter.leading_run(piece, kinds)
            passed = FrameSplitter(FRAME_BYTES_MAX).feed(piece[:run])
            promise(len(passed) == count, "a run is so many whole frames")
            promise(all(frame_type(frame) in kinds for frame in passed), "a run has no other frames")
            frames += [*passed, *splitter.feed(piece[run:])]
        except FrameError as error:
            return frames, str(error)
        promise(splitter._held_bytes < FRAME_BYTES_MAX, "less than one frame is held")
    held = splitter._held_bytes
    promise(sum(map(len, frames)) + held == len(stream), "every byte is in a frame or held")
    return frames, ""


def check_command(frame: bytes) -> None:
    """Parse one frame in every way."""
    promise(MIN_FRAME_BYTES <= len(frame) <= FRAME_BYTES_MAX, "a frame's size is within its bounds")
    promise(payload_start(frame) <= len(frame), "a command ends within its frame")
    try:
        kind: int | None = frame_type(frame)
    except FrameError:
        kind = None
    try:
        command = parse_command(frame)
    except FrameError:
        return
    promise(kind is not None, "a command that parses has a type")
    written = encode_command(command)
    promise(parse_command(written) == command, "a command survives being written and read")


def run(data: bytes) -> None:
    """Cut a stream in two ways and parse all it holds."""
    choices = Choices(data)
    piece_bytes = 1 + choices.number()
    stream = choices.rest()
    whole, whole_error = split(stream, max(len(stream), 1))
    frames, error = split(stream, piece_bytes, frozenset(range(0, 128, 3)))
    if whole_error:
        promise(error, "a stream refused in one piece is refused in several")
    else:
        promise((frames, error) == (whole, ""), "a stream has one meaning however it is cut")
    for frame in frames:
        check_command(frame)


def seeds() -> Iterable[bytes]:
    """Every golden frame alone, and the shorter ones in one stream."""
    frames = golden_frames()
    yield from (b"\x06" + frame for frame in frames)
    yield b"\x20" + b"".join(frame for frame in frames if len(frame) < 100)[:4000]


TARGET = Target("frames", run, seeds)
