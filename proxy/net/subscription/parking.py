"""The parking lot of a subscription: keys that are parked, and the way in and out of it (`proxy.core.parking`).

Messages go in as dead letters do, by a producer, each acknowledged behind its receipt. What is in it tells the parking
topic (`parked_log`), which is read before the first worker is let in: so a gateway that was killed, or another replica,
knows which keys are parked before it delivers anything.

The way out, by orders, is `taking_out`.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from proxy.core import parking
from proxy.core.foreign_ids import take_back
from proxy.core.sticky_key import murmur31
from proxy.net.events import LISTED_MAX
from proxy.net.subscription import own_topic_advice
from proxy.net.subscription.dead_letters import DeadLetters
from proxy.net.subscription.own_topic_advice import OPENING, PARKING, advice_on
from proxy.net.subscription.own_topics import parking_topic
from proxy.net.subscription.parked_log import ParkedLog
from proxy.net.subscription.redrives import Redrives
from proxy.net.subscription.taking_out import TakingOut
from proxy.net.subscription.topic_reading import TopicReading
from proxy.wire.batch import own_sticky_key
from proxy.wire.dead_letters import Published
from proxy.wire.metadata import peek, peek_key
from proxy.wire.parked import keep, mark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.core.entry import Part
    from proxy.net.broker.producer import GatewayProducer
    from proxy.net.subscription.own_topic_advice import Advice
    from proxy.net.subscription.refused import Refused
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.state import Answer, SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumers

PARKED_MAX: Final = 100_000
"""Messages in one subscription's lot, some 500 bytes each here; then its keys wait."""
log = structlog.get_logger("keyline.subscription")
FULL: Final = f"it has {PARKED_MAX:,} messages, as many as it may"


class ParkingLot(DeadLetters):
    """Of one subscription."""

    went: ClassVar[str] = "parked"
    _advices: ClassVar[Mapping[int, Advice]] = PARKING

    def __init__(
        self,
        state: SubscriptionState,
        services: Services,
        consumers: UpstreamConsumers,
        failed: Callable[[str], None],
    ) -> None:
        """`open` begins; `failed` hears why it does not, until it is open. `consumers` are of the original topic."""
        super().__init__(state, services, parking_topic(state.settings.parking_topic, *state.key))
        self._on_failure = failed
        self._opened: Callable[[], None] | None = None
        self.is_open = False
        self._mark = ""
        """Up to which message the log is read first: the producer's name, which a broker gives no other."""
        self._slot_of = slot_of = state.dispatcher.selector.slot
        hears = self._marked, self._log_changed, self._log_failed
        self.log = ParkedLog(self.topic, state.key, services.brokers.diversions, state.clock, slot_of, *hears)
        self._log_trouble = ""
        """Why the log could not be read last; empty while it is."""
        state.behind_lot = self._behind
        state.dispatcher.diversions.make_way = partial(take_back, state.dispatcher)
        self._coming: dict[tuple[int, int | None], int] = {}
        """Slot of what has its receipt and was not read yet, by entry and index."""
        self._told: set[int] = set()
        """Parked slots that an event has told of."""
        self._redrives = Redrives(self.topic, state, services.brokers.diversions, self.log, self._is_over)
        outstanding = state.dispatcher.outstanding
        self._reading = TopicReading(outstanding, consumers, state.clock, state.schedule_flush)
        self._taking_out = TakingOut(self.topic, state, self, self.log, self._redrives, self._reading)

    def open(self, opened: Callable[[], None]) -> None:
        """Read what is parked, then call `opened`, once."""
        self._opened = opened
        self.log.open()
        self._make_producer()

    def close(self) -> None:
        """As for dead letters; what is parked stays so."""
        super().close()
        self.log.close()
        self._redrives.close()
        self._reading.stop()

    def order(self, slot: int, *, redrive: bool) -> int:
        """Deliver what is parked of a slot, or delete it; see `TakingOut.order`."""
        self.turn()
        return self._taking_out.order(slot, redrive=redrive)

    def drop_incomplete(self, slot: int) -> int:
        """See `TakingOut.drop_incomplete`."""
        self.turn()
        return self._taking_out.drop_incomplete(slot)

    def state_of(self, slot: int) -> str:
        """In a word."""
        return self._taking_out.state_of(slot)

    @property
    def parked_slots(self) -> set[int]:
        """Those that are parked, to be read."""
        return self._state.dispatcher.diversions.parked

    def turn(self) -> None:
        """The end of a turn of the subscription: what is to go in goes, what came out is acknowledged."""
        dispatcher = self._state.dispatcher
        diversions, full = dispatcher.diversions, len(dispatcher.touched)
        if diversions.forged:
            self._state.counters.parked_copies_refused += diversions.forged
            log.error("forged copies in the parking topic taken back", topic=self.topic, messages=diversions.forged)
            diversions.forged = 0
        if diversions.done:
            self._redrives.take_done()
        if self.log.news:
            self._look_at_log()
        if self._taking_out.slots:
            self._taking_out.give_up()
        if diversions.dirty:
            self._tell_parked()
            parking.collect(dispatcher, self._state.now())
        self._redrives.forget_returned()
        self._told.difference_update(self._taking_out.carry_out())
        if diversions.fresh or self._queue or self._trying:  # what was refused is tried once there is room
            self.flush()
        # Not for those whose sockets are full, nor for want of a lease: the next flush would find them so again.
        if len(dispatcher.touched) > full or dispatcher.outstanding.spill.wants:
            self._state.schedule_flush()

    @property
    def _advice(self) -> Advice:
        trouble = self._state.dispatcher.diversions.trouble
        if trouble == FULL:
            return own_topic_advice.FULL
        if trouble and trouble == self._log_trouble:
            return advice_on(self.log.error_code, PARKING)
        return super()._advice

    # ---- opening

    def producer_ready(self, producer: GatewayProducer) -> None:
        """As it says."""
        if not self.is_open:
            self._mark = producer.name
            producer.publish(Published(mark(self._mark), b""))
        super().producer_ready(producer)

    def producer_lost(self, producer: GatewayProducer, reason: str) -> None:
        """As it says."""
        super().producer_lost(producer, reason)
        if self._taking_out.slots:
            self._state.schedule_flush()
        self._failed_to_open(reason, producer.error_code)

    def _not_taken(self, sequence_id: int, reason: str) -> None:
        """As for dead letters; of a mark that is refused, nothing would be heard."""
        if self.is_open or sequence_id in self._unconfirmed or self._producer is None:
            super()._not_taken(sequence_id, reason)
        else:
            self._producer.close()
            self.producer_lost(self._producer, reason)

    def _refuse(self, part: Part, reason: str, error_code: int | None = None) -> None:
        """As for dead letters. It may end a redrive."""
        super()._refuse(part, reason, error_code)
        if self._taking_out.slots:
            self._state.schedule_flush()

    def _log_failed(self, reason: str) -> None:
        self._state.dispatcher.diversions.trouble = self._log_trouble = reason
        self._redrives.end_all()
        self._failed_to_open(reason, self.log.error_code)

    def _log_changed(self) -> None:
        if self.log.ready and self._log_trouble:
            self._is_over(self._log_trouble)
            self._log_trouble = ""
        if not self._is_full:
            self._is_over(FULL)
        self._state.dispatcher.diversions.wants_turn |= self.log.news and self.is_open
        self._state.schedule_flush()

    def _is_over(self, trouble: str) -> None:
        diversions = self._state.dispatcher.diversions
        if diversions.trouble == trouble:
            diversions.trouble = self._refused.reason

    def _failed_to_open(self, reason: str, error_code: int | None) -> None:
        if not self.is_open:
            help_ = " ".join(filter(None, advice_on(error_code, OPENING).of(self.topic, "")))
            log.error("parking topic not opened", topic=self.topic, reason=reason, advice=help_)
            self._on_failure(f"the parking topic {self.topic} cannot be used: {reason}. {help_}")

    def _marked(self, name: str) -> None:
        if name != self._mark or self.is_open:
            return
        self.is_open = True
        self.turn()
        if self._opened is not None:
            self._opened()

    # ---- in

    def _properties(self, part: Part, tail: bytes) -> dict[str, str]:
        """As for dead letters, which see; what is kept besides is added by `_message`."""
        del part, tail
        return {}

    def _message(self, part: Part) -> Published | None:
        """As for dead letters; what is there already is acknowledged only."""
        origin = _origin_of(part)
        if origin in self.log.origins or origin in self._coming:
            self._state.clock.call_soon(lambda: self._arrive(part))
            return None
        message = super()._message(part)
        if message is not None:
            hashed, schema_version = self._hash_of(part)
            keep(message.metadata, self._state.key, origin, hashed, part.attempts_used, schema_version)
        return message

    def _hash_of(self, part: Part) -> tuple[int, bytes]:
        """Of what gave the part its slot, since the log finds the slot by that; and the schema version.

        A message of a batch has its own key's slot, or, where all of the batch have one key or none has any, the
        entry's. Which it was, tells the slot. Without keys the two differ by the sequence id.
        """
        metadata, key, _ = peek_key(part.tail)
        if part.indexes is not None and part.batch is not None and not part.batch.foreign:
            tail = self._state.contents.piece(part.batch, part.indexes)
            piece, _, start = peek(tail)
            own = murmur31(own_sticky_key(piece, tail[start:]))
            if self._slot_of(own) == part.slot:
                return own, metadata.schema_version
        return murmur31(key), metadata.schema_version

    def _has_room(self) -> bool:
        if self._is_full:
            self._state.dispatcher.diversions.trouble = FULL
        return not self._is_full

    @property
    def _is_full(self) -> bool:
        return self.log.count + len(self._coming) >= PARKED_MAX

    def _has(self, part: Part) -> None:
        """It will be read."""
        origin = _origin_of(part)
        if origin not in self.log.origins:
            self._coming[origin] = part.slot

    # ---- out

    def _look_at_log(self) -> None:
        """What was read is parked."""
        self.log.news = False
        for origin in [origin for origin in self._coming if origin in self.log.origins]:
            del self._coming[origin]
        parked = self._state.dispatcher.diversions.parked
        for slot in [slot for slot in self.log.slots if slot not in parked]:
            parking.mark(self._state.dispatcher, slot)

    def _tell_parked(self) -> None:
        diversions = self._state.dispatcher.diversions
        news = [slot for slot in diversions.dirty if slot in diversions.parked and slot not in self._told]
        self._told.update(news)
        for begin in range(0, len(news), LISTED_MAX):
            self._state.happened("keys_parked", slots=news[begin : begin + LISTED_MAX], parking_topic=self.topic)

    # ---- for orders

    @property
    def refused(self) -> Refused:
        """As `WayIn` says."""
        return self._refused

    def takes_nothing(self) -> bool:
        """As `WayIn` says: the topic takes nothing, or the lot is full."""
        return self._is_shut or not self._has_room()

    def is_coming(self, slot: int) -> bool:
        """As `WayIn` says."""
        return slot in self._coming.values()

    def keep_back(self, slot: int) -> None:
        """As `WayIn` says: the lot is full or takes nothing, and this slot is to be taken out."""
        diversions = self._state.dispatcher.diversions
        queue, self._queue = self._queue, deque()
        on_their_way = set(map(id, self._unconfirmed.values()))
        for part in (*self._refused.pop(slot), *queue):
            if part.slot != slot:
                self._queue.append(part)
            elif id(part) in on_their_way:
                continue  # its receipt comes yet: it may be there
            elif diversions.has(part):
                if _origin_of(part) in self.log.origins:  # its receipt was lost
                    self._state.clock.call_soon(partial(self._arrive, part))
                else:
                    diversions.remove(part)

    def _behind(self, answer: Answer, earlier_too: bool) -> Answer:  # noqa: FBT001 - as the state declares it
        """As the state says: who is told that an acknowledgement is done may let go of the message (G3).

        With `earlier_too`, it may be of what was acknowledged in turns before this one.
        """
        positions = self._redrives.take_done()
        if earlier_too:
            positions = self.log.leaving
        if not positions:
            return answer

        def confirmed(error: Exception | None) -> None:
            if error is None:
                self.log.when_acknowledged(positions, answer)
            else:
                answer(error)

        return confirmed


def _origin_of(part: Part) -> tuple[int, int | None]:
    return part.position, part.indexes[0] if part.indexes is not None and part.count == 1 else None
