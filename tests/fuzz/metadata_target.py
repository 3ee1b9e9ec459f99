"""Fuzzing what is read of an entry before it is decided who gets it.

Input: a MESSAGE frame's tail. Promises: every reader gives an answer or MetadataError; the quick way to the key and the
long one agree, errors included; a tail that is built from what was read says the same, with a right checksum.
"""

from __future__ import annotations

from collections.abc import Iterable

from proxy.core.sticky_key import murmur31
from proxy.wire.errors import MetadataError
from proxy.wire.metadata import (
    build_tail,
    can_peek,
    decode_key,
    peek,
    peek_key,
    sticky_key,
    strip_broker_entry_metadata,
    verify_checksum,
)
from tests.fuzz.target import Target, golden_frames, promise
from tests.wire.builders import metadata_of, tail_of

BROKER_ENTRY_MAGIC = b"\x0e\x02"


def run(data: bytes) -> None:
    """Read a tail in every way."""
    try:
        peeked = peek(data)
    except MetadataError as error:
        promise(_refused(data) == str(error), "both ways to a key refuse for the same reason")
        _read_headers(data)
        return
    metadata, start, end = peeked
    promise(0 < start <= end <= len(data), "the parts stand in the tail, in order")
    key = sticky_key(metadata)
    promise(peek_key(data) == (metadata, key, end), "both ways to a key lead to the same")
    promise(0 <= murmur31(key) < 1 << 31, "a key has a hash")
    can_peek(metadata)
    _read_headers(data)
    payload = data[end:]
    built = build_tail(metadata, payload)
    again = peek(built)
    promise(verify_checksum(built), "a built tail has a right checksum")
    promise(again.metadata == metadata and built[again.payload_start :] == payload, "a built tail says the same")
    decode_key(metadata.partition_key)


def _refused(data: bytes) -> str:
    try:
        peek_key(data)
    except MetadataError as error:
        return str(error)
    return ""


def _read_headers(data: bytes) -> None:
    """What reads the headers alone agrees on where they end."""
    try:
        stripped = strip_broker_entry_metadata(data)
    except MetadataError:
        return
    promise(data.endswith(stripped), "stripping takes from the front")
    try:
        right = verify_checksum(data)
    except MetadataError:
        return
    if stripped[:2] != BROKER_ENTRY_MAGIC:  # two such headers mean nothing
        promise(right == verify_checksum(stripped), "a checksum does not cover the broker's header")


def seeds() -> Iterable[bytes]:
    """Every tail of the official clients and brokers, and keys that claim to be Base64."""
    yield from (tail for frame in golden_frames() if (tail := tail_of(frame)))
    for key in (b"YWJj", b"YWI=", b"YWI", b"Y", b"====", b"\xff\xfe"):
        yield build_tail(metadata_of(partition_key=key, partition_key_b64_encoded=True), b"payload")


TARGET = Target("metadata", run, seeds)
