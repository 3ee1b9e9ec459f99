"""The dispatcher's interface to selectors.

Problem: three rules exist (consistent hashing, auto-split ranges, sticky exclusive ranges), chosen by broker settings
and by the subscriber's policy, and the dispatcher must not care. Rule kept: a selector is the only owner of the
question "who owns this slot"; a membership change returns exactly the slots whose owner changed; an error changes
nothing. Why not return before and after snapshots as the broker does (facts 2.5): every caller would diff them, at
the cost of the whole ring instead of the joining worker's share.

Workers are compared by identity: two connections may carry the same name, and a worker object may define equality as
it likes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from proxy.core.hash_ranges import HashRange, RangeMove


class Named(Protocol):
    """What a selector needs to know of a worker."""

    @property
    def name(self) -> str:
        """The consumer name, which several workers may share."""


class StickyNamed(Named, Protocol):
    """A worker that says which slots it wants (KeySharedPolicy.stickyHashRange)."""

    @property
    def sticky_ranges(self) -> Sequence[tuple[int, int]]:
        """Wanted (start, end) pairs, both inclusive, in any order."""


W = TypeVar("W", bound=Named)


class Selector(Protocol[W]):
    """Owner of the assignment of hash slots to workers."""

    range_size: int
    """How many slots the space has: 65535 (slots 1..65535) or 65536 (slots 0..65535)."""

    def slot(self, murmur31: int) -> int:
        """Return the slot of a key's hash in this selector's space."""

    def add(self, worker: W) -> list[RangeMove[W]]:
        """Let a worker join; return the slots whose owner changed, sorted and merged.

        Raises:
            ConsumerAssignError: the worker cannot be given slots; nothing changed.
        """

    def remove(self, worker: W) -> list[RangeMove[W]]:
        """Let a worker leave; return the slots whose owner changed. A worker that is not here changes nothing."""

    def select(self, slot: int) -> W | None:
        """Return the owner of a slot, None if there is none."""

    def select_each(self, slots: Iterable[int]) -> Iterator[W | None]:
        """As `select`, of each of these slots, at a fraction of the price."""

    def ranges(self, worker: W) -> list[HashRange]:
        """Return a worker's slots as the broker's ``keyHashRangeArrays`` shows them: sorted and merged."""

    def assignment(self) -> list[tuple[HashRange, W]]:
        """Return every owned slot in order, adjacent ranges of one owner merged; holes are left out."""

    def copy(self) -> Selector[W]:
        """Return an independent selector with the same workers, to preview a join or a leave."""
