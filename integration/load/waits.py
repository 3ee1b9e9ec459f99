"""Measures how long keys waited: from the producer's call to the first delivery, by one machine's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integration.load.records import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from integration.load.lives import WorkerLife


class Way(NamedTuple):
    """Of one message: when its producer was called, and when a worker got it first."""

    key: int
    sent_ns: int
    at_ns: int


def ways(workers: Iterable[WorkerLife], since_ns: int = 0, until_ns: int | None = None) -> list[Way]:
    """Each message's; what came again counts when it came first.

    Only of messages that were sent at `since_ns` of the monotonic clock or later, and before `until_ns`, if given.
    """
    first: dict[tuple[int, int, int], Way] = {}
    for worker in workers:
        for record in worker.records:
            asked = record.sent_ns >= since_ns and (until_ns is None or record.sent_ns < until_ns)
            if record.event == Event.RECEIVED and asked:
                number = record.producer, record.key, record.sequence
                way = Way(record.key, record.sent_ns, record.at_ns)
                if number not in first or way.at_ns < first[number].at_ns:
                    first[number] = way
    return [*first.values()]


def longest_waits(workers: Iterable[WorkerLife], since_ns: int = 0, until_ns: int | None = None) -> dict[int, int]:
    """The longest wait of each key, in nanoseconds, of the same messages."""
    waits: dict[int, int] = {}
    for way in ways(workers, since_ns, until_ns):
        waits[way.key] = max(way.at_ns - way.sent_ns, waits.get(way.key, 0))
    return waits
