"""The way of a subscription's dead letters: a producer on their topic, and the acknowledgement behind its receipt.

Problem: a message that has used its attempts must be in the dead letter topic before the broker may forget it here.
Rule: what is on its way is published in order and stays outstanding until the receipt (`proxy.core.diversions`); a
producer that is lost, refused or unanswered is made anew after a pause, and publishes again what had no receipt. So a
message may be in the topic twice, and never in none. How often is bounded: after a loss one message goes alone, and
twice as many with each receipt; what is refused, or lost alone, waits apart (`refused`). If a chunk had no receipt or
was refused, its message goes again from the first chunk on: a client throws away what has a chunk twice in its middle,
and gives up after a minute what it waits for.

What waits behind a message on its way may be all that the gateway has room for, and nothing is read then where messages
come: so the producer has a connection apart from those (`ports.Brokers`).

The producer is the gateway's own, with its authority: the operator's configuration names the topic (`own_topics`).

Source: design section 9.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from proxy.core.diversion import arrived
from proxy.core.entry import topic_order
from proxy.core.positions import unpack
from proxy.net.alarm import Alarm
from proxy.net.broker.producer import GatewayProducer, State
from proxy.net.events import LISTED_MAX
from proxy.net.subscription.own_topic_advice import DEAD_LETTERS, advice_on
from proxy.net.subscription.own_topics import dead_letter_topic
from proxy.net.subscription.refused import Refused
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.dead_letters import PLACE_BYTES, Published, origin_properties, published_again, with_properties
from proxy.wire.errors import WireError
from proxy.wire.metadata import peek

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.core.entry import Part
    from proxy.net.subscription.own_topic_advice import Advice
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.state import SubscriptionState

UNCONFIRMED_MAX: Final = 100
"""Messages published and not confirmed; the others wait here, where they are held anyway."""
BURST_BYTES_MAX: Final = 8 << 20
"""Bytes, and one message more, that are published before all is confirmed. Copies do not count as held, and those of a
compressed batch may be a hundred times what is held of it."""
RECEIPT_S_MAX: Final = 30.0
"""A producer that has had no receipt for so long, and waits for one, is made anew; as in Pulsar's clients."""

_PARTITION: Final = re.compile(r"-partition-(\d+)\Z", re.ASCII)

log = structlog.get_logger("keyline.subscription")


class DeadLetters:
    """Of one subscription; implements `broker.producer.ProducerOwner`."""

    went: ClassVar[str] = "dead_letters"
    """The event that tells which messages did."""
    _advices: ClassVar[Mapping[int, Advice]] = DEAD_LETTERS

    def __init__(self, state: SubscriptionState, services: Services, topic: str = "") -> None:
        """Nothing is published, and no producer made, before the first dead letter."""
        self._state = state
        self._services = services
        self.topic = topic or dead_letter_topic(state.settings.dead_letter_topic, *state.key)
        self._queue: deque[Part] = deque()
        """What is to be published, in order."""
        self._unconfirmed: dict[int, Part] = {}
        """What is published and has no receipt, by sequence id."""
        self._burst_bytes = 0
        """Published since nothing was unconfirmed."""
        self._window = UNCONFIRMED_MAX
        """So many may be unconfirmed now."""
        self._refused = Refused()
        self._refusals = 0
        """Since the topic took one."""
        self._next_try = Alarm(state.clock)
        """When one that is refused is tried again."""
        self._trying = False
        """One is to be tried, once nothing else is unconfirmed: if the producer is lost, it is the cause."""
        self._tried: Part | None = None
        """That one, on its way."""
        self._producer: GatewayProducer | None = None
        self._former: GatewayProducer | None = None
        """The last that was made."""
        self._arrived: list[Part] = []
        """Those of this turn."""
        self._failures = 0
        self._error_code: int | None = None
        """What the broker answered, if that is why it was not taken last."""
        self._pause = Alarm(state.clock)
        self._receipt_due = Alarm(state.clock)

    def turn(self) -> None:
        """The end of a turn of the subscription."""
        dispatcher = self._state.dispatcher
        ended = dispatcher.diversions.take_ended()
        for part in ended:
            arrived(dispatcher, part, self._state.now())
        if ended:
            self._state.schedule_flush()
        if dispatcher.diversions.fresh or ended:
            self.flush()

    def flush(self) -> None:
        """Send what the dispatcher gave up in this turn."""
        self._queue += self._state.dispatcher.diversions.take_fresh()
        self._go_on()

    def advice(self, target: str) -> tuple[str, str | None]:
        """What an operator does while the topic takes no messages, and the command; `target` is for that."""
        return self._advice.of(self.topic, target)

    @property
    def _advice(self) -> Advice:
        return advice_on(self._error_code, self._advices)

    def close(self) -> None:
        """The subscription has ended: what has no receipt is the broker's to deliver again."""
        self._queue.clear()
        for alarm in (self._pause, self._receipt_due, self._next_try):
            alarm.cancel()
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    # ---- ProducerOwner

    def producer_ready(self, producer: GatewayProducer) -> None:
        """As it says."""
        del producer
        self._go_on()

    def producer_stored(self, producer: GatewayProducer, sequence_id: int) -> None:
        """As it says: now the original may be acknowledged."""
        del producer
        part = self._unconfirmed.pop(sequence_id, None)
        if part is None:
            return
        self._failures = 0
        self._window = min(2 * self._window, UNCONFIRMED_MAX)
        diversions = self._state.dispatcher.diversions
        self._answered(part)
        if diversions.has(part):
            if not self._arrived:
                self._state.clock.call_soon(self._tell)
            self._arrived.append(part)
            self._has(part)
            self._arrive(part)
        diversions.trouble = self._refused.reason
        if not self._refused:
            self._error_code = None
        self._try_later()
        self._go_on()

    def producer_lost(self, producer: GatewayProducer, reason: str) -> None:
        """As it says: once more, after a pause."""
        self._producer, self._error_code = None, producer.error_code
        self._failed(reason)

    # ---- within

    @property
    def _is_shut(self) -> bool:
        """Whether the broker takes nothing for this topic: it said so."""
        is_ready = self._producer is not None and self._producer.state is State.READY
        return self._error_code is not None and not is_ready

    def _go_on(self) -> None:
        """Publish what may be; with a producer, which is asked for if there is none."""
        if not (self._queue or self._refused) or self._state.ended:
            return
        if self._producer is None:
            if not self._pause.is_set:
                self._make_producer()
            return
        if self._producer.state is not State.READY:
            return
        diversions = self._state.dispatcher.diversions
        if self._trying and not self._unconfirmed and self._has_room():
            self._try()
        while not self._trying and self._queue and self._may_publish() and self._has_room():
            part = self._queue.popleft()
            if diversions.has(part) and not self._waits(part):
                self._publish(part)
        if not self._receipt_due.is_set:
            self._watch()

    def _may_publish(self) -> bool:
        """Whether one more may be unconfirmed."""
        if not self._unconfirmed:
            self._burst_bytes = 0
        return len(self._unconfirmed) < self._window and self._burst_bytes < BURST_BYTES_MAX

    def _publish(self, part: Part) -> None:
        assert self._producer is not None
        message = self._message(part)
        if message is not None and self._fits(part, message):
            self._burst_bytes += message.size
            self._unconfirmed[self._producer.publish(message)] = part

    def _waits(self, part: Part) -> bool:
        """Whether an earlier one of its slot is refused. If that was dropped meanwhile, those behind it go first."""
        first = self._refused.first(part.slot)
        if first is None:
            return False
        if self._state.dispatcher.diversions.has(first):
            self._refused.wait(part)
        else:
            self._queue.appendleft(part)
            self._queue.extendleft(reversed(self._refused.pop(part.slot)))
        return True

    def _has_room(self) -> bool:
        """Whether the topic may have more."""
        return True

    def _make_producer(self) -> None:
        brokers, clock, mode = self._services.brokers.diversions, self._services.clock, pb.ProducerAccessMode.Shared
        producer = GatewayProducer(self.topic, mode, brokers, clock, self, self._not_taken, self._former)
        self._producer = self._former = producer.open()

    def _message(self, part: Part) -> Published | None:
        """What is published of it; None if it cannot be, and waits."""
        state = self._state
        tail, compression = part.tail, 0
        try:
            if part.indexes is not None and part.batch is not None:
                compression = peek(tail).metadata.compression
                tail = state.contents.piece(part.batch, part.indexes)
            message = published_again(tail, state.settings.batch_peek_max_bytes, compression)
        except WireError as error:
            self._refuse(part, str(error))
            return None
        with_properties(message.metadata, self._properties(part, tail))
        return message

    def _fits(self, part: Part, message: Published) -> bool:
        """Whether the broker has room for the copy: else it would close the connection, which others share.

        That of a message whose batch was compressed may be far larger than the entry: its properties are not.
        """
        assert self._producer is not None
        size, limit = message.size, self._producer.max_message_bytes
        if size > limit + PLACE_BYTES:
            self._refuse(part, f"its copy has {size} bytes, and the broker takes {limit}")
            return False
        return True

    def _properties(self, part: Part, tail: bytes) -> dict[str, str]:
        """What is added to those that the message has; `tail` is its own."""
        del tail
        return origin_properties(self._state.topic, self._state.name, _origin(part, self._state.topic))

    def _arrive(self, part: Part) -> None:
        if self._refused.is_first(part):
            self._refusals = 0
            others, diversions = self._refused.take_others(part), self._state.dispatcher.diversions
            message, stored = diversions.message(part), diversions.take_stored(part)
            if stored or part in message[1:]:
                self._again(*message, *others)  # it was tried alone, so nothing of its message is on its way
                return
            self._again(*others)
        arrived(self._state.dispatcher, part, self._state.now())
        self._state.schedule_flush()

    def _has(self, part: Part) -> None:
        """The topic has it; called before it is acknowledged."""

    def _not_taken(self, sequence_id: int, reason: str) -> None:
        """The broker answered with an error."""
        part = self._unconfirmed.pop(sequence_id, None)
        if part is None:
            return
        self._answered(part)
        assert self._producer is not None
        code = self._producer.error_code
        self._refuse(part, reason, None if code == pb.NotAllowedError else code)  # that is of this message alone
        self._go_on()

    def _refuse(self, part: Part, reason: str, error_code: int | None = None) -> None:
        """It is not in the topic: its key waits, until the topic takes it or the subscription is made to skip it."""
        self._error_code = error_code
        place, state = _origin(part, self._state.topic), self._state
        text = f"{place} cannot be published: {reason}"
        if not self._refused:
            self._tell_wait(text, 1)
        if state.dispatcher.diversions.trouble != text:
            log.error("dead letter not published", topic=self.topic, message=place, reason=reason)
        state.dispatcher.diversions.trouble = text
        self._refused.refuse(part, text)
        self._try_later()

    def _try_later(self) -> None:
        if not self._next_try.is_set and not self._trying and self._refused:
            self._next_try.set(self._pause_s(self._refusals), self._try_soon)

    def _try_soon(self) -> None:
        """A producer that is made anew is for the others first."""
        self._trying = self._producer is not None and self._producer.state is State.READY
        self._go_on()
        self._try_later()

    def _try(self) -> None:
        """The next one of those that are refused."""
        part = self._tried = self._refused.next(self._state.dispatcher.diversions.has)
        if part is not None:
            self._refusals += 1
            self._publish(part)
        if not self._unconfirmed:
            self._tried, self._trying = None, False
            self._try_later()

    def _answered(self, part: Part) -> None:
        """The broker has answered for this one, or the producer was lost over it."""
        if part is self._tried:
            self._tried, self._trying = None, False
        self._watch()

    def _tell_wait(self, reason: str, count: int) -> None:
        log.warning("dead letter topic unavailable", topic=self.topic, reason=reason, waiting=count)
        facts = {"dead_letter_topic": self.topic, "messages_count": count, "reason": reason}
        self._state.happened(f"{self.went}_wait", **facts)

    def _requeue(self, reason: str) -> None:
        """What has no receipt goes again; one that was alone waits apart, because it may be the cause."""
        lost = list(self._unconfirmed.values())
        self._unconfirmed.clear()
        if not lost:
            return
        if self._window == 1 or self._tried is not None:
            self._answered(lost[0])
            self._refuse(lost[0], reason, self._error_code)
        else:
            self._again(*lost)
        self._window = 1

    def _again(self, *parts: Part) -> None:
        """These are to be published, in order with what waits; with a chunk those of its message that the topic has."""
        take_stored = self._state.dispatcher.diversions.take_stored
        again = [each for part in parts for each in (part, *take_stored(part))]
        by_id = {id(part): part for part in (*again, *self._queue)}
        self._queue = deque(sorted(by_id.values(), key=topic_order))

    def _failed(self, reason: str) -> None:
        self._requeue(reason)
        self._receipt_due.cancel()
        state = self._state
        diversions = state.dispatcher.diversions
        if not diversions.trouble and self._queue:
            self._tell_wait(reason, len(self._queue))
        diversions.trouble = reason if self._queue else self._refused.reason
        self._pause.set(self._pause_s(self._failures), self._go_on)
        self._failures += 1

    def _pause_s(self, failures: int) -> float:
        """How long to wait after so many failures before this one."""
        settings = self._state.settings
        delay_ms = settings.reconnect_backoff_initial_ms * (1 << min(failures, 20))
        return min(delay_ms, settings.reconnect_backoff_max_ms) / 1_000

    def _watch(self) -> None:
        """A receipt is due, or none is."""
        self._receipt_due.cancel()
        if self._unconfirmed:
            self._receipt_due.set(RECEIPT_S_MAX, self._too_late)

    def _too_late(self) -> None:
        assert self._producer is not None
        self._producer.close()
        self._producer = self._error_code = None
        self._failed(f"no receipt in {RECEIPT_S_MAX:g} s")

    def _tell(self) -> None:
        """Once a turn: a client may refuse all that it gets."""
        parts, self._arrived = self._arrived, []
        topic = self._state.topic
        listed = [
            {"message": _origin(part, topic), "slot": part.slot, "attempts": part.attempts_used}
            for part in parts[:LISTED_MAX]
        ]
        facts = {"dead_letter_topic": self.topic, "messages_count": len(parts), "messages": listed}
        self._state.happened(self.went, **facts)


def _origin(part: Part, topic: str) -> str:
    """The message's id, as Java's client prints it; of a whole entry without an index."""
    ledger, entry = unpack(part.position)
    found = _PARTITION.search(topic)
    index = f":{part.indexes[0]}" if part.indexes is not None and part.count == 1 else ""
    return f"{ledger}:{entry}:{found[1] if found is not None else -1}{index}"
