"""Messages that cannot go out yet, in order, per hash slot.

A slot's parts wait in topic order in memory, not in a replay queue that is read again: unblocking costs nothing but
the send. Why a slot waits is one closed set of states, `WaitReason`; each names who or what ends it. Later features
add reasons here and nowhere else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.entry import Part
    from proxy.core.worker import Worker

WAITING_SLOT_BYTES: Final = 860
"""What a slot costs while it waits, its parts aside (measured, 64-bit): most of it is the queue's first block."""

_FEW: Final = 16
"""Parts put back one by one; more are sorted in with all that wait."""


class WaitReason(Enum):
    """Why the head of a slot does not move, and what ends that."""

    NO_OWNER = "no_owner"
    """No worker covers the slot: ends when one joins that does."""
    DRAINING = "draining"
    """Another worker still holds messages of the slot: ends with its last ack, nack or departure (PIP-379)."""
    UNBLOCKING_INTERVAL = "unblocking_interval"
    """The slot has drained and is released with others that do: ends with the interval (`Unblocking.due_at`)."""
    NO_PERMITS = "no_permits"
    """The owner granted no more: ends with its next FLOW."""
    NOT_READING = "not_reading"
    """The owner leaves its socket unread: ends when it reads."""
    UNACKED_LIMIT = "unacked_limit"
    """The owner holds as many unacknowledged messages as it may: ends when it acknowledged half of them."""
    JOIN_POSITION = "join_position"
    """The owner joined lately and the message lies behind its join position (PIP-282)."""
    DRAINED_BY_OPERATOR = "drained_by_operator"
    """An operator keeps new messages from the owner."""
    NO_LEASE = "no_lease"
    """This replica may not deliver the slot's stream: ends when the group's leader leases it, or renews the lease."""
    PAUSED = "paused"
    """An operator paused the subscription, or the gateway is shutting down."""


class WaitingSlot:
    """The waiting parts of one slot."""

    __slots__ = ("blocked_attempts", "home", "parts", "since")

    def __init__(self, now: float) -> None:
        """Empty."""
        self.parts: deque[Part] = deque()
        self.home: Worker | None = None
        """The worker in whose ready queue the slot stands, if it stands in one."""
        self.since = now
        self.blocked_attempts = 0
        """Messages that found the slot draining (PIP-379's blockedAttempts)."""

    def insert(self, part: Part) -> None:
        """Put a part where its position belongs; almost always at the end."""
        parts = self.parts
        if not parts or parts[-1].order < part.order:
            parts.append(part)
        else:
            parts.insert(bisect_left(parts, part.order, key=_order), part)

    def insert_all(self, returned: Iterable[Part]) -> None:
        """Put back parts that were pending: before newer ones, never at the end."""
        ordered = sorted(returned, key=_order)
        parts = self.parts
        if not parts or ordered[-1].order < parts[0].order:
            parts.extendleft(reversed(ordered))
        elif len(ordered) <= _FEW:
            for part in ordered:
                self.insert(part)
        else:
            self.parts = deque(sorted(chain(ordered, parts), key=_order))


def _order(part: Part) -> tuple[int, int]:
    return part.order
