"""Protobuf's base-128 integers, for the few places where bytes are written by hand.

Source: protobuf's encoding specification, "Base 128 Varints".
"""

from array import array
from struct import Struct
from typing import Final

LIMIT: Final = 1 << 64
"""First value that no longer fits a protobuf integer."""

VARINT_BYTES_MAX: Final = 10

_TWO_BYTES: Final = 1 << 7
_THREE_BYTES: Final = 1 << 14
_FOUR_BYTES: Final = 1 << 21

NINE_BYTES: Final = 1 << 56
"""First value that takes nine bytes."""


_PAIRS: Final = array("H", (low | 0x80 | (high | 0x80) << 8 for high in range(128) for low in range(128)))
"""Two bytes of a varint that goes on, little endian, by their 14 bits."""
_ONE_BYTE: Final = [bytes((value,)) for value in range(_TWO_BYTES)]
_pack_two: Final = Struct("2B").pack
_pack_three: Final = Struct("3B").pack
_pack_nine: Final = Struct("<4HB").pack


def nine_bytes(value: int) -> bytes:
    """As `varint`, for values from 2**56 to below 2**63, at a fraction of its price."""
    return _pack_nine(
        _PAIRS[value & 0x3FFF],
        _PAIRS[value >> 14 & 0x3FFF],
        _PAIRS[value >> 28 & 0x3FFF],
        _PAIRS[value >> 42 & 0x3FFF],
        value >> 56,
    )


def varint_size(value: int) -> int:
    """How many bytes `varint` makes of `value`; raises ValueError as it does."""
    if not 0 <= value < LIMIT:
        raise _does_not_fit(value)
    return (value.bit_length() + 6) // 7 or 1


def varint(value: int) -> bytes:
    """Encode `value`, a non-negative integer below 2**64, in 1 to 10 bytes. Raises ValueError outside that range."""
    if 0 <= value < _FOUR_BYTES:  # sizes, counts and entry ids, at a fraction of the price
        if value < _TWO_BYTES:
            return _ONE_BYTE[value]
        if value < _THREE_BYTES:
            return _pack_two(value & 0x7F | 0x80, value >> 7)
        return _pack_three(value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14)
    if not 0 <= value < LIMIT:
        raise _does_not_fit(value)
    encoded = bytearray()
    while value >> 7:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _does_not_fit(value: int) -> ValueError:
    return ValueError(f"{value} does not fit an unsigned 64-bit integer")
