"""A group's state beyond its leader: the records of its topic, which only the leader writes.

Each record is complete, so that the last one is sufficient and earlier ones may be deleted. It contains the epoch, the
cut into streams, the sessions that may still deliver each stream, the progress, and what operators
asked. Nothing else is stored.

Source: EIP-0028, "General Idea"; design section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proxy.groups.kept_orders import KeptOrders
from proxy.groups.messages import SessionId
from proxy.groups.streams import StreamState

NO_EPOCH: Final = 0
"""Of a group that never had a leader."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """One record of a group's topic."""

    epoch: int = NO_EPOCH
    """Of the leader that wrote it; a leader's first word has one above every epoch before."""
    leader: str | None = None
    """The replica it runs on; None for a group that never had a leader."""
    number: int = 0
    """Of the greatest version that was given in this epoch."""
    streams_count: int = 0
    """Streams that the group is cut into; 0 for a group that never had a leader."""
    owners: tuple[tuple[int, SessionId], ...] = ()
    """The sessions that may have each stream from now on; written before they are told."""
    states: tuple[StreamState, ...] = ()
    """How far streams are; what brokers know of it is never behind this."""
    replays: int = 0
    """How often the cursor was moved, or was about to be; written before it is."""
    had: tuple[tuple[int, SessionId], ...] = ()
    """The last owners of free streams: the state of any other session is out of date."""

    addresses: tuple[tuple[str, str], ...] = ()
    """Where replicas with a session, or that may have a stream, are found by others; of those that said so."""
    lease_s: float = 0.0
    """How long a lease of this leader lasts; 0 from a release that does not say it."""
    orders: tuple[KeptOrders, ...] = ()
    """What operators asked of subscriptions."""

    def then(self, later: GroupMemory) -> GroupMemory:
        """What is known after a later record: itself, unless it is of an epoch that is over."""
        return later if later.epoch >= self.epoch else self

    def cut(self, configured: int) -> int:
        """The number of streams for the next leader: unchanged while a stream may have an owner."""
        return self.streams_count if self.owners else configured
