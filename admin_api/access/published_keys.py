"""The keys that an identity provider publishes (JWKS), fetched on a thread and cached.

A token names its key before its signature is checked. An unknown name causes another request to the provider, which
finds new keys. To bound requests for invented names, there is at most one at a time, and one every few seconds. While
the provider is unavailable, known keys stay valid.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import jwt
import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT_S: Final = 300.0
"""Time for which a withdrawn key stays valid; longer while the provider is unavailable."""
ASKED_AGAIN_S: Final = 10.0
FETCH_S_MAX: Final = 5.0

log = structlog.get_logger("keyline.admin")


class PublishedKeys:
    """Implements `tokens.Key`."""

    def __init__(self, url: str, now: Callable[[], float] = time.monotonic) -> None:
        """Nothing is fetched before the first token comes."""
        self.url = url
        self._now = now
        self._keys: dict[str | None, Any] = {}
        self._fetched_at = self._asked_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def __call__(self, token: str) -> Any:
        """The key that a token names. Raises `jwt.PyJWTError`."""
        name = jwt.get_unverified_header(token).get("kid")
        if not self._knows(name):
            async with self._fetching:
                if not self._knows(name) and self._now() >= self._asked_at + ASKED_AGAIN_S:
                    await self._fetch()
        if not self._knows(name):
            raise jwt.InvalidTokenError("it is signed with a key that the identity provider does not publish now")
        return self._keys[name]

    def _knows(self, name: str | None) -> bool:
        return name in self._keys and self._now() < self._fetched_at + KEPT_S

    async def _fetch(self) -> None:
        self._asked_at = self._now()
        try:
            client = jwt.PyJWKClient(self.url, cache_jwk_set=False, timeout=FETCH_S_MAX)
            found = await asyncio.to_thread(client.get_signing_keys)
        except Exception as error:  # noqa: BLE001 - the address may not be a provider at all
            log.warning("identity provider keys not fetched", reason=str(error), error=type(error).__name__)
            self._fetched_at = max(self._fetched_at, self._asked_at + ASKED_AGAIN_S - KEPT_S)
            return
        self._keys = {each.key_id: each.key for each in found}
        self._fetched_at = self._now()
