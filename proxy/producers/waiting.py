"""Producers that wait, in the order in which they are to be promoted.

A returning owner first, then by priority, the highest first; equal ones in the order of arrival.
Priorities are signed and compared, never subtracted. Clocks are not asked: creation times tie, and a sequence number
is what they stand for.

Source: PIP-440, "Spec".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from sortedcontainers import SortedDict

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIORITY_MIN = -(1 << 31)
PRIORITY_MAX = (1 << 31) - 1

T = TypeVar("T")
Rank: TypeAlias = tuple[int, int, int]
"""What orders producers: smaller is earlier."""


class WaitingProducers(Generic[T]):
    """A priority queue from which any producer may leave at any time."""

    __slots__ = ("_by_rank",)

    def __init__(self) -> None:
        """Empty."""
        self._by_rank: SortedDict[Rank, T] = SortedDict()

    def __len__(self) -> int:
        """Count those that wait."""
        return len(self._by_rank)

    def __iter__(self) -> Iterator[T]:
        """All of them, the next one first."""
        return iter(self._by_rank.values())

    def add(self, rank: Rank, producer: T) -> None:
        """Add a producer with its unique rank from `rank_of`."""
        assert rank not in self._by_rank, "two producers of one rank"
        self._by_rank[rank] = producer

    def remove(self, rank: Rank) -> None:
        """It waits no longer."""
        del self._by_rank[rank]

    def first(self) -> tuple[Rank, T] | None:
        """Rank and producer of the next promotion; None if the queue is empty."""
        return self._by_rank.peekitem(0) if self._by_rank else None


def rank_of(priority: int, arrival: int, *, returning: bool = False) -> Rank:
    """What orders producers. `arrival` grows with each producer of the topic.

    A `returning` producer owned the topic until its connection broke, without another owner since: it keeps its place
    before all others.

    Raises ValueError for a priority that is no signed 32-bit number.
    """
    if not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        message = f"priority {priority}: it should be from {PRIORITY_MIN} to {PRIORITY_MAX}"
        raise ValueError(message)
    return int(not returning), -priority, arrival
