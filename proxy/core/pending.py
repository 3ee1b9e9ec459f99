"""A worker's unacknowledged deliveries, and those of its namesakes, page by page.

Problem: a worker may hold 50,000 deliveries, and acknowledges them while the list is read. Rule kept: pages are
in topic order and each begins behind the last delivery of the one before, by value. So a reader gets every delivery
that was pending all the time exactly once, and makes progress despite acknowledgements meanwhile; a later delivery is
listed if its place is still ahead.

Why not a snapshot, or a cursor that counts: the first must be kept for readers that never come back, the second skips
what moves up when something before it is acknowledged.

Cost: one walk of the workers' pending acks for each page, and no sorting of more than the page.

Specification: design section 7 ("pending acks per consumer").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.core.delivery_key import delivery_key, wire_id
from proxy.core.positions import format_position, is_packable, pack
from proxy.core.slice_id import original_entry
from proxy.core.steps import in_steps

if TYPE_CHECKING:
    from collections.abc import Collection

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.steps import Steps
    from proxy.core.worker import Worker

PAGE_MAX: Final = 1_000
"""Deliveries on one page."""
SLOTS_LISTED_MAX: Final = 10
"""Hash slots listed of one delivery; their count is always whole."""

_CURSOR: Final = re.compile(r"(\d{1,19}):(\d{1,19}):(\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PendingAck:
    """One delivery that the worker has not acknowledged whole. Ages are in seconds."""

    message_id: str
    """``ledger:entry`` as the worker was given it; for a slice of a batch the entry is a synthetic number."""
    position: str
    """``ledger:entry`` of the entry at the broker."""
    messages: int
    """Those not acknowledged."""
    slots: tuple[int, ...]
    """Slots of those messages, ascending; at most `SLOTS_LISTED_MAX`."""
    slots_count: int
    attempts: int
    """How often it was sent to a worker."""
    redeliveries: int
    """As the worker was told."""
    sent_age_s: float
    """Since it was sent to the worker."""
    age_s: float
    """Since the broker sent it to us."""
    draining: bool
    """Whether one of its slots belongs to another worker now, which waits for it."""
    chunk: bool
    """Whether it is a chunk of a larger message."""


@dataclass(frozen=True, slots=True)
class PendingPage:
    """Some of a worker's pending acks."""

    deliveries: tuple[PendingAck, ...]
    """In topic order; those of one entry by their first message."""
    next: str | None
    """Cursor of the next page: ``ledger:entry`` of the last delivery here, and the entry of its message id; None if
    this page is the last."""
    total: int
    """Number of matching deliveries on all pages, at this moment."""


def pending_page_steps(
    dispatcher: Dispatcher, workers: Collection[Worker], *, slot: int | None, after: str | None, limit: int, now: float
) -> Steps[PendingPage]:
    """Give the deliveries that the workers hold behind the cursor `after`, from the beginning if it is None.

    Changes nothing. The workers are those of one name. `slot` leaves out deliveries without messages of that slot;
    `limit` is at most how many deliveries to give, 1 to `PAGE_MAX`; `now` is in seconds, on the clock of the
    dispatcher's other calls.

    Raises:
        ValueError: `after` is no cursor, or `limit` is out of bounds.
    """
    if not 1 <= limit <= PAGE_MAX:
        raise ValueError(f"not a page's limit: {limit}; expected 1 to {PAGE_MAX}")
    start = _parse(after) if after is not None else (-1, 0)
    total = 0
    found: list[Part] = []
    for run in in_steps([unit for worker in workers for unit in worker.pending.values()]):
        units = [unit for unit in run if slot is None or unit.unacked_of(slot)]
        total += len(units)
        ahead = [unit for unit in units if _order(unit) > start]
        if ahead:
            found = sorted((*found, *ahead), key=_order)[: limit + 1]
        yield
    pending = [unit for unit in found[:limit] if any(unit.key in worker.pending for worker in workers)]
    return PendingPage(
        deliveries=tuple(_shown(dispatcher, unit, now) for unit in pending),
        next=_cursor(found[limit - 1]) if len(found) > limit else None,
        total=total,
    )


def _order(unit: Part) -> tuple[int, int]:
    """Topic order; the keys of slices are negative numbers, larger in size where the first message comes later."""
    return unit.position, abs(unit.key)


def _cursor(unit: Part) -> str:
    return f"{format_position(unit.position)}:{wire_id(unit.key)[1]}"


def _parse(cursor: str) -> tuple[int, int]:
    """The `_order` of the delivery that the cursor names, whether or not it is pending still."""
    match = _CURSOR.fullmatch(cursor)
    if match is not None:
        ledger, entry, wire_entry = map(int, match.groups())
        if is_packable(ledger, entry) and original_entry(wire_entry) == entry:
            position = pack(ledger, entry)
            return position, abs(delivery_key(ledger, wire_entry, position))
    raise ValueError(f"not a cursor: {cursor[:100]!r}; expected the `next` of a page before, such as 3:5:5")


def _shown(dispatcher: Dispatcher, unit: Part, now: float) -> PendingAck:
    slots = sorted(unit.unacked_slots())
    ledger, entry = wire_id(unit.key)
    return PendingAck(
        message_id=f"{ledger}:{entry}",
        position=format_position(unit.position),
        messages=unit.remaining,
        slots=tuple(slots[:SLOTS_LISTED_MAX]),
        slots_count=len(slots),
        attempts=unit.attempts,
        redeliveries=unit.redeliveries,
        sent_age_s=now - unit.sent_at,
        age_s=now - unit.received_at,
        draining=any(slot in dispatcher.draining for slot in slots),
        chunk=unit.chunk is not None,
    )
