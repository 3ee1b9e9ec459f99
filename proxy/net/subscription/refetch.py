"""Entries that only the broker has the bytes of: lets them go, and asks for them when they are next.

The dispatcher says which (`proxy.core.spilling`); here is when, by which consumer, and what if nothing comes. An entry
that was asked for can be gone: skipped, or expired, while it waited. The broker says nothing of that. So after a while
the consumer begins anew, by which the broker tells where the cursor stands and sends all again that is not
acknowledged, as after any loss. Each time in a row that did not help, the next is put off for longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.core import spilling
from proxy.core.entry import Batch
from proxy.core.positions import unpack
from proxy.net.alarm import Alarm
from proxy.wire import commands

if TYPE_CHECKING:
    from proxy.net.subscription.state import SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumer, UpstreamConsumers

OVERDUE_S: Final = 30.0
"""A broker answers in milliseconds; after so long without an answer to the oldest question it has none."""
OVERDUE_MAX_S: Final = 600.0

log = structlog.get_logger("keyline.subscription")


class Refetch:
    """Of one subscription."""

    def __init__(self, state: SubscriptionState, consumers: UpstreamConsumers) -> None:
        """Nothing is asked for yet."""
        self._state = state
        self._consumers = consumers
        self._dispatcher = state.dispatcher
        self._spill = state.dispatcher.outstanding.spill
        self._timer = Alarm(state.clock)
        self._still = Alarm(state.clock)
        self._oldest = 0, 0
        """What was the first of those asked for when the timer was set, and for how many times by then."""
        self._patience_s = OVERDUE_S

    def end_turn(self) -> None:
        """What can leave has left: let go of what is beyond its share, and ask for what is next."""
        if not self._dispatcher.policy.share and not self._spill.times:
            return
        dispatcher, spill = self._dispatcher, self._spill
        state, settings = self._state, self._state.settings
        now = state.now()
        if dispatcher.policy.share:
            look_ahead = settings.look_ahead_messages(len(dispatcher.workers))
            spilling.spill(dispatcher, look_ahead, settings.subscription_memory_bytes, now)
            if spill.spared and not self._still.is_set:
                self._still.set(spilling.STILL_S, self._look_again)
        full = len(dispatcher.touched)
        wants = spilling.take_wants(dispatcher, now)
        if len(dispatcher.touched) > full:
            state.schedule_flush()
        if wants:
            self._ask(wants)
        if spill.asked and not self._timer.is_set:
            self._watch()

    def reported(self, held_bytes: int) -> int:
        """What of the bytes of entries counts for the gateway, which reads nothing while it has too many.

        While an entry is on its way that others wait behind, no more than half of what the subscription may have: not
        to read would keep all of them. What may come besides is bounded by what was asked for. So it is while something
        is held of a transaction that is gone: what the broker sends or tells of it, also by its death, must be read.
        And so it is while a seek or an unsubscribe is under way, by which all of it goes.
        """
        if not (self._spill.asked or self._state.transactions.awaits or self._state.request):
            return held_bytes
        return min(held_bytes, self._state.settings.subscription_memory_bytes // 2)

    def end(self) -> None:
        """The subscription is over here."""
        self._timer.cancel()
        self._still.cancel()

    def _ask(self, positions: list[int]) -> None:
        """Ask the consumers that have them. One that is on its way back is not asked: it gets all again."""
        by_consumer: dict[UpstreamConsumer, list[tuple[int, int]]] = {}
        for position in positions:
            consumer = self._consumer_of(position)
            if consumer is not None:
                by_consumer.setdefault(consumer, []).append(unpack(position))
        for consumer, ids in by_consumer.items():
            link = consumer.upstream.link
            if link is not None:
                link.send(commands.redeliver(consumer.upstream.consumer_id, ids))

    def _consumer_of(self, position: int) -> UpstreamConsumer | None:
        entry = self._state.dispatcher.outstanding.entries[position]
        slot = entry.parts[0].slot if isinstance(entry, Batch) else entry.slot
        for consumer in self._consumers:
            if consumer.slots is None or consumer.slots.start <= slot <= consumer.slots.end:
                return consumer
        return None

    def _look_again(self) -> None:
        """Decide anew what may keep its bytes: by itself nothing need happen, if all stand still."""
        self._spill.look_again()
        self._state.schedule_flush()

    def _watch(self) -> None:
        position = next(iter(self._spill.asked))
        self._oldest = position, self._spill.times[position]
        self._timer.set(self._patience_s, self._look)

    def _look(self) -> None:
        """Begin anew if what was asked for first then has not come."""
        state = self._state
        asked = self._spill.asked
        position, times = self._oldest
        if position not in asked or self._spill.times[position] != times:
            self._patience_s = OVERDUE_S
        elif not state.dispatcher.paused:
            consumer = self._consumer_of(position)
            if consumer is not None and consumer.upstream.link is not None:
                self._patience_s = min(self._patience_s * 2, OVERDUE_MAX_S)
                log.warning("entries not sent again", topic=state.topic, subscription=state.name, entries=len(asked))
                consumer.lost("the broker did not send entries again that it was asked for", tell_broker=True)
        if asked:
            self._watch()
