"""Measures how long keys waited: from the producer's call to the first delivery, by one machine's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.load.records import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from integration.load.lives import WorkerLife


def longest_waits(workers: Iterable[WorkerLife], since_ns: int = 0, until_ns: int | None = None) -> dict[int, int]:
    """The longest wait of each key, in nanoseconds; what came again counts when it came first.

    Only of messages that were sent at `since_ns` of the monotonic clock or later, and before `until_ns`, if given.
    """
    first: dict[tuple[int, int, int], tuple[int, int]] = {}
    for worker in workers:
        for record in worker.records:
            asked = record.sent_ns >= since_ns and (until_ns is None or record.sent_ns < until_ns)
            if record.event == Event.RECEIVED and asked:
                number = record.producer, record.key, record.sequence
                came = record.at_ns, record.sent_ns
                first[number] = min(came, first.get(number, came))
    waits: dict[int, int] = {}
    for (_, key, _), (at_ns, sent_ns) in first.items():
        waits[key] = max(at_ns - sent_ns, waits.get(key, 0))
    return waits
