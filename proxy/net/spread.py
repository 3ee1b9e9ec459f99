"""Times that differ where many would otherwise do the same at the same moment."""

from __future__ import annotations

from zlib import crc32


def share_of(name: str) -> float:
    """A number from 0 to 1 that two names hardly have in common, and each always has."""
    return crc32(name.encode()) / (1 << 32)
