"""Entries of one consumer at the broker that came and could not be taken yet, in the order in which they came.

An entry whose batch costs too much to be opened at once waits here until it is open, and behind it all that comes
later, since until then it is not known whose its messages are. Other subscriptions go on meanwhile. What waits here
counts for the window and for memory as what waits in the dispatcher does. If the consumer at the broker is gone it is
forgotten: the broker sends it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import structlog

if TYPE_CHECKING:
    from proxy.net.subscription.counters import Counters
    from proxy.net.subscription.openings import BackgroundOpening, Openings
    from proxy.wire.messages import MessageHead

QUEUED_BYTES: Final = 500
"""What an entry costs here beside its bytes: what was read of its command, and its place."""

log = structlog.get_logger("keyline.subscription")


@dataclass(frozen=True, slots=True)
class Decompression:
    """What an entry waits for that is decompressed in the background."""

    size: int
    """Bytes that come out."""
    work: Callable[[], bytes]


Taking: TypeAlias = Generator[int | Decompression, bytes | Exception | None, None]
"""How an entry is taken: it asks for leave to spend a cost, or for a decompression, of which it is sent the result."""


class _Queued(NamedTuple):
    head: MessageHead
    arrived_at: float
    messages: int


class ReceiveQueue:
    """Implements `openings.Opener`."""

    __slots__ = (
        "_counters",
        "_in_background",
        "_failed",
        "_openings",
        "_take",
        "_take_at_once",
        "_taken",
        "_taking",
        "_wanted",
        "bytes_held",
        "entries",
        "in_line",
        "messages",
        "spent",
        "turn",
    )

    def __init__(
        self,
        openings: Openings,
        counters: Counters,
        take_at_once: Callable[[MessageHead, float], bool],
        take: Callable[[MessageHead, float], Taking],
        taken: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """`take` takes an entry that arrived at a time, `taken` is called after some were.

        `take_at_once` is asked first, and says whether it has taken it: `take` pauses, at a price.
        `failed` is called when a bug prevents the processing of one; the queue is empty then.
        """
        self._openings = openings
        self._counters = counters
        self._take_at_once = take_at_once
        self._take = take
        self._taken = taken
        self._failed = failed
        self._taking: Taking | None = None
        self._wanted: int | Decompression = 0
        """What the first entry waits for, while it is being taken."""
        self._in_background: BackgroundOpening | None = None
        self.entries: deque[_Queued] = deque()
        self.messages = 0
        self.bytes_held = 0
        self.turn = self.spent = 0
        self.in_line = False

    def add(self, head: MessageHead, arrived_at: float, messages: int) -> None:
        """One more."""
        self.entries.append(_Queued(head, arrived_at, messages))
        self.messages += messages
        self.bytes_held += len(head.tail) + QUEUED_BYTES
        if len(self.entries) == 1:
            self._openings.wait(self)

    def clear(self) -> None:
        """Nothing that waits is wanted any more."""
        self._stop_taking()
        self.entries.clear()
        self.messages = self.bytes_held = 0

    def advance(self) -> None:
        """As the port says."""
        took = False
        try:
            while self.entries:
                if self._taking is None and self._take_at_once(self.entries[0].head, self.entries[0].arrived_at):
                    self._drop_first()
                    took = True
                elif self._may_go_on():
                    took = self._go_on(None) or took
                else:
                    break
        except Exception:
            log.exception("entry not processed")
            self._fail()
            return
        if took:
            self._taken()

    def _may_go_on(self) -> bool:
        if self._taking is None:
            queued = self.entries[0]
            self._taking = self._take(queued.head, queued.arrived_at)
            self._wanted = 0
            return True
        wanted = self._wanted
        if isinstance(wanted, Decompression):
            if self._in_background is None:
                self._counters.background_openings += 1
                self._counters.background_opened_bytes += wanted.size
                self._in_background = self._openings.open_in_background(wanted.size, wanted.work, self._decompressed)
            return False
        if not self._openings.spend(self, wanted):
            self._openings.wait(self)
            return False
        return True

    def _go_on(self, result: bytes | Exception | None) -> bool:
        """Go on with the first entry; whether it is taken."""
        assert self._taking is not None
        try:
            self._wanted = self._taking.send(result)
        except StopIteration:
            self._stop_taking()
            self._drop_first()
            return True
        return False

    def _drop_first(self) -> None:
        queued = self.entries.popleft()
        self.messages -= queued.messages
        self.bytes_held -= len(queued.head.tail) + QUEUED_BYTES

    def _decompressed(self, result: bytes | Exception) -> None:
        try:
            took = self._go_on(result)
        except Exception:
            log.exception("entry not processed")
            self._fail()
            return
        if self.entries:
            self._openings.wait(self)
        if took:
            self._taken()

    def _stop_taking(self) -> None:
        if self._taking is not None:
            self._taking.close()
            self._taking = None
        if self._in_background is not None:
            self._in_background.release()
            self._in_background = None

    def _fail(self) -> None:
        self.clear()
        self._failed("an entry could not be taken")
