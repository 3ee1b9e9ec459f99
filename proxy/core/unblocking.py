"""Slots that came free and wait for the others: PIP-379's keySharedUnblockingIntervalMs.

Problem: a worker that acknowledges one message at a time frees the slots of a drain one by one, and each would be a
delivery, a frame and a wake-up of its own at the new owner. Rule kept: the first slot that comes free while messages of
it wait begins an interval, and what comes free until its end is released with it, together. So a slot waits for one
interval at most, regardless of acknowledgements meanwhile. With an interval of 0 nothing is ever held here, and a slot
goes on in the call that frees it.

Only a slot that drained waits here, as at the broker: a slot without a blocked owner has nothing to release. While it
waits, no worker holds anything of it, so membership may change at will: who owns the slot at the end gets it.

Why the time is not asked here: the core has no clock. `due_at` says when `release` is to be called; the caller has the
timer.

Source: PIP-379, high-level design 5; design, section 3.
"""

from __future__ import annotations


class Unblocking:
    """The slots that came free since the interval began."""

    __slots__ = ("due_at", "held", "interval_s")

    def __init__(self, interval_s: float = 0.0) -> None:
        """Nothing is held."""
        assert interval_s >= 0.0, interval_s
        self.interval_s = interval_s
        self.due_at: float | None = None
        """When the interval ends, in monotonic seconds; None while nothing is held."""
        self.held: dict[int, None] = {}
        """The slots, in the order in which they came free; to be read."""

    def hold(self, slot: int, now: float) -> None:
        """Hold a slot that has come free, if there is an interval."""
        if not self.interval_s:
            return
        self.held[slot] = None
        if self.due_at is None:
            self.due_at = now + self.interval_s

    def release(self, now: float) -> tuple[int, ...]:
        """Hold nothing any more; returns what was held, in the order it came free. Nothing before `due_at`."""
        if self.due_at is None or now < self.due_at:
            return ()
        released = tuple(self.held)
        self.clear()
        return released

    def forget(self, slot: int) -> None:
        """Nothing of the slot waits any more."""
        if slot in self.held:
            del self.held[slot]
            if not self.held:
                self.due_at = None

    def clear(self) -> None:
        """Forget every slot."""
        self.held.clear()
        self.due_at = None
