"""What a subscription asks of its keys beyond their order: a window, a pause before a retry, an end of attempts.

Problem: a message that a worker gives back (a negative acknowledgement, an ack timeout) comes again behind messages of
its key that the worker had received meanwhile. Rules kept: with a window of N, a worker has at most N unacknowledged
messages of a key, so with 1 nothing of the key is there to overtake. And a key of which something was given back waits
until the pause of that message is over, in the gateway and with everything of it that waits; other keys go on.

Keys are counted by hash slot, as everything is that is kept of them: two keys of one slot share a window and a pause.
So that a delivery concerns one slot alone, batches are cut by slot under either rule. A client acknowledges a batch
when it has all its messages, and gives it back whole: a slice of several keys would make each wait for the others.

None is asked for by default, and a dispatcher without a policy never looks here.

Source: design section 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

POWER_MAX: Final = 64
"""Pauses grow no more after so many redeliveries; by then a bound has been reached for long."""


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """A window in messages, and pauses in seconds; as it is made it asks for nothing."""

    window: int = 0
    """Unacknowledged messages of a slot at a worker; 0 is no bound."""
    retry_delay_s: float = 0.0
    """From the moment a message is given back for the first time until it may be sent again; 0 is no pause."""
    retry_multiplier: float = 1.0
    """Of the pause, for each time after the first; 1 is the same pause each time."""
    retry_delay_max_s: float = 0.0
    """The longest pause; 0 is no bound."""
    dead_letter_after: int = 0
    """Attempts after which a message goes to the dead letter topic, see `diversions`; 0 is no bound."""
    park_after: int = 0
    """Attempts after which a key is parked, see `parking`; 0 is no bound. Not both."""
    share: float = 0.0
    """Of the look-ahead and of the bytes held, what one slot's waiting messages may have while others want them, from
    0 to 1; 0 is no bound, for them and for what waits for one worker: see `spilling`."""

    @property
    def neutral(self) -> bool:
        """Whether it asks for nothing of a delivery. A share is of what waits."""
        return not self.window and not self.retry_delay_s and not self.max_attempts

    @property
    def max_attempts(self) -> int:
        """Deliveries of a message before it is parked or a dead letter; 0 is no bound."""
        return self.dead_letter_after or self.park_after

    def retry_after_s(self, redeliveries: int) -> float:
        """The pause of a message that was given back so many times, this one included; at least once."""
        power = min(redeliveries - 1, POWER_MAX)
        delay_s: float = self.retry_delay_s * self.retry_multiplier**power
        return min(delay_s, self.retry_delay_max_s) if self.retry_delay_max_s else delay_s


NO_POLICY: Final = KeyPolicy()


class RetryWaits:
    """Slots of which something was given back, until the pause is over. The core has no clock: see `due_at`."""

    __slots__ = ("_heap", "held", "messages_total")

    def __init__(self) -> None:
        """None waits."""
        self.held: dict[int, float] = {}
        """Slot to the end of its pause, in monotonic seconds; to be read."""
        self._heap: list[tuple[float, int]] = []
        """Ends and slots, some of them forgotten or put off since; the first is neither."""
        self.messages_total = 0
        """Messages that were made to wait."""

    @property
    def due_at(self) -> float | None:
        """When `release` is to be called; None while nothing waits."""
        return self._heap[0][0] if self._heap else None

    def hold(self, slot: int, until: float) -> None:
        """Let a slot wait until then, or longer if it does already."""
        if slot not in self.held or until > self.held[slot]:
            self.held[slot] = until
            heappush(self._heap, (until, slot))
            self._tidy()

    def release(self, now: float) -> list[int]:
        """Slots whose pause is over, the earliest first; they wait no more."""
        released: list[int] = []
        while self._heap and self._heap[0][0] <= now:
            slot = self._heap[0][1]
            del self.held[slot]
            released.append(slot)
            self._tidy()
        return released

    def forget(self, slot: int) -> None:
        """Nothing of the slot waits any more."""
        if self.held.pop(slot, None) is not None:
            self._tidy()

    def clear(self) -> None:
        """Let no slot wait."""
        self.held.clear()
        self._heap.clear()

    def _tidy(self) -> None:
        """Leave an end that counts at the head."""
        heap = self._heap
        while heap and self.held.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
