"""Compressed payloads, as Pulsar's clients write them.

Problem: to see the keys in a batch the gateway has to decompress it, and a few bytes from any producer can claim, or
grow to, gigabytes.
Rule: nothing is allocated before the declared size is within the caller's limit, no codec may write past the declared
size, and what comes out must have that very size. Where a format declares a size of its own, that must agree first.
Why not the libraries' plain `decompress`: zlib's and zstd's take their output size from the data.

All of them give the interpreter's lock back while they work. What they made must not be copied in one go under that
lock, either: 64 MiB take a tenth of a second, in which no other thread runs. So data larger than `PIECE_BYTES`
is put together from pieces, by a `join` that needs no lock.

LZ4 and Snappy are raw blocks without a frame, which is why `uncompressed_size` travels in the metadata; ZLIB is a zlib
stream, ZSTD one frame. Source: `CompressionCodec*` in Pulsar's Java and C++ clients.
"""

import zlib
from collections.abc import Callable
from mmap import mmap

import cramjam
import lz4.block  # type: ignore[import-untyped]  # the package has no types
import zstandard

from proxy.wire.errors import CodecError
from proxy.wire.pulsar_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, CompressionType

_ZSTD_LEVEL = 3  # the clients'
_ZSTD_MAX_WINDOW_BYTES = 8 << 20
"""What a frame that declares no size may make the decoder allocate: the window every zstd decoder has to accept."""

PIECE_BYTES = 512 << 10
"""More is put together from pieces of this size."""
_FED_BYTES = 64 << 10
"""Of a zlib stream at a time: what is left of it is copied whenever a piece is full."""

_idle_zstd: list[zstandard.ZstdDecompressor] = []
"""Kept since a new one costs more than a small batch's work. Taken out while in use, so no two threads share one."""


def decompress(compression: int, payload: bytes | memoryview, uncompressed_size: int, limit: int) -> bytes:
    """The payload's `uncompressed_size` bytes, at most `limit`.

    `compression` is the metadata's CompressionType. An uncompressed payload is returned as it is, whichever size is
    declared: clients do not look at it either. Raises CodecError where the size is over the limit or not what comes
    out, the data is damaged or followed by more, or the type is unknown.
    """
    if compression == NONE:
        if len(payload) > limit:
            raise _over_limit(len(payload), limit)
        return bytes(payload)
    if uncompressed_size > limit:
        raise _over_limit(uncompressed_size, limit)
    decode = _DECODERS.get(compression)
    if decode is None:
        raise CodecError(f"compression type {compression}", "in the metadata", f"one of {sorted(_DECODERS)} is known")
    data = decode(payload, uncompressed_size)
    if len(data) != uncompressed_size:
        raise _wrong_size(f"{len(data)} bytes or more", compression, uncompressed_size)
    return data


def opened_payload(tail: bytes, start: int, compression: int, uncompressed_size: int, limit: int) -> bytes:
    """The payload of an entry's tail, which begins at `start`: as `decompress` does it, if it is compressed at all."""
    payload = tail[start:]
    return decompress(compression, payload, uncompressed_size, limit) if compression else payload


def compress(compression: int, data: bytes) -> bytes:
    """The data as Pulsar's clients would send it. Raises CodecError where the type is unknown."""
    encode = _ENCODERS.get(compression)
    if encode is None:
        raise CodecError(f"compression type {compression}", "asked for", f"one of {sorted(_ENCODERS)} is known")
    return encode(data)


def _decode_lz4(payload: bytes | memoryview, size: int) -> bytes:
    try:
        if size > PIECE_BYTES:
            # Its other function fills up what is missing with zeros; and fresh pages cost nothing until written to.
            # Where a block is damaged it may take the first bytes for a size, and find something else of that size.
            with mmap(-1, size) as room:
                return _in_pieces(room, cramjam.lz4.decompress_block_into(payload, room, output_len=size))
        data: bytes = lz4.block.decompress(payload, uncompressed_size=size)
    except (lz4.block.LZ4BlockError, cramjam.DecompressionError, ValueError, OverflowError) as error:
        raise _damaged(LZ4, payload, error) from None
    return data


def _decode_zlib(payload: bytes | memoryview, size: int) -> bytes:
    decoder = zlib.decompressobj()
    try:
        data, unread = _inflate(decoder, payload, size + 1)  # one more than allowed tells too much from just right
    except zlib.error as error:
        raise _damaged(ZLIB, payload, error) from None
    if decoder.unused_data or (decoder.eof and unread):
        raise _damaged(ZLIB, payload, "followed by more")
    return data  # Java's client flushes its stream and never ends it, so the end is not asked for


def _inflate(decoder: "zlib._Decompress", payload: bytes | memoryview, size: int) -> tuple[bytes, int]:
    """At most `size` bytes that come out, and how many of the payload were not looked at."""
    if size <= PIECE_BYTES:
        return decoder.decompress(payload, size), 0
    pieces = []
    fed = 0
    while size and fed < len(payload) and not decoder.eof:
        left: bytes | memoryview = payload[fed : fed + _FED_BYTES]
        fed += len(left)
        while size and (piece := decoder.decompress(left, min(size, PIECE_BYTES))):
            pieces.append(piece)
            size -= len(piece)
            left = decoder.unconsumed_tail
    return b"".join(pieces), len(payload) - fed


def _decode_zstd(payload: bytes | memoryview, size: int) -> bytes:
    try:
        # A frame's own size would be allocated even beyond the limit, so it has to agree first.
        declared = zstandard.get_frame_parameters(payload).content_size
        if declared not in {size, zstandard.CONTENTSIZE_UNKNOWN}:
            raise _wrong_size(f"a frame of {declared} bytes", ZSTD, size)
        if not size and declared == size:
            return b""  # the frame says so itself
        decoder = _idle_zstd.pop() if _idle_zstd else zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES)
        # Zero would mean no bound, so an empty payload has room for one byte, which must stay unused.
        data = decoder.decompress(payload, max_output_size=size or 1, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise _damaged(ZSTD, payload, error) from None
    _idle_zstd.append(decoder)
    return data


def _decode_snappy(payload: bytes | memoryview, size: int) -> bytes:
    try:
        declared = cramjam.snappy.decompress_raw_len(payload)
        if declared != size:
            raise _wrong_size(f"a block of {declared} bytes", SNAPPY, size)
        return _in_pieces(cramjam.snappy.decompress_raw(payload), size)
    except cramjam.DecompressionError as error:
        raise _damaged(SNAPPY, payload, error) from None


def _in_pieces(made: mmap | cramjam.Buffer, size: int) -> bytes:
    """The first bytes of it, with the lock held for no longer than a piece takes."""
    with memoryview(made) as view:
        if size <= PIECE_BYTES:
            return bytes(view[:size])
        ends = range(PIECE_BYTES, size + PIECE_BYTES, PIECE_BYTES)
        return b"".join([bytes(view[end - PIECE_BYTES : min(end, size)]) for end in ends])


_DECODERS: dict[int, Callable[[bytes | memoryview, int], bytes]] = {
    LZ4: _decode_lz4,
    ZLIB: _decode_zlib,
    ZSTD: _decode_zstd,
    SNAPPY: _decode_snappy,
}

_ENCODERS: dict[int, Callable[[bytes], bytes]] = {
    NONE: bytes,
    LZ4: lambda data: lz4.block.compress(data, store_size=False),
    ZLIB: zlib.compress,
    ZSTD: lambda data: zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(data),
    SNAPPY: lambda data: bytes(cramjam.snappy.compress_raw(data)),
}


def _over_limit(size: int, limit: int) -> CodecError:
    return CodecError(f"a payload of {size} bytes", "when uncompressed", f"at most {limit} are allowed")


def _wrong_size(what: str, compression: int, size: int) -> CodecError:
    return CodecError(what, f"in a {CompressionType.Name(compression)} payload", f"the metadata declares {size}")


def _damaged(compression: int, payload: bytes | memoryview, error: object) -> CodecError:
    name = CompressionType.Name(compression)
    return CodecError(f"a damaged {name} payload ({error})", f"of {len(payload)} bytes", "send it as the clients do")
