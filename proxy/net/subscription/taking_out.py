"""Orders to take what is parked of a slot out of the lot: to redrive it, or to drop it.

From an order on nothing of the slot goes in but what is older than the last that is parked. When what was on its way
has arrived, and no worker has anything of the slot, its messages are delivered in order; if they are to be dropped,
they are acknowledged once no worker has anything of an earlier redrive: what it gives back is in the lot again, and
dropped, too. Each is acknowledged in the parking topic, and when the broker has confirmed the last, the slot goes on.
If the gateway ends in between, the rest is still parked.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from proxy.core import parking
from proxy.errors import Conflict
from proxy.net.subscription.redrive_checks import STILL_COMES, incomplete, overtaken, parked_place, why_not

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from proxy.core.positions import Position
    from proxy.net.subscription.parked_log import ParkedLog
    from proxy.net.subscription.redrives import Redrives
    from proxy.net.subscription.refused import Refused
    from proxy.net.subscription.state import SubscriptionState
    from proxy.net.subscription.topic_reading import TopicReading
    from proxy.wire.parked import Parked

DROPPED_MAX: Final = 1_000
"""Messages that are dropped at a time, by one acknowledgement."""
USED_AGAIN: Final = "one of its messages has used its attempts again"
MOVED: Final = "the subscription was moved by a seek, or was to be deleted: order it again"
log = structlog.get_logger("keyline.subscription")


class WayIn(Protocol):
    """How messages get into the lot, as far as orders depend on it."""

    @property
    def refused(self) -> Refused:
        """What the parking topic did not take."""

    def takes_nothing(self) -> bool:
        """Whether nothing goes in at present; then people are told why."""

    def is_coming(self, slot: int) -> bool:
        """Whether something of the slot is in the parking topic and was not read yet."""

    def keep_back(self, slot: int) -> None:
        """What would go in of the slot waits at the dispatcher instead."""


class TakingOut:
    """Of one subscription."""

    def __init__(
        self,
        topic: str,
        state: SubscriptionState,
        way_in: WayIn,
        parked: ParkedLog,
        redrives: Redrives,
        reading: TopicReading,
    ) -> None:
        """`topic` is the parking topic, and `parked` what it has."""
        self._topic = topic
        self._state = state
        self._way_in = way_in
        self._log = parked
        self._redrives = redrives
        self._reading = reading
        self._orders: dict[int, bool] = {}
        """By slot, whether it is redriven."""

    @property
    def slots(self) -> Collection[int]:
        """Those that are taken out."""
        return self._orders.keys()

    def state_of(self, slot: int) -> str:
        """In a word."""
        order = self._orders.get(slot)
        return "parked" if order is None else "redriving" if order else "dropping"

    def order(self, slot: int, *, redrive: bool) -> int:
        """Take a slot out. Returns how many messages of it are parked by now.

        Raises:
            Conflict: it cannot be redriven now; the text says why, and what to do.
        """
        if redrive and (problem := self._why_not(slot)):
            raise Conflict(problem)
        if slot in self._state.dispatcher.diversions.parked and self._orders.get(slot) is not redrive:
            self._orders[slot] = redrive
            self._redrives.end(slot)
            parking.take_out(self._state.dispatcher, slot)
            self._state.schedule_flush()
        return len(self._log.slots.get(slot, ()))

    def drop_incomplete(self, slot: int) -> int:
        """Delete chunks of messages of which an earlier chunk is gone. Returns how many; the slot stays parked.

        Raises:
            Conflict: it is not known which these are, since others are on their way, or at a worker.
        """
        left = self._left_of(slot)
        if slot in self._orders or self._comes(slot, left):
            raise Conflict(STILL_COMES)
        going = incomplete(left)
        for begin in range(0, len(going), DROPPED_MAX):
            self._log.acknowledge(*going[begin : begin + DROPPED_MAX])
        return len(going)

    def give_up(self) -> None:
        """End the orders that failed since the last turn."""
        diversions = self._state.dispatcher.diversions
        failed, diversions.failed = diversions.failed, {}
        for slot in [slot for slot in self._orders if slot in failed or slot not in diversions.taken_out]:
            self._end(slot, USED_AGAIN if slot in failed else MOVED)

    def carry_out(self) -> list[int]:
        """The next step of each order, where it can be taken now; returns the slots of which nothing is left."""
        has_room = self._redrives.has_room  # thousands may wait for it, and each turn comes here
        return [
            slot
            for slot, redrive in list(self._orders.items())
            if (has_room or not redrive or self._redrives.has_begun(slot)) and self._step(slot)
        ]

    # ---- within

    def _end(self, slot: int, reason: str) -> None:
        """What was not taken out yet stays parked."""
        del self._orders[slot]
        diversions = self._state.dispatcher.diversions
        diversions.taken_out.pop(slot, None)
        diversions.dirty[slot] = None
        self._redrives.end(slot)
        self._state.schedule_flush()  # another one may have waited for it
        log.warning("redrive failed", topic=self._topic, slot=slot, reason=reason)
        self._state.happened("redrive_failed", slot=slot, parking_topic=self._topic, reason=reason)

    def _why_not(self, slot: int) -> str:
        """Why what is parked of the slot cannot be redriven in order now, and what to do; empty if it can."""
        coming = bool(self._state.dispatcher.diversions.held.get(slot))
        refused = self._way_in.refused
        return why_not(self._left_of(slot), refused.first(slot), refused.reason, coming=coming)

    def _step(self, slot: int) -> bool:
        """Take the next step of an order, if it can be taken now; whether it was the last."""
        held = self._state.dispatcher.diversions.held[slot]
        refused = self._way_in.refused.first(slot) is not None
        if refused and self._orders[slot] and (problem := self._why_not(slot)):
            self._end(slot, problem)
            return False
        if held and (refused or self._way_in.takes_nothing()):
            self._way_in.keep_back(slot)
        if held or self._way_in.is_coming(slot):
            return False
        parked = self._log.slots.get(slot)
        if parked is None:
            self._finish(slot)
            return True
        if not self._orders[slot]:
            self._drop(slot, parked)
        elif self._redrives.may_begin(slot):
            left = self._left_of(slot)
            if left:
                self._begin(slot, left)
        return False

    def _drop(self, slot: int, parked: dict[Position, Parked]) -> None:
        """Acknowledge the next of these, once nothing of them is delivered and those before are acknowledged."""
        if not self._redrives.has_handed_on(slot) and not self._log.is_leaving(next(iter(parked))):
            self._log.acknowledge(*islice((each for each in parked if not self._log.is_leaving(each)), DROPPED_MAX))

    def _begin(self, slot: int, left: dict[Position, Parked]) -> None:
        """Redrive these of a slot, once all that is older of it is among them.

        What is older may be in the original topic: if the parking topic refused it, and took others that were published
        with it. It waits here, or comes yet if the gateway began since, and goes into the lot first, at once: what
        waits fills the look-ahead, and keeps the topic from being read.
        """
        last = max(map(parked_place, left.values()))
        if parking.collect_up_to(self._state.dispatcher, slot, last):
            if self._way_in.takes_nothing():
                self._end(slot, overtaken(self._state.dispatcher.diversions.trouble))
        elif not self._reading.has_passed(last[0]):
            return
        elif problem := self._why_not(slot):
            self._end(slot, problem)
        else:
            parking.begin_redrive(self._state.dispatcher, slot)
            self._redrives.begin(slot, left)

    def _left_of(self, slot: int) -> dict[Position, Parked]:
        """What is parked of a slot, and not acknowledged yet."""
        parked = self._log.slots.get(slot, {})
        return {position: each for position, each in parked.items() if not self._log.is_leaving(position)}

    def _comes(self, slot: int, left: Mapping[Position, Parked]) -> bool:
        """Whether chunks of these messages may be missing that are here, or come yet with what was read so far."""
        dispatcher = self._state.dispatcher
        last = max((each.position for each in left.values()), default=-1)
        here = dispatcher.waiting_in(slot) or dispatcher.slots.holder(slot) or self._way_in.is_coming(slot)
        return bool(here) or not self._reading.has_passed(last)

    def _finish(self, slot: int) -> None:
        redriven = self._orders.pop(slot)
        self._redrives.end(slot)
        self._state.happened("redriven" if redriven else "parked_dropped", slot=slot, parking_topic=self._topic)
        parking.release(self._state.dispatcher, slot, self._state.now())
