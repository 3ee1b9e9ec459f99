"""Payloads compressed as Pulsar's clients do, and payloads that lie."""

import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import codecs
from proxy.wire.codecs import compress, decompress
from proxy.wire.errors import CodecError
from proxy.wire.pulsar_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD

LIMIT = 1 << 20
PACKED = [LZ4, ZLIB, ZSTD, SNAPPY]
TEXT = b"order 1, order 2, order 2, order 3, " * 30
BOMB_BYTES = 64 << 20
ZLIB_END_BYTES = 5  # the last block's end, within a byte, and the checksum


def zstd_without_size(data: bytes) -> bytes:
    """A frame that does not declare its size, as a streaming encoder writes it."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


@pytest.mark.parametrize("compression", [NONE, *PACKED])
@given(data=st.binary(max_size=500))
def test_what_is_compressed_comes_back(compression: int, data: bytes) -> None:
    """Every codec gives back what it was given, from bytes and from a view, the empty payload too."""
    packed = compress(compression, data)
    assert decompress(compression, packed, len(data), LIMIT) == data
    assert decompress(compression, memoryview(packed), len(data), LIMIT) == data


@pytest.mark.parametrize("compression", PACKED)
def test_the_declared_size_must_be_the_real_one(compression: int) -> None:
    """A payload that holds one byte more or less than its metadata declares is refused."""
    packed = compress(compression, TEXT)
    for size in (0, 1, len(TEXT) - 1, len(TEXT) + 1, len(TEXT) * 2):
        with pytest.raises(CodecError):
            decompress(compression, packed, size, LIMIT)


@pytest.mark.parametrize("compression", [NONE, *PACKED])
def test_nothing_over_the_limit_is_opened(compression: int) -> None:
    """The limit decides before the codec does; exactly the limit passes."""
    packed = compress(compression, TEXT)
    assert decompress(compression, packed, len(TEXT), len(TEXT)) == TEXT
    with pytest.raises(CodecError, match=f"at most {len(TEXT) - 1} are allowed"):
        decompress(compression, packed, len(TEXT), len(TEXT) - 1)


@pytest.mark.parametrize("compression", PACKED)
def test_a_truncated_payload_is_refused(compression: int) -> None:
    """No prefix of a payload decompresses, unless it holds all the data and lacks zlib's end mark alone."""
    packed = compress(compression, TEXT)
    for size in range(len(packed)):
        if compression == ZLIB and size >= len(packed) - ZLIB_END_BYTES:
            assert decompress(compression, packed[:size], len(TEXT), LIMIT) == TEXT
        else:
            with pytest.raises(CodecError):
                decompress(compression, packed[:size], len(TEXT), LIMIT)


@pytest.mark.parametrize("compression", PACKED)
def test_bytes_behind_the_payload_are_refused(compression: int) -> None:
    """A payload ends where its data ends."""
    with pytest.raises(CodecError):
        decompress(compression, compress(compression, TEXT) + b"more", len(TEXT), LIMIT)


@pytest.mark.parametrize("compression", PACKED)
@given(data=st.binary(max_size=200), size=st.integers(0, 1000))
def test_random_bytes_give_data_or_a_codec_error(compression: int, data: bytes, size: int) -> None:
    """Whatever a producer sends, decompression gives exactly the declared size or a CodecError."""
    with suppress(CodecError):
        assert len(decompress(compression, data, size, LIMIT)) == size


@pytest.mark.parametrize("compression", PACKED)
@given(at=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_damage_gives_data_of_the_right_size_or_a_codec_error(compression: int, at: int, flip: int) -> None:
    """A flipped byte never makes a codec crash or write past the declared size."""
    packed = bytearray(compress(compression, TEXT))
    packed[at % len(packed)] ^= flip
    with suppress(CodecError):
        assert len(decompress(compression, bytes(packed), len(TEXT), LIMIT)) == len(TEXT)


BOMBS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "lz4": (LZ4, partial(compress, LZ4)),
    "zlib": (ZLIB, partial(zlib.compress, level=9)),
    "zstd with its size": (ZSTD, partial(compress, ZSTD)),
    "zstd without its size": (ZSTD, zstd_without_size),
    "snappy": (SNAPPY, partial(compress, SNAPPY)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_no_more_than_it_declares(name: str) -> None:
    """A payload that would grow to 64 MiB and declares 1000 bytes is refused, and no more is ever allocated for it."""
    compression, pack = BOMBS[name]
    packed = pack(bytes(BOMB_BYTES))
    tracemalloc.start()
    with pytest.raises(CodecError):
        decompress(compression, packed, 1000, LIMIT)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < LIMIT
    with pytest.raises(CodecError, match="allowed"):
        decompress(compression, packed, BOMB_BYTES, LIMIT)


def test_a_zstd_window_is_bounded() -> None:
    """A frame without a size that asks for a decoding window of 128 MiB is refused instead of served."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    encoder = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = encoder.compress(TEXT) + encoder.flush()
    assert zstandard.get_frame_parameters(packed).window_size == 128 << 20
    with pytest.raises(CodecError):
        decompress(ZSTD, packed, len(TEXT), LIMIT)


def test_a_zstd_frame_without_a_size_is_read() -> None:
    """Streaming encoders leave the size out; the metadata's then stands alone."""
    assert decompress(ZSTD, zstd_without_size(TEXT), len(TEXT), LIMIT) == TEXT


def test_a_zstd_frame_without_a_size_cannot_pass_for_an_empty_one() -> None:
    """Nothing declared, outside or inside, and data all the same: refused, as with any other size that is wrong."""
    assert decompress(ZSTD, zstd_without_size(b""), 0, LIMIT) == b""
    for data in (b"x", TEXT, bytes(BOMB_BYTES)):
        with pytest.raises(CodecError):
            decompress(ZSTD, zstd_without_size(data), 0, LIMIT)


def test_an_uncompressed_payload_is_what_it_is() -> None:
    """The declared size of an uncompressed payload is not looked at, since C++ clients leave it out."""
    assert decompress(NONE, TEXT, 0, LIMIT) is TEXT


@pytest.mark.parametrize("compression", [-1, 5, 99])
def test_an_unknown_codec_is_refused(compression: int) -> None:
    """A codec of a later protocol is an error, not an uncompressed payload."""
    with pytest.raises(CodecError, match="compression type"):
        decompress(compression, TEXT, len(TEXT), LIMIT)
    with pytest.raises(CodecError, match="compression type"):
        compress(compression, TEXT)


def test_zstd_decoders_are_reused_and_not_kept_after_an_error() -> None:
    """One decoder serves call after call; one that failed in the middle of a frame serves no other."""
    decompress(ZSTD, compress(ZSTD, TEXT), len(TEXT), LIMIT)
    kept = list(codecs._idle_zstd)
    decompress(ZSTD, compress(ZSTD, TEXT), len(TEXT), LIMIT)
    assert codecs._idle_zstd == kept
    with pytest.raises(CodecError):
        decompress(ZSTD, compress(ZSTD, TEXT)[:-5], len(TEXT), LIMIT)
    assert len(codecs._idle_zstd) == len(kept) - 1


# ---- larger than a piece --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 20])
@pytest.mark.parametrize("compression", PACKED)
@given(
    data=st.binary(max_size=300), repeat=st.integers(1, 20), lie=st.sampled_from([0, 0, -1, 1, 50]), cut=st.booleans()
)
def test_what_is_made_of_pieces_is_what_is_made_at_once(
    piece: int, compression: int, data: bytes, repeat: int, lie: int, cut: int
) -> None:
    """Large payloads are put together from pieces: the same data comes out, and the same lies are refused."""
    data *= repeat
    packed = compress(compression, data)
    packed = packed[: len(packed) - cut]
    size = max(len(data) + lie, 0)
    results: list[bytes | None] = []
    for bytes_of_piece in (codecs.PIECE_BYTES, piece):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(codecs, "PIECE_BYTES", bytes_of_piece)
            patch.setattr(codecs, "_FED_BYTES", 16)
            try:
                results.append(decompress(compression, packed, size, LIMIT))
            except CodecError:
                results.append(None)
    if compression != LZ4 or results[0] is not None:  # a damaged LZ4 block may be taken for another one, if it is large
        assert results[0] == results[1]
    if size != len(data):
        assert results[0] is None
    elif not cut:
        assert results[0] == data


@pytest.mark.parametrize("compression", PACKED)
def test_a_large_payload_followed_by_more_is_refused(compression: int) -> None:
    """Also where the end of the data is not read in the last piece."""
    packed = compress(compression, bytes(4 << 20))
    assert decompress(compression, packed, 4 << 20, 4 << 20) == bytes(4 << 20)
    for more in (b"x", bytes(200_000), packed):
        with pytest.raises(CodecError):
            decompress(compression, packed + more, 4 << 20, 8 << 20)


# ---- lies about sizes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize(
    "claimed", [0, 1, 1 << 10, BOMB_BYTES - 1, BOMB_BYTES + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
)
def test_a_bomb_that_claims_another_size_is_refused(compression: int, claimed: int) -> None:
    """Too small, too large, and what a signed number would take for negative."""
    packed = compress(compression, bytes(BOMB_BYTES))
    with pytest.raises(CodecError):
        decompress(compression, packed, claimed, BOMB_BYTES)


@pytest.mark.parametrize("limit", [1 << 10, 32 << 20])
def test_a_zstd_frame_may_not_make_the_decoder_reserve_a_huge_window(limit: int) -> None:
    """A frame of a few bytes may ask for a window of gigabytes: it is refused, and nothing is reserved for it."""
    window_log = 31
    frame = b"\x28\xb5\x2f\xfd" + bytes([0, (window_log - 10) << 3]) + b"\x01\x00\x00"
    tracemalloc.start()
    with pytest.raises(CodecError):
        decompress(ZSTD, frame, limit, limit)
    assert tracemalloc.get_traced_memory()[1] < 2 * limit + (1 << 20)
    tracemalloc.stop()


@pytest.mark.parametrize("repeat", [2, 50])
def test_zstd_frames_one_after_the_other_are_refused(repeat: int) -> None:
    """Clients write one. A second one must neither be opened beyond the claim nor be dropped without a word."""
    frame = compress(ZSTD, TEXT)
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"
    for payload in (frame * repeat, zstd_without_size(TEXT) * repeat, frame + skippable, skippable + frame):
        for size in (len(TEXT), len(TEXT) * repeat):
            with pytest.raises(CodecError):
                decompress(ZSTD, payload, size, LIMIT)


def test_a_snappy_block_that_claims_gigabytes_is_refused_by_its_first_bytes() -> None:
    """Its own size stands in front, and has to be the metadata's."""
    packed = compress(SNAPPY, TEXT)
    for lie in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\x00", b"\xff" * 10, b""):
        with pytest.raises(CodecError):
            decompress(SNAPPY, lie + packed[2:], len(TEXT), LIMIT)
