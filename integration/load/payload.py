"""The number that every message of a load carries: its sender, key, place in the key's sequence, and time.

Fixed size and packed: the load shares two cores with the broker, the gateway and the workers, so a payload must cost
less than a microsecond on either side. The key travels twice, as the message's key and in here, in order that a
gateway that mixed up keys and payloads would be found out.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_FORMAT: Final = struct.Struct("<IIIq")

SIZE_MIN_BYTES: Final = _FORMAT.size
MAGIC_KEY_PREFIX: Final = "key-"


class Number(NamedTuple):
    """What a payload says about its message."""

    producer: int
    key: int
    sequence: int
    """0 for a producer's first message of the key, then one more each time."""
    sent_ns: int
    """CLOCK_MONOTONIC of this machine when it was handed to the client."""


def encode(producer: int, key: int, sequence: int, sent_ns: int, filler: bytes = b"") -> bytes:
    """Return a payload; `filler` makes it as large as a message should be."""
    return _FORMAT.pack(producer, key, sequence, sent_ns) + filler


def decode(payload: bytes) -> Number:
    """Read a payload.

    Raises:
        struct.error: it is too short for a message of a load.
    """
    return Number._make(_FORMAT.unpack_from(payload))


def filler(size_bytes: int) -> bytes:
    """Return what must follow the number for a payload of `size_bytes`."""
    return bytes(max(0, size_bytes - SIZE_MIN_BYTES))


def key_name(key: int) -> str:
    """Return the message key of a key's number."""
    return f"{MAGIC_KEY_PREFIX}{key}"
