"""A worker as the dispatcher sees it: one consumer of a Key_Shared subscription.

Permits are counted in messages, as granted by the worker's FLOW commands. `open` folds every reason of the worker's
own not to send to it (socket unread, unacknowledged limit, drained by an operator) into one flag, so that the hot path
asks one question.

A worker counts for itself, on the hot path; when it leaves, its counts are added to those of the departed, so that a
subscription's sums never fall.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from proxy.core.pace import SPAN_S, Pace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.entry import Part


class DeliveryTotals(NamedTuple):
    """Counts of messages, but for the bytes and for the acks of what the worker did not hold."""

    sent_messages: int = 0
    sent_bytes: int = 0
    acked_messages: int = 0
    redelivered_messages: int = 0
    """Messages that workers gave back, or left behind, to be delivered once more."""
    unknown_acks: int = 0


def sum_of(totals: Iterable[DeliveryTotals]) -> DeliveryTotals:
    """All together."""
    return DeliveryTotals(*map(sum, zip(*totals, strict=True)))


class Worker:
    """One worker; owned by its dispatcher, which alone changes it after it joined."""

    __slots__ = (
        "acked_messages",
        "acks_unknown",
        "draining_cleared",
        "draining_slots",
        "drained_by_operator",
        "first_sent_at",
        "held_in_transactions",
        "index",
        "join_gate",
        "joined_at",
        "last_acked_at",
        "last_flow_at",
        "last_sent_at",
        "last_sent_position_when_joining",
        "lease_extended_at",
        "link",
        "max_unacked",
        "name",
        "open",
        "outbox",
        "over_unacked",
        "pace",
        "pace_due",
        "pending",
        "permits",
        "ready",
        "redelivered_messages",
        "refused_at",
        "refuses_since",
        "sent_bytes",
        "sent_messages",
        "sticky_ranges",
        "unacked",
        "writable",
    )

    def __init__(
        self,
        name: str,
        link: object = None,
        *,
        sticky_ranges: Sequence[tuple[int, int]] = (),
        max_unacked: int = 0,
    ) -> None:
        """`link` is the caller's own and never looked at; `max_unacked` messages, 0 for no limit."""
        self.name = name
        self.link = link
        self.sticky_ranges = sticky_ranges
        self.max_unacked = max_unacked
        self.index = 0
        self.permits = 0
        self.unacked = 0
        self.open = True
        self.writable = True
        self.over_unacked = False
        self.drained_by_operator = False
        self.pending: dict[int, Part] = {}
        self.ready: deque[Part] = deque()
        """Messages that wait for this worker only, in topic order."""
        self.outbox: list[Part] = []
        self.join_gate: JoinGate | None = None
        self.last_sent_position_when_joining: int | None = None
        self.draining_slots = 0
        self.draining_cleared = 0
        self.held_in_transactions = 0
        """Parts that it acknowledged in transactions that have not ended, and whose slots it still holds."""
        self.joined_at = 0.0
        self.first_sent_at = 0.0
        self.last_sent_at = 0.0
        self.last_acked_at = 0.0
        self.last_flow_at = 0.0
        self.refused_at = 0.0
        """When it last asked to get something again."""
        self.refuses_since = 0.0
        """When it first did so after its last ack."""
        self.lease_extended_at = 0.0
        """When it last asked for more time, see `ack_lease`."""
        self.sent_messages = 0
        self.sent_bytes = 0
        self.acked_messages = 0
        self.redelivered_messages = 0
        self.acks_unknown = 0
        self.pace = Pace()
        self.pace_due = 0.0
        """When the next ack is noted in `pace`."""

    def note_pace(self, sent_at: float, now: float) -> None:
        """It acknowledges something that was sent to it at `sent_at`, and `pace_due` is over."""
        self.pace.note(self.acked_messages, now - max(self.last_acked_at, sent_at), now)
        self.pace_due = now + SPAN_S

    def note_refusal(self, now: float) -> None:
        """It asks to get something again that it had."""
        if self.refuses_since <= self.last_acked_at:
            self.refuses_since = now
        self.refused_at = now

    @property
    def totals(self) -> DeliveryTotals:
        """Its counts so far. What lies in its outbox was counted as sent, and is left out: it may yet be withdrawn."""
        return DeliveryTotals(
            self.sent_messages - sum(unit.count for unit in self.outbox),
            self.sent_bytes - sum(unit.wire_bytes for unit in self.outbox),
            self.acked_messages,
            self.redelivered_messages,
            self.acks_unknown,
        )

    def reconsider(self) -> bool:
        """Recompute `open`; True if the worker has just become open."""
        was_open = self.open
        self.open = self.writable and not self.over_unacked and not self.drained_by_operator
        return self.open and not was_open

    def __repr__(self) -> str:
        """For assertions and debuggers."""
        return f"Worker({self.name!r}, permits={self.permits}, unacked={self.unacked})"


class JoinGate:
    """PIP-282: who joined gets nothing behind `position` until all up to it is acknowledged; see `join_gates`."""

    __slots__ = ("entries", "position", "workers")

    def __init__(self, position: int, entries: int) -> None:
        """`entries` at or below `position`, and above that of the gate before, are not acknowledged yet."""
        self.position = position
        self.entries = entries
        self.workers: dict[Worker, None] = {}
        """In join order."""
