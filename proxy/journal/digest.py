"""What stands for a key in the journal: a keyed hash, so that who reads it learns which messages share a key, no more.

Sampled by the digest itself, so that a key's messages are all there or none is, in every run and at every replica that
has the same secret.
"""

from __future__ import annotations

import hashlib
from typing import Final

DIGEST_BYTES: Final = 8
KEYS_REMEMBERED: Final = 65_536
"""Cached digests, at least the latest ones. A digest costs a microsecond, a cached one 200 bytes."""
_SIGN: Final = 1 << 63


class KeyDigests:
    """Of the keys of one gateway."""

    def __init__(self, secret: bytes, sample: float = 1.0, *, plain: bool = False) -> None:
        """`sample` is the share of all keys whose messages are recorded, 0 to 1; with `plain` keys are wanted too."""
        assert 0.0 <= sample <= 1.0, sample
        self._secret = hashlib.blake2b(secret, digest_size=32).digest()
        self._below = round(sample * (1 << 64))
        self._plain = plain
        self._known: dict[bytes, int] = {}
        self._known_before: dict[bytes, int] = {}

    def of(self, key: bytes) -> int:
        """A signed 64-bit number; 0 for a key that is not in the sample."""
        found = self._known.get(key)
        return self._remembered(key) if found is None else found

    def plain(self) -> dict[int, bytes] | None:
        """Keys by digest, as far as they are remembered; None where they are not wanted."""
        if not self._plain:
            return None
        return {digest: key for known in (self._known_before, self._known) for key, digest in known.items()}

    def _remembered(self, key: bytes) -> int:
        if len(self._known) >= KEYS_REMEMBERED:
            self._known_before, self._known = self._known, {}
        found = self._known_before.get(key)
        digest = self._known[key] = self._digest(key) if found is None else found
        return digest

    def _digest(self, key: bytes) -> int:
        hashed = hashlib.blake2b(key, digest_size=DIGEST_BYTES, key=self._secret).digest()
        number = int.from_bytes(hashed, "little")
        if number >= self._below:
            return 0
        return (number - (1 << 64) if number & _SIGN else number) or 1
