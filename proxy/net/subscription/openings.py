"""Limits the cost of opening batches: a bounded amount in each turn of the loop, the rest later or on a thread.

Problem: a batch is opened to find the owners of its messages, and a few kilobytes from any producer may decompress to
many megabytes, or contain thousands of messages. All of it at once would block the event loop for other messages, pings
and health checks. Rule: one turn opens no more than `OpeningLimits`, for one consumer and for all together; payloads
that decompress to more than `inline_bytes` are decompressed in the background, `at_once` of them at a time, and their
bytes count in the gateway's memory. One that waits for its client, which may take hours, gives its place to the next
and is kept beside; of these the oldest are dropped when they have more than `kept_bytes`, and opened again later.

Other work waits in a queue; each turn continues after the previous one, so a consumer with a thousand batches delays
the others by one turn only. Counted in messages instead of measured in seconds, so that the same entries always take
the same turns.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Background, Clock, Timer

T = TypeVar("T")

COST_ENTRY: Final = 8
"""What an entry costs however little there is in it; all its messages, where they have one key, are hardly more."""

COST_BYTES: Final = 512
"""Bytes whose decompression costs about as much as reading one message of a batch, one or two microseconds."""


@dataclass(frozen=True, slots=True)
class OpeningLimits:
    """What may be opened when. Costs are in messages, see `COST_BYTES`."""

    inline_bytes: int = 256 << 10
    """Decompressed on the loop at most; the clients' default ends a batch at 128 KiB."""
    step_messages: int = 2_048
    """Of one batch that are looked at in one go; the clients' default ends a batch at 1,000."""
    share_cost: int = 2_048
    """Of one consumer in one turn; the last entry may go beyond it."""
    turn_cost: int = 4_096
    """Of all consumers in one turn, likewise."""
    at_once: int = 2
    """Payloads that are opened in the background, or were and are still being looked at."""
    kept_bytes: int = 64 << 20
    """Of all payloads that were opened in the background and wait for their clients."""


class Opener(Protocol):
    """Who opens batches, and waits in line if there is more than fits a turn."""

    turn: int
    """The turn in which it spent something last; `Openings` alone writes these three."""
    spent: int
    """What it spent in that turn."""
    in_line: bool
    """Whether it is to be called."""

    def advance(self) -> None:
        """Go on, as far as `Openings.spend` allows; then wait in line again if there is more to do."""


class BackgroundOpening:
    """One payload that is opened in the background, from the wish until nothing of it is needed any more."""

    def __init__(self, openings: Openings, size: int, begin: Callable[[], Timer]) -> None:
        """`size` bytes come out; `begin` asks for the work."""
        self.size = size
        self._openings = openings
        self._begin = begin
        self._errand: Timer | None = None

    def begin(self) -> None:
        """There is room for it."""
        self._errand = self._begin()

    def keep(self, drop: Callable[[], None]) -> None:
        """The caller waits for its client, and has the payload until it releases it; once more changes nothing.

        `drop` is called when too much is kept, and releases it.
        """
        self._openings.kept(self, drop)

    def release(self) -> None:
        """The caller is done with it, or no longer wants it. To be called once."""
        if self._errand is not None:
            self._errand.cancel()
        self._openings.released(self)


class Openings:
    """All openings of one gateway."""

    def __init__(self, clock: Clock, background: Background, limits: OpeningLimits | None = None) -> None:
        """Nothing is opened yet."""
        self.limits = limits or OpeningLimits()
        self.account: Callable[[int], None] = _unaccounted
        """Told of every byte more or less that opened payloads hold."""
        self._clock = clock
        self._background = background
        self._turn = 1
        self._left = self.limits.turn_cost
        self._line: deque[Opener] = deque()
        self._turn_due = False
        self._wanted: deque[BackgroundOpening] = deque()
        self._under_way: set[BackgroundOpening] = set()
        self._kept: dict[BackgroundOpening, Callable[[], None]] = {}
        """How to drop each, the oldest first."""
        self._kept_bytes = 0
        self._kept_bytes_max = self.limits.kept_bytes

    def spend(self, opener: Opener, cost: int) -> bool:
        """Whether it may open something of that cost in this turn: True means that it does."""
        if opener.turn != self._turn:
            opener.turn = self._turn
            opener.spent = 0
        elif opener.spent >= self.limits.share_cost:
            return False
        if self._left <= 0:
            return False
        opener.spent += cost
        self._left -= cost
        if not self._turn_due:
            self._turn_soon()
        return True

    def spend_more(self, opener: Opener, cost: int) -> None:
        """It turned out to cost more than was asked for; what comes next pays for that."""
        opener.spent += cost
        self._left -= cost

    def wait(self, opener: Opener) -> None:
        """Call `advance` in the next turn that has something left for it; once more changes nothing."""
        if not opener.in_line:
            opener.in_line = True
            self._line.append(opener)
            if not self._turn_due:
                self._turn_soon()

    def open_in_background(
        self, size: int, work: Callable[[], T], done: Callable[[T | Exception], None]
    ) -> BackgroundOpening:
        """Call `work`, which opens a payload to `size` bytes, in the background when there is room for it.

        `done` gets, in a later turn, what it returned or raised. What is returned here is released by the caller, in
        any case and once, when it has done with the payload.
        """
        wish = BackgroundOpening(self, size, lambda: self._background.run(work, done))
        self._wanted.append(wish)
        self._begin_more()
        return wish

    def kept(self, wish: BackgroundOpening, drop: Callable[[], None]) -> None:
        """As `BackgroundOpening.keep` says."""
        if wish in self._kept:
            return
        self._under_way.remove(wish)
        self._kept[wish] = drop
        self._kept_bytes += wish.size
        self._drop_oldest()
        self._begin_more()

    def save_memory(self, *, short: bool) -> None:
        """While the gateway's memory is short, nothing is kept for clients without room."""
        self._kept_bytes_max = 0 if short else self.limits.kept_bytes
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        while self._kept_bytes > self._kept_bytes_max:
            drop = next(iter(self._kept.values()))
            drop()

    def released(self, wish: BackgroundOpening) -> None:
        """As `BackgroundOpening.release` says."""
        if wish in self._under_way:
            self._under_way.remove(wish)
            self.account(-wish.size)
            self._begin_more()
        elif self._kept.pop(wish, None) is not None:
            self._kept_bytes -= wish.size
            self.account(-wish.size)
        else:
            self._wanted.remove(wish)

    def _begin_more(self) -> None:
        while self._wanted and len(self._under_way) < self.limits.at_once:
            wish = self._wanted.popleft()
            self._under_way.add(wish)
            self.account(wish.size)
            wish.begin()

    def _turn_soon(self) -> None:
        self._turn_due = True
        self._clock.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_due = False
        self._turn += 1
        self._left = self.limits.turn_cost
        line = self._line
        try:
            for _ in range(len(line)):
                if self._left <= 0:
                    break
                opener = line.popleft()
                opener.in_line = False
                opener.advance()
        finally:  # one that raises must not strand those behind it
            if line and not self._turn_due:
                self._turn_soon()


def _unaccounted(_byte_change: int) -> None:
    """No one keeps account."""
