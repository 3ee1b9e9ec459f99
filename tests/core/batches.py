"""Batches of several slots, as tests write them down."""

from __future__ import annotations

from collections.abc import Iterable

from proxy.core.entry import Batch, mixed_batch


def by_slot(
    position: int, tail: bytes, total: int, groups: Iterable[tuple[int, tuple[int, ...]]], redeliveries: int, now: float
) -> Batch:
    """As `mixed_batch`, of `total` messages; `groups` gives (slot, ascending indexes) for each slot."""
    slots = [0] * total
    known: list[int] = []
    for slot, indexes in groups:
        known += indexes
        for index in indexes:
            slots[index] = slot
    return mixed_batch(position, tail, slots, redeliveries, now, tuple(sorted(known)))
