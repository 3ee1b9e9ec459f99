"""Follows sampled entries of a subscription from their arrival to their last acknowledgement.

An entry is in the sample by its id alone, so a redelivery and another replica choose the same ones, and an entry that
is not costs a multiplication. Nothing that a trace needs is asked of the dispatcher where messages pass: it notes the
ends of deliveries, and why something waits is looked up after the turn, then each second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.delivery_log import ENDED
from proxy.core.entry import Part
from proxy.core.positions import ENTRY_BITS
from proxy.tracing.contexts import contexts_of
from proxy.tracing.passage import Hold, Passage, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.core.delivery_log import Ending
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.worker import Worker
    from proxy.net.ports import Clock, Timer
    from proxy.wire.messages import MessageHead

LOOK_S: Final = 1.0
"""Between two looks at what waits."""
LOOKS_ABSENT: Final = 3
"""Looks without the entry after which its end was missed: it went back to the broker with a lost connection."""
PASSAGES_MAX: Final = 1_000
"""Entries followed at once, of all subscriptions."""
PARTS_LOOKED_AT: Final = 10

_BITS: Final = 64
_SPREAD: Final = 0x9E37_79B9_7F4A_7C15
"""2 ** 64 divided by the golden ratio: neighbouring entries spread evenly (Knuth, volume 3, 6.4)."""
_MASK: Final = (1 << _BITS) - 1


class Tracing:
    """Makes tracers, and hands on what they have seen."""

    def __init__(self, ratio: float, clock: Clock, put: Callable[[Passage], None]) -> None:
        """`ratio` of all entries are followed; `put` must return at once."""
        self.threshold = int(ratio * (1 << _BITS))
        self.clock = clock
        self.put = put
        self.passages = 0
        """Entries that are followed now."""
        self.too_many_total = 0
        """Sampled entries that were not followed, at `PASSAGES_MAX`."""

    def tracer(self, key: tuple[str, str], dispatcher: Dispatcher) -> SubscriptionTracer:
        """For one subscription."""
        return SubscriptionTracer(key, self, dispatcher)


class SubscriptionTracer:
    """Implements `proxy.net.events.DeliveryTracer`."""

    digest: None = None

    def __init__(self, key: tuple[str, str], tracing: Tracing, dispatcher: Dispatcher) -> None:
        """Nothing has come."""
        self._key = key
        self._tracing = tracing
        self._threshold = tracing.threshold
        self._dispatcher = dispatcher
        self._passages: dict[int, Passage] = {}
        self._absent: dict[int, int] = {}
        """Looks at which an entry was not there."""
        self._new: list[int] = []
        """Entries that came in this turn."""
        self._soon: Timer | None = None
        self._timer: Timer | None = None

    def received(self, head: MessageHead) -> None:
        """As the port says."""
        position = (head.ledger << ENTRY_BITS) + head.entry
        if (position * _SPREAD & _MASK) >= self._threshold or position in self._passages:
            return
        tracing = self._tracing
        if tracing.passages >= PASSAGES_MAX:
            tracing.too_many_total += 1
            return
        tracing.passages += 1
        topic, name = self._key
        now = tracing.clock.now()
        contexts = contexts_of(head.tail)
        self._passages[position] = Passage(
            topic, name, head.ledger, head.entry, len(head.tail), head.redelivery_count, now, contexts
        )
        self._new.append(position)
        if len(self._new) == 1:
            self._soon = tracing.clock.call_soon(self._look_at_new)

    def sent(self, worker: Worker, units: Sequence[Part], now: float) -> None:
        """As the port says."""
        passages = self._passages
        if not passages:
            return
        for unit in units:
            passage = passages.get(unit.position)
            if passage is not None:
                # Of a first attempt the arrival, of others the return.
                since = unit.received_at if unit.attempts <= 1 else unit.waits_since
                passage.sent(Wait(worker.name, unit.attempts, unit.count, unit.slot, since, now))

    def ended(self, endings: Sequence[Ending]) -> None:
        """As the port says."""
        passages = self._passages
        if not passages:
            return
        latest: dict[int, float] = {}
        for how, part, worker, at, sent_at, attempts, indexes in endings:
            passage = passages.get(part.position)
            if passage is not None:
                messages = part.count if indexes is None else len(indexes)
                passage.held(Hold(worker.name, attempts, messages, sent_at, at, ENDED[how]))
                latest[part.position] = at
        for position, at in latest.items():
            if position not in self._dispatcher.outstanding.entries:
                self._finish(position, at)

    def closed(self) -> None:
        """As the port says."""
        now = self._tracing.clock.now()
        for position in list(self._passages):
            self._left(position, now)
        for timer in (self._soon, self._timer):
            if timer is not None:
                timer.cancel()
        self._timer = None

    def _look_at_new(self) -> None:
        """At what came in the turn before and did not leave in it."""
        new, self._new = self._new, []
        self._look_at(new)
        if self._timer is None:
            self._timer = self._tracing.clock.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """At all that are here."""
        self._look_at(list(self._passages))
        self._timer = self._tracing.clock.call_later(LOOK_S, self._look) if self._passages else None

    def _look_at(self, positions: Sequence[int]) -> None:
        """Note why they wait, and which are gone."""
        now = self._tracing.clock.now()
        entries = self._dispatcher.outstanding.entries
        for position in positions:
            passage = self._passages.get(position)
            if passage is None:
                continue
            entry = entries.get(position)
            if entry is not None:
                self._absent.pop(position, None)
                passage.waits_for(self._reason([entry] if isinstance(entry, Part) else entry.parts, now), now)
                continue
            looks = self._absent[position] = self._absent.get(position, 0) + 1
            if looks >= LOOKS_ABSENT:
                self._left(position, now)

    def _reason(self, parts: Sequence[Part], now: float) -> str:
        for part in parts[:PARTS_LOOKED_AT]:
            if part.holder is None:
                reason = self._dispatcher.wait_reason(part.slot, part, now)
                if reason is not None:
                    return reason.value
        return ""

    def _left(self, position: int, now: float) -> None:
        self._passages[position].ended = "left"
        self._finish(position, now)

    def _finish(self, position: int, now: float) -> None:
        passage = self._passages.pop(position)
        self._absent.pop(position, None)
        self._tracing.passages -= 1
        passage.ended_at = now
        self._tracing.put(passage)
