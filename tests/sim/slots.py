"""Slots of keys by the facts' formula, and streams of slots: for made-up brokers and for checkers."""

from __future__ import annotations

from functools import cache

import mmh3

SLOTS = 65_536
STREAMS = 4
"""Into so many parts subscriptions of the simulator are cut, if they are."""


def murmur(key: str) -> int:
    """The hash that Pulsar's Java client and brokers take of a key."""
    return mmh3.hash(key.encode(), 0, signed=False) & 0x7FFF_FFFF


def range_slot(key: str) -> int:
    """Of a key, where ranges of slots are divided; slot 0 has none."""
    return murmur(key) % SLOTS or 1


@cache
def slot_of_key(key: str, *, ring: bool) -> int:
    """Of a key, on the ring of consistent hashing or where ranges are divided."""
    return murmur(key) % (SLOTS - 1) + 1 if ring else range_slot(key)


def stream_of(key: str) -> int:
    """The stream of a key, where there are some."""
    return range_slot(key) * STREAMS // SLOTS
