"""Messages that cannot go out yet, in order, in memory: not in a replay queue that is read again.

What only its owner's permits hold back waits in the owner's ready queue, in topic order, and leaves in that order: so a
batch's part for a worker leaves whole, since everything before it has left. What no worker may have now waits in a
queue of its slot. Why something waits is one closed set of states, `WaitReason`; each names who or what ends it. Later
features add reasons here and nowhere else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final

from proxy.core.entry import topic_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.entry import Part

BLOCKED_SLOT_BYTES: Final = 860
"""What a slot costs while it is blocked, its parts aside (measured, 64-bit): most of it is the queue's first block."""

_FEW: Final = 16
"""Parts put back one by one; more are sorted in with all that wait."""


class WaitReason(Enum):
    """Why the head of a slot does not move, and what ends that."""

    NO_OWNER = "no_owner"
    """No worker covers the slot: ends when one joins that does."""
    EXCLUDED = "excluded"
    """The same, while an operator excludes a worker: ends also when one is readmitted that covers it."""
    QUARANTINED = "quarantined"
    """The same, while a worker is quarantined that lost its ack lease too often: ends also with that."""
    DRAINING = "draining"
    """Another worker still holds messages of the slot: ends with its last ack, nack or departure (PIP-379)."""
    IN_TRANSACTION = "in_transaction"
    """All that its holder has of the slot is acknowledged in transactions: ends with these (`transactions`)."""
    UNBLOCKING_INTERVAL = "unblocking_interval"
    """The slot has drained and is released with others that do: ends with the interval (`Unblocking.due_at`)."""
    WINDOW_FULL = "window_full"
    """The owner holds as many messages of the slot as the policy lets it: ends with its next ack of one."""
    RETRY_WAIT = "retry_wait"
    """A message of the slot was given back and is sent again after a pause: ends with it (`RetryWaits.due_at`)."""
    DEAD_LETTER = "dead_letter"
    """A message of the slot has used its attempts: ends when the dead letter topic has it (`Diversions`)."""
    PARKED = "parked"
    """Its key is parked: it goes to the parking topic, or waits behind what is redriven from there."""
    BEYOND_SHARE = "beyond_share"
    """Only the broker has its bytes, since it lay beyond its key's or worker's share: ends when they come again."""
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


class BlockedSlot:
    """The waiting parts of one slot that no worker may have now, in topic order."""

    __slots__ = ("blocked_attempts", "parts")

    def __init__(self) -> None:
        """Empty."""
        self.parts: deque[Part] = deque()
        self.blocked_attempts = 0
        """Messages that found the slot draining (PIP-379's blockedAttempts)."""


def insert_all(queue: deque[Part], parts: Sequence[Part]) -> None:
    """Put parts where their positions belong in a queue that is in topic order.

    Most come alone and behind all that waits.
    """
    if len(parts) == 1 and (not queue or queue[-1].position < parts[0].position):
        batch = parts[0].batch
        if batch is None or not batch.foreign:
            queue.append(parts[0])
            return
    ordered = sorted(parts, key=topic_order)
    if not queue or queue[-1].order < ordered[0].order:
        queue.extend(ordered)
    elif ordered[-1].order < queue[0].order:
        queue.extendleft(reversed(ordered))
    elif len(ordered) <= _FEW:
        for part in ordered:
            queue.insert(bisect_left(queue, part.order, key=topic_order), part)
    else:
        ordered += queue
        queue.clear()
        queue.extend(sorted(ordered, key=topic_order))


def ahead_of_siblings(part: Part, queue: Iterable[Part]) -> int:
    """How many of a batch's part's messages stand before the first in the queue of the same batch and slot."""
    for following in queue:
        if following.batch is not part.batch:
            break
        if following.slot == part.slot:
            return bisect_left(part.message_indexes(), following.message_indexes()[0])
    return part.count
