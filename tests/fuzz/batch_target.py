"""Fuzzing batches: finding their messages, judging whether they have one key, cutting them.

Input: a batch made of decisions (fields in any order, numbers padded, sizes that lie) or any bytes. Promises: every
reader gives an answer or BatchError; `uniform` says what reading every message says, however it got there; a smaller
batch holds the chosen messages' very bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from proxy.core.steps import finished
from proxy.wire.batch import uniform, uniform_steps
from proxy.wire.batch_reader import BatchReader
from proxy.wire.codecs import decompress
from proxy.wire.errors import BatchError, CodecError
from proxy.wire.metadata import peek, verify_checksum
from proxy.wire.varints import varint
from tests.fuzz.target import Choices, Target, golden_frames, promise
from tests.wire.batches import Single, index_batch, repack, single_key
from tests.wire.builders import metadata_of, tail_of

KEYS = (b"", b"k", b"YWJj", b"key-with-some-bytes", b"\xff=")
OUTER = (None, *KEYS, b"abc")
MESSAGES_MAX = 12
MADE = 1
FIELDS = ("key", "size", "b64", "ordering", "sequence", "event", "null", "unknown")


def padded(value: int, choices: Choices) -> bytes:
    """A number as protobuf writes it, or in more bytes than needed, or in bytes that overflow."""
    encoded = bytearray(varint(value))
    how = choices.number(16)
    if how >= 12:
        while len(encoded) < how - 2:
            encoded[-1] |= 0x80
            encoded.append(0)
        if how == 15:
            encoded[-1] = choices.number(128)
    return bytes(encoded)


def field(name: str, payload_bytes: int, choices: Choices) -> bytes:
    """One field of a SingleMessageMetadata."""
    key = KEYS[choices.number(len(KEYS))] if name in ("key", "ordering") else b""
    if name == "key":
        return b"\x12" + padded(len(key), choices) + key
    if name == "ordering":
        return b"\x3a" + padded(len(key), choices) + key
    if name == "size":
        return b"\x18" + padded(payload_bytes, choices)
    if name == "unknown":
        return b"\xf2\x3e\x03new"
    tags = {"b64": b"\x30", "sequence": b"\x40", "event": b"\x28", "null": b"\x48"}
    return tags[name] + padded(choices.varint() if name != "b64" else choices.number(2), choices)


def made_single(names: Sequence[str], payload_bytes: int, choices: Choices) -> bytes:
    """A message of a batch; its metadata's size may lie."""
    metadata = b"".join(field(name, payload_bytes, choices) for name in names)
    size = len(metadata) + (choices.number(3) - 1 if choices.number(32) == 1 else 0)
    return struct.pack(">I", max(size, 0)) + metadata + bytes(payload_bytes)


def made_batch(choices: Choices) -> bytes:
    """Messages that mostly look alike: what one differs in is what the shortcuts have to see."""
    names = [FIELDS[choices.number(len(FIELDS))] for _ in range(choices.number(6))]
    names.insert(choices.number(len(names) + 1), "size")
    payload_bytes = choices.number(300) if choices.flag() else choices.number(8)
    model = Choices(choices.take(16))
    one = made_single(names, payload_bytes, model)
    pieces = []
    for _ in range(1 + choices.number(MESSAGES_MAX)):
        other = choices.number(4)
        if other == 0:
            pieces.append(one)
        elif other == 1:
            pieces.append(made_single(names, payload_bytes, choices))
        else:
            pieces.append(changed(one, choices))
    return b"".join(pieces)


def changed(data: bytes, choices: Choices) -> bytes:
    """The same with one byte another."""
    at = choices.number(min(len(data), 64))
    return data[:at] + bytes((choices.number(),)) + data[at + 1 :]


def read_all(payload: bytes, count: int) -> list[Single] | None:
    """Every message, or None for a batch that is damaged."""
    try:
        return index_batch(payload, count)
    except BatchError:
        return None


def own_key(single: Single) -> bytes | None:
    """A message's own key as the broker would hash it, or None where it has none."""
    return single_key(single, metadata_of()) if single.has_key else None


def check_uniform(payload: bytes, singles: list[Single] | None, count: int, outer: bytes | None) -> None:
    """The quick verdict is that of reading everything; of a damaged batch only True would be a lie."""
    try:
        verdict: bool | None = uniform(payload, count, outer)
    except BatchError:
        verdict = None
    if singles is None:
        promise(not verdict, "a damaged batch is never called uniform")
        return
    keys = {own_key(single) for single in singles}
    first = own_key(singles[0])
    truth = len(keys) == 1 and (outer is None or first is None or first == outer)
    promise(verdict is truth, f"uniform says {verdict}, reading every message says {truth}")


def check_steps(payload: bytes, singles: list[Single] | None, count: int, outer: bytes | None) -> None:
    """With pauses the answers are the same."""
    try:
        reader = BatchReader(metadata_of(), payload, count)
        while len(reader.keys) < count:
            reader.read(2)
    except BatchError:
        promise(singles is None, "with pauses, a right batch is refused")
        return
    promise(singles is not None, "with pauses, a damaged batch is taken")
    assert singles is not None
    promise(reader.offsets == [0, *(single.end for single in singles)], "with pauses, the same messages are found")
    promise(reader.keys == [single_key(single, metadata_of()) for single in singles], "they have the same keys")
    promise(reader.keyed is any(single.has_key for single in singles), "it is known whether any has a key")
    gone = [index for index, single in enumerate(singles) if single.compacted_out]
    promise(reader.compacted == gone, "it is known which were compacted away")
    promise(finished(uniform_steps(payload, count, outer, 2)) is uniform(payload, count, outer), "the same verdict")


def check_repack(payload: bytes, singles: list[Single], choices: Choices) -> None:
    """Some of the messages, in a batch of their own."""
    promise(singles[-1].end == len(payload), "the messages fill the batch")
    chosen = [single for single in singles if choices.flag()] or singles[:1]
    metadata = metadata_of(num_messages_in_batch=len(singles), uncompressed_size=len(payload))
    tail = repack(metadata, payload, chosen)
    promise(verify_checksum(tail), "a smaller batch has a right checksum")
    smaller, _, start = peek(tail)
    promise(tail[start:] == b"".join(payload[one.start : one.end] for one in chosen), "its bytes are the original's")
    again = index_batch(tail[start:], smaller.num_messages_in_batch)
    promise([one[2:] for one in again] == [one[2:] for one in chosen], "its messages are the chosen ones")
    promise(smaller.uncompressed_size == len(tail) - start, "it says its size")


def run(data: bytes) -> None:
    """One batch, read in every way."""
    choices = Choices(data)
    made, outer = choices.number(2) == MADE, OUTER[choices.number(len(OUTER))]
    claimed = choices.number()
    decisions = Choices(choices.take(4))
    payload = made_batch(choices) if made else choices.rest()
    for count in {claimed, _count_of(payload)}:
        singles = read_all(payload, count)
        check_steps(payload, singles, count, outer)
        check_uniform(payload, singles, count, outer)
        check_uniform(payload, singles, count, None)
        if singles:
            check_repack(payload, singles, decisions)


def _count_of(payload: bytes) -> int:
    """How many messages fill the payload; 0 if none do. Tried one by one, since a count is all that is missing."""
    return next((count for count in range(1, 40) if read_all(payload, count)), 0)


def seeds() -> Iterable[bytes]:
    """Every uncompressed batch of the official clients, and decisions of all kinds."""
    for frame in golden_frames():
        if not (tail := tail_of(frame)):
            continue
        metadata, _, start = peek(tail)
        if metadata.HasField("num_messages_in_batch"):
            try:
                payload = decompress(metadata.compression, tail[start:], metadata.uncompressed_size, 1 << 16)
            except CodecError:
                continue
            yield bytes((0, 0, metadata.num_messages_in_batch)) + b"\1\0\1\0" + payload[:4000]
    for number in range(24):
        yield bytes((1, number, 5, 1, 0, 1, 0, number)) + bytes((number * 37 + index * 11) % 256 for index in range(90))


TARGET = Target("batch", run, seeds)
