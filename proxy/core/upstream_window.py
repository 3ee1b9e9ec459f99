"""How many messages to let the broker send ahead of the workers.

The broker counts permits in messages, memory is counted in bytes, and entries vary from bytes to megabytes; both are
bounded here. Three wants pull: the workers' free permits should find messages at once; a worker that starves should
not wait behind messages for busy ones, so the gateway looks ahead past them; and neither the look-ahead nor the bytes
may grow without end when one key is stuck (G7).

The window is what may be on its way from the broker at any time: free permits plus look-ahead, less what waits here
already, and never more than the bytes left hold, at the size messages have had lately. A batch that waits whole will
cost more than it does if workers with few permits take it message by message, so that what waits keeps bytes for that.
The mean reacts at once when messages grow and slowly when they shrink. It is an estimate: the hard stop, when it was
wrong, is not to read from the broker any more, which is up to the owner of the connection.

A subscription may have several consumers at the broker, each with its own window. What all may have on its way is then
divided evenly among them, whichever is busy: none takes what another's first message needs, and a busy one is topped up
to its share as often as it uses it.

Facts: the broker sends to a consumer whose permits are above zero and debits whole batches, so the number outstanding
may fall below zero; it counts the same way here. What is owed so is part of the next grant that lets anything come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.entry import PART_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES_MAX: Final = 50_000
"""Most messages ever granted ahead; the broker's own limit of unacknowledged messages per consumer is as high."""
FIRST_GRANT_MESSAGES: Final = 100
"""Granted before anything is known of the messages' size: at the broker's default maximum of 5 MiB, 500 MiB at worst,
so the hard stop bounds it anyway."""
MESSAGE_OVERHEAD_BYTES: Final = 400
_SHRINK: Final = 0.05
"""Weight of a new, smaller mean."""


def look_ahead_messages(workers: int, per_worker: int, total: int) -> int:
    """Messages of one subscription that may wait, by its number of workers."""
    return min(per_worker * workers, total)


class UpstreamWindow:
    """Permits of one upstream consumer."""

    __slots__ = (
        "_mean_bytes",
        "arrived",
        "budget_bytes",
        "budget_stops",
        "look_ahead_per_worker",
        "look_ahead_total",
        "outstanding",
    )

    def __init__(self, *, budget_bytes: int, look_ahead_per_worker: int, look_ahead_total: int) -> None:
        """Budgets of the subscription: held bytes, and messages that wait (per worker, and in all)."""
        self.budget_bytes = budget_bytes
        self.look_ahead_per_worker = look_ahead_per_worker
        self.look_ahead_total = look_ahead_total
        self.outstanding = 0
        """Messages granted and not arrived."""
        self.arrived = 0
        """Messages that have arrived."""
        self.budget_stops = 0
        """Times a grant was refused because the bytes were spent."""
        self._mean_bytes = 0.0

    def reconnected(self) -> None:
        """A new consumer upstream starts without permits."""
        self.outstanding = 0

    def received(self, messages: int, size: int) -> None:
        """An entry arrived, of at least one message."""
        assert messages > 0, messages
        self.outstanding -= messages
        self.arrived += messages
        mean = size / messages + MESSAGE_OVERHEAD_BYTES
        if mean > self._mean_bytes:
            self._mean_bytes = mean
        else:
            self._mean_bytes += (mean - self._mean_bytes) * _SHRINK

    def grant(
        self,
        *,
        workers: int,
        free_permits: Callable[[], int],
        waiting_messages: int,
        bytes_held: int,
        shares: int = 1,
        asked_messages: int = 0,
    ) -> int:
        """Permits to grant now, 0 for none; they count as outstanding from here on.

        `free_permits`, which looks at all workers, is called only if it matters.

        `asked_messages` are on their way even without room for them: the broker was asked for them again (`spill`), or
        may send them again after a transaction.

        All but `shares` is about the whole subscription, which has so many windows. Each gets its part, and at least
        one message where anything may be granted at all, or a stream without messages would never get its first.
        """
        if not workers:
            return 0
        affordable = self._affordable(waiting_messages, bytes_held)
        most = max(_part_of(min(affordable, MESSAGES_MAX), shares), asked_messages)
        if self.outstanding < most < 2 * self.outstanding:
            return 0  # more than half of it is on its way, whatever the workers would take
        look_ahead = look_ahead_messages(workers, self.look_ahead_per_worker, self.look_ahead_total)
        wanted = min(free_permits() + look_ahead - waiting_messages, MESSAGES_MAX)
        window = max(_part_of(min(affordable, wanted), shares), asked_messages)
        # Where nothing may come no debt is paid either: those permits would let the broker send nothing.
        if window <= max(self.outstanding, 0):
            self.budget_stops += affordable < wanted and self._mean_bytes > 0
            return 0
        # Half the window at a time: a FLOW for every message would cost more than the messages.
        if window < 2 * self.outstanding:
            return 0
        room = window - self.outstanding
        self.outstanding += room
        return room

    def is_full(self, waiting_messages: int, bytes_held: int) -> bool:
        """Whether the bytes left are too few for one message more, at the size that messages have had lately."""
        return self._affordable(waiting_messages, bytes_held) <= 0

    def _affordable(self, waiting_messages: int, bytes_held: int) -> int:
        """Messages that the bytes left hold."""
        if not self._mean_bytes:
            return FIRST_GRANT_MESSAGES
        left = self.budget_bytes - bytes_held - waiting_messages * PART_BYTES
        affordable = int(left / self._mean_bytes)
        # At least one where nothing is held: a message larger than the budget would be the last to be read.
        return affordable if bytes_held else max(affordable, 1)


def _part_of(window: int, shares: int) -> int:
    """One of so many equal parts, and at least one message of what has any."""
    return max(window // shares, 1) if window > 0 else window
