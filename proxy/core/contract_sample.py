"""Which hash slots the monitor of the contract watches: see `contract_monitor`."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from proxy.core.slots import SLOT_COUNT

UNWATCHED: Final = bytes(SLOT_COUNT)
"""`ContractMonitor.watched` where there is no monitor."""
_SPREAD: Final = 0x9E37_79B1
"""2 ** 32 divided by the golden ratio, odd: neighbouring slots are not sampled together (Knuth, volume 3, 6.4)."""


class Sample:
    """The slots that are watched, one for all subscriptions of a gateway."""

    __slots__ = ("flags", "slots")

    def __init__(self, one_in: int, salt: int) -> None:
        """One slot in `one_in`, none for 0; which ones depends on `salt` alone."""
        count = -(-SLOT_COUNT // one_in) if one_in else 0
        chosen = ((slot * _SPREAD + salt) % SLOT_COUNT < count for slot in range(SLOT_COUNT))
        self.flags = bytes(chosen)
        """1 for each slot that is watched: looked at for every message."""
        self.slots = frozenset(slot for slot, watched in enumerate(self.flags) if watched)


@lru_cache(maxsize=4)
def sample_of(one_in: int, salt: int = 0) -> Sample:
    """Make it, or give the one that was made: it takes some milliseconds."""
    return Sample(one_in, salt)
