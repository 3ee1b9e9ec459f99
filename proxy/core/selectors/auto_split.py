"""Auto-split ranges: the selector used when the broker's consistent hashing is switched off.

Problem: such brokers still exist, and their operators compare ranges. Rule kept: the same joins and leaves in the
same order give the broker's ranges. A joining worker takes the lower half of the widest range (the lowest of equally
wide ones); a leaving worker's range goes to its upper neighbour, and the topmost one to its lower neighbour.

Why it is not the default: shares are powers of two apart (three workers hold a half and two quarters), and the
assignment depends on who came first, so a rolling restart moves keys for good. That is the broker's rule; mending it
here would only make the two sides' stats differ.

Layout: upper bounds in a sorted list, owners in a parallel one. The topmost bound is 65536, one above the last slot,
as in the broker. `ranges` shows that bound, because the broker's stats do; `assignment` and moves speak of slots that
exist and end at 65535.

Source: facts 2.3.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from proxy.core.errors import ConsumerAssignError
from proxy.core.hash_ranges import HashRange, RangeMove, diff, merge_assignment
from proxy.core.selectors.base import Named
from proxy.core.sticky_key import RANGE_SLOT_COUNT, range_slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

W = TypeVar("W", bound=Named)

SMALLEST_RANGE_SIZE: Final = 2


class AutoSplit(Generic[W]):
    """The ranges of the broker's HashRangeAutoSplitStickyKeyConsumerSelector."""

    def __init__(self, range_size: int = RANGE_SLOT_COUNT) -> None:
        """Start with no workers. `range_size` is a power of two, at least 2; anything but 65536 is for tests."""
        assert range_size >= SMALLEST_RANGE_SIZE, range_size
        assert range_size & (range_size - 1) == 0, f"{range_size} is not a power of two"
        self.range_size = range_size
        self.slot: Callable[[int], int] = range_slot
        self._upper_bounds: list[int] = []
        self._owners: list[W] = []

    def add(self, worker: W) -> list[RangeMove[W]]:
        """Give the worker the lower half of the widest range; see `Selector.add`."""
        assert self._find(worker) is None, f"worker {worker.name} joined twice"
        before = self.assignment()
        if not self._owners:
            self._upper_bounds.append(self.range_size)
            self._owners.append(worker)
            return diff(before, self.assignment())
        widest, width = self._widest()
        if width <= 1:
            message = f"No more range can assigned to new consumer, assigned consumers {len(self._owners)}"
            raise ConsumerAssignError(message)
        self._upper_bounds.insert(widest, self._upper_bounds[widest] - (width >> 1))
        self._owners.insert(widest, worker)
        return diff(before, self.assignment())

    def remove(self, worker: W) -> list[RangeMove[W]]:
        """Give the worker's range to its upper neighbour, or lower one if it is topmost; see `Selector.remove`."""
        index = self._find(worker)
        if index is None:
            return []
        before = self.assignment()
        is_topmost = index == len(self._owners) - 1
        del self._owners[index]
        del self._upper_bounds[index - 1 if is_topmost and index else index]
        return diff(before, self.assignment())

    def select(self, slot: int) -> W | None:
        """Return the owner of the smallest upper bound at or above the slot."""
        owners = self._owners
        return owners[bisect_left(self._upper_bounds, slot)] if owners else None

    def select_each(self, slots: Iterable[int]) -> Iterator[W | None]:
        """See `Selector.select_each`."""
        return map(self.select, slots)

    def ranges(self, worker: W) -> list[HashRange]:
        """See `Selector.ranges`. The topmost range ends at 65536, as the broker shows it."""
        index = self._find(worker)
        if index is None:
            return []
        return [HashRange(self._upper_bounds[index - 1] + 1 if index else 0, self._upper_bounds[index])]

    def assignment(self) -> list[tuple[HashRange, W]]:
        """See `Selector.assignment`; slots 0..65535."""
        pieces = []
        start = 0
        for upper_bound, owner in zip(self._upper_bounds, self._owners, strict=True):
            end = min(upper_bound, self.range_size - 1)
            if start <= end:
                pieces.append((HashRange(start, end), owner))
            start = upper_bound + 1
        return merge_assignment(pieces)

    def copy(self) -> AutoSplit[W]:
        """See `Selector.copy`."""
        twin: AutoSplit[W] = AutoSplit(self.range_size)
        twin._upper_bounds = self._upper_bounds.copy()
        twin._owners = self._owners.copy()
        return twin

    def _find(self, worker: W) -> int | None:
        """Return the index of the worker's range; every worker has exactly one."""
        return next((index for index, owner in enumerate(self._owners) if owner is worker), None)

    def _widest(self) -> tuple[int, int]:
        """Return index and width of the widest range, the lowest of equals. The lowest range counts from 0."""
        lower_bounds = [0, *self._upper_bounds]
        widths = [upper - lower for lower, upper in zip(lower_bounds, self._upper_bounds, strict=False)]
        width = max(widths)
        return widths.index(width), width
