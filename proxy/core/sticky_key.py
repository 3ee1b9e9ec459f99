"""From a message's metadata to its hash slot, exactly as the broker computes it.

Problem: a key's order is kept by sending all its messages to one worker, so the gateway must decide for every entry
which bytes are its key, and hash them. Rule kept: our slot equals the broker's for every entry, because operators
compare both sides' stats and because a subscription may be moved between a direct connection and the gateway.
Why not a hash of our own (Python's `hash` would be free): the numbers would agree with nothing an operator can see,
and sticky workers name slots of the broker's space in their policies.

Two spaces exist: consistent hashing uses slots 1..65535, auto-split and sticky ranges 0..65535 with slot 0 nudged
to 1. The same key therefore has different slots under different selectors. Slot 0 never holds a key in either.

Source: Pulsar's resolution of the sticky key, facts 1.1 to 1.4; `producer-sequence` since apache/pulsar 23219.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64

import mmh3

NONE_KEY = b"NONE_KEY"
"""Key of an entry that has nothing to tell it from others: all such entries share one slot, hence one order."""

CONSISTENT_SLOT_COUNT = 65_535
"""Slots 1..65535 of the consistent hashing ring."""

RANGE_SLOT_COUNT = 65_536
"""Slots 0..65535 of the range selectors."""

_MASK_31_BITS = 0x7FFF_FFFF
_SIGN_BIT = 1 << 63
_UINT64_COUNT = 1 << 64


def sticky_key(
    ordering_key: bytes | None,
    partition_key: str | None,
    partition_key_b64: bool,  # noqa: FBT001 - the metadata's own flag, passed through in its order
    producer_name: str | None,
    sequence_id: int | None,
) -> bytes:
    """Return the bytes that decide where an entry goes. None means "not set"; an empty key is a key.

    Precedence: ordering key, partition key (decoded if flagged), `<producer>-<sequence>`, `NONE_KEY`.

    A partition key flagged as base64 that is none gives `NONE_KEY`: the broker catches the decoder's exception and
    treats the metadata as unreadable. Falling back to the raw text would spread such entries better and agree with
    nobody. Decoding follows Java's basic decoder: no white space, padding either complete or left out.

    Args:
        ordering_key: raw bytes from the metadata.
        partition_key: text from the metadata.
        partition_key_b64: whether `partition_key` is base64 of the real key.
        producer_name: name of the producer.
        sequence_id: uint64 from the wire; the broker prints it as a signed number, so do we.
    """
    if ordering_key is not None:
        return ordering_key
    if partition_key is not None:
        return _decoded(partition_key) if partition_key_b64 else partition_key.encode()
    if producer_name is not None and sequence_id is not None:
        signed = sequence_id - _UINT64_COUNT if sequence_id >= _SIGN_BIT else sequence_id
        return f"{producer_name}-{signed}".encode()
    return NONE_KEY


def murmur31(key: bytes) -> int:
    """Return Murmur3 x86 32-bit of the key, seed 0, with the sign bit cleared: 0..2^31-1."""
    return mmh3.hash(key, 0, False) & _MASK_31_BITS  # noqa: FBT003 - `signed`; by keyword it costs 60 ns a message


def consistent_slot(murmur: int) -> int:
    """Return the slot of a key's hash on the consistent hashing ring: 1..65535."""
    return murmur % CONSISTENT_SLOT_COUNT + 1


def range_slot(murmur: int) -> int:
    """Return the slot of a key's hash for auto-split and sticky ranges: 1..65535, since 0 is replaced by 1."""
    return murmur % RANGE_SLOT_COUNT or 1


def _decoded(text: str) -> bytes:
    """Decode base64 as Java's basic decoder does; `NONE_KEY` where that would throw."""
    if "=" not in text:
        text += "=" * (-len(text) % 4)
    if len(text) % 4 or text.endswith("==="):
        return NONE_KEY  # Python's strict mode lets padding after a complete group pass.
    try:
        return a2b_base64(text, strict_mode=True)
    except (Base64Error, ValueError):
        return NONE_KEY
