"""Messages of a batch as bits of a number, and as their indexes.

What is acknowledged of a batch is kept, and comes from clients, as a bit for each message. Problem: a client chooses
how many messages a batch has, and a step with a number of a million bits costs as much as all of its bits. Rule kept:
the cost of either way is that of the messages, not of their square.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FEW_BITS: Final = 64
_AS_FLAGS: Final = bytes.maketrans(b"01", b"\0\1")
_AS_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")


def bits_to_indexes(bits: int, sequence: Sequence[int]) -> Iterable[int]:
    """Original indexes of the messages whose bits, in the order delivered, are set.

    Many are not taken bit by bit: each step with a number of a million bits costs as much as all of them, and clients
    choose both.
    """
    if bits.bit_count() > _FEW_BITS:
        return compress(sequence, bin(bits)[:1:-1].encode().translate(_AS_FLAGS))
    indexes: list[int] = []
    while bits:
        low = bits & -bits
        indexes.append(sequence[low.bit_length() - 1])
        bits ^= low
    return indexes


def indexes_to_bits(indexes: Iterable[int], total: int) -> int:
    """The bits of these messages of `total`; likewise."""
    flags = bytearray(total)
    for index in indexes:
        flags[index] = 1
    flags.reverse()
    return int(flags.translate(_AS_DIGITS), 2)
