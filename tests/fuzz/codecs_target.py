"""Fuzzing decompression: what a payload says of its size, what it grows to, and what that costs.

Input: codec (1 byte), declared size (2 bytes), how (1 byte; from 8 on in pieces), payload. Promises: exactly the
declared size or CodecError, never over the limit; what comes out is what another reader of the same format gets; and no
payload,
whatever it claims, makes the process grow by more than the limit, the largest decoding window and some slack. That is
measured from outside the allocators: C's, Rust's and Python's alike raise the peak of resident memory. Memory that is
claimed and never touched meets the bound of the process's address space (`tests.fuzz.engine`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import lz4.block  # type: ignore[import-untyped]  # the package has no types
import zstandard

from proxy.wire import codecs
from proxy.wire.codecs import compress, decompress
from proxy.wire.errors import CodecError
from proxy.wire.metadata import peek
from proxy.wire.pulsar_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD
from tests.fuzz.target import Choices, Target, golden_frames, promise
from tests.wire.builders import tail_of

LIMIT = 1 << 15
WINDOW_BYTES = 8 << 20
GROWTH_BYTES_MAX = 2 * WINDOW_BYTES + LIMIT
_PIECE_BYTES = codecs.PIECE_BYTES
_SMALL_PIECE_BYTES = 100
"""Half of the payloads are put together from pieces, as only much larger ones are elsewhere."""
_IN_PIECES = 8
CODECS = (NONE, LZ4, ZLIB, ZSTD, SNAPPY)
KINDS = (*CODECS, 5, 99, -1)
_STATUS = Path("/proc/self/status")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_FORGET_PEAK = Path("/proc/self/clear_refs")
"""Where a 5 resets the peak (proc_pid_clear_refs(5))."""


def begin_peak() -> int:
    """Forget what this process once had resident; what it has now, in bytes.

    A peak of before, its own or that of who started it, would hide every smaller one.
    """
    _FORGET_PEAK.write_text("5")
    return peak_bytes()


def peak_bytes() -> int:
    """The most memory this process had resident since the last `begin_peak`."""
    (peak_kb,) = _PEAK.findall(_STATUS.read_text())
    return int(peak_kb) * 1024


def run(data: bytes) -> None:
    """Decompress one payload; or compress it first, cut or lengthen it, and lie about its size."""
    choices = Choices(data)
    kind = KINDS[choices.number(len(KINDS))]
    declared, how = choices.number(1 << 16), choices.number(16)
    codecs.PIECE_BYTES = _SMALL_PIECE_BYTES if how >= _IN_PIECES else _PIECE_BYTES
    how %= _IN_PIECES
    payload = choices.rest()
    if how and kind in CODECS:
        original = payload * (1 << (how - 1))
        payload = compress(kind, original)
        promise(len(original) > LIMIT or opened(kind, payload, len(original)) == original, "what is packed comes back")
    result = opened(kind, payload, declared)
    if result is None:
        return
    promise(kind == NONE or len(result) == declared, "exactly the declared size comes out")
    promise(len(result) <= LIMIT, "never more than the limit")
    # There is no other reader of Snappy here; and a Zstandard frame may say that it is empty and hold what it likes. A
    # damaged LZ4 block may open to something if it is large, but a right one to nothing else.
    if kind != SNAPPY and (result or kind == ZLIB) and not (kind == LZ4 and damaged_lz4(payload, declared)):
        promise(result == otherwise(kind, payload, declared), "another reader gets the same")


def opened(kind: int, payload: bytes, declared: int) -> bytes | None:
    """What comes out, or None for an error; either costs no more memory than it may."""
    before = begin_peak()
    try:
        result = decompress(kind, payload, declared, LIMIT)
    except CodecError:
        result = None
    grown = peak_bytes() - before
    promise(grown <= GROWTH_BYTES_MAX, f"{len(payload)} bytes cost no more than {GROWTH_BYTES_MAX} (took {grown})")
    return result


def damaged_lz4(payload: bytes, declared: int) -> bool:
    """Whether it is put together from pieces, and the library for small blocks refuses it."""
    if declared <= codecs.PIECE_BYTES:
        return False
    try:
        lz4.block.decompress(payload, uncompressed_size=declared)
    except lz4.block.LZ4BlockError:
        return True
    return False


def otherwise(kind: int, payload: bytes, declared: int) -> bytes:
    """Decompress by other means, with room for one byte more than was declared: too much must show."""
    if kind == LZ4:
        data: bytes = lz4.block.decompress(payload, uncompressed_size=declared + 1)
        return data
    if kind == ZLIB:
        return zlib.decompressobj().decompress(payload, declared + 1)
    if kind == ZSTD:
        decoder = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        with decoder.stream_reader(payload) as reader:
            return reader.read(declared + 1)
    return payload


def seeds() -> Iterable[bytes]:
    """The official clients' payloads, right and with another size; bombs; streams that do not say their size."""
    for frame in golden_frames():
        if tail := tail_of(frame):
            metadata, _, start = peek(tail)
            yield _input(metadata.compression, metadata.uncompressed_size, tail[start:])
    for kind in CODECS:
        for actual in (0, 100, 60_000, 4 << 20):
            packed = compress(kind, bytes(actual))
            if len(packed) <= 1 << 15:
                sizes = {0, 1, 1000, min(actual, 65_535)}
                yield from (_input(kind, size, packed, how) for size in sizes for how in (0, 8))
        yield bytes((KINDS.index(kind), 0, 100, 7)) + b"some text, some text"
    some = b"order 1, order 2, " * 60
    for lie in LIES:
        yield from (_input(ZSTD, size, lie(compress(ZSTD, some)), pieces) for size in (0, 1_080) for pieces in (0, 8))
    for actual in (0, 100, 4 << 20):
        streamed = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(actual))
        yield from (_input(ZSTD, size, streamed) for size in (0, 100, 1000))


LIES: tuple[Callable[[bytes], bytes], ...] = (
    lambda frame: frame * 2,
    lambda frame: frame + b"\x50\x2a\x4d\x18\x04\0\0\0skip",
    lambda frame: b"\x28\xb5\x2f\xfd\0\xa8\x01\0\0" + frame,  # a window of 2 GiB
    lambda frame: frame[:-3],
)
"""Frames one after the other, one to be skipped, a huge window, and a cut one."""


def _input(kind: int, size: int, payload: bytes, how: int = 0) -> bytes:
    return bytes((KINDS.index(kind),)) + (size % (1 << 16)).to_bytes(2, "big") + bytes((how,)) + payload


TARGET = Target("codecs", run, seeds)
