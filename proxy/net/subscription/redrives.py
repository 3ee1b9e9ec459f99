"""What is redriven of a subscription's parked keys: read from the parking topic, handed on, and acknowledged there.

When a key may be redriven, the lot decides (`parking`); one key's messages are read by a `Redrive`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from proxy.core import parking
from proxy.core.foreign_ids import is_taken
from proxy.core.positions import format_position
from proxy.net.alarm import Alarm
from proxy.net.subscription.parked_log import RETRY_S
from proxy.net.subscription.redrive import EARLY_MAX, Redrive, part_of
from proxy.net.subscription.redrive_checks import in_topic_order, readable
from proxy.wire.parked import read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.core.entry import Batch
    from proxy.core.positions import Position
    from proxy.net.ports import BrokerDirectory
    from proxy.net.subscription.parked_log import ParkedLog
    from proxy.net.subscription.state import SubscriptionState
    from proxy.wire.parked import Parked

OPENING_MAX: Final = 8
"""Slots at a time of which nothing was handed on yet: what is on its way to a slot is not counted below."""
HELD_BYTES_MAX: Final = 32 << 20
"""Of what was handed on and is not acknowledged, of all slots: beyond that no further one begins. Operators redrive
thousands of keys at once, and what they hold is in no budget: a gateway that is full for them would not get empty."""
log = structlog.get_logger("keyline.subscription")


class Redrives:
    """Of one subscription."""

    def __init__(
        self,
        topic: str,
        state: SubscriptionState,
        brokers: BrokerDirectory,
        parked: ParkedLog,
        is_over: Callable[[str], None],
    ) -> None:
        """`is_over` hears that a trouble is, by its text; `parked` is what the parking topic has."""
        self._topic = topic
        self._state = state
        self._brokers = brokers
        self._log = parked
        self._is_over = is_over
        self._by_slot: dict[int, Redrive] = {}
        self._pause = Alarm(state.clock)
        """Until one that was lost may begin again; turns come as often as messages do."""
        self._trouble = ""
        """Why the topic could not be read last."""
        self._fed: dict[int, tuple[int, Position, Batch]] = {}
        """By its object id, what was handed on: its slot, and where it is in the log."""
        self._fed_of: Counter[int] = Counter()
        """How many of these each slot has."""
        self._fed_bytes = 0
        self._opening: set[int] = set()
        """Slots that are read, of which nothing was handed on yet."""

    def may_begin(self, slot: int) -> bool:
        """Whether what is parked of it may be read now."""
        ready = self._log.ready and not self._pause.is_set and self.has_room
        return ready and not self._reads(slot) and not self.has_handed_on(slot) and not self._is_held(slot)

    def has_handed_on(self, slot: int) -> bool:
        """Whether a worker has something of it that was read, or is to get it."""
        return slot in self._fed_of

    @property
    def has_room(self) -> bool:
        """Whether one more slot may begin. One may go on whatever it holds."""
        return not self._by_slot or (len(self._opening) < OPENING_MAX and self._fed_bytes < HELD_BYTES_MAX)

    def has_begun(self, slot: int) -> bool:
        """Whether something of it was read already, or is."""
        return slot in self._by_slot or slot in self._fed_of

    def begin(self, slot: int, parked: Mapping[Position, Parked]) -> None:
        """Read these again, and hand them on in the order of their topic; some of them, if the others stand too far."""
        pieces = {position: each.chunk[0] for position, each in parked.items() if each.chunk is not None}
        order = in_topic_order(parked)
        chunks_of = {position: pieces.get(position, "") for position in order}
        wanted = {position: chunks_of[position] for position in readable(order, chunks_of, EARLY_MAX)}

        def lost(reason: str) -> None:
            self._forget(slot)
            self._state.dispatcher.diversions.trouble = self._trouble = reason
            if not self._pause.is_set:
                self._pause.set(RETRY_S, self._state.schedule_flush)

        def gone(positions: list[Position]) -> None:
            self._forget(slot)
            self._give_up(slot, positions)

        self._opening.add(slot)
        name = f"keyline-redrive-{slot}"
        self._by_slot[slot] = Redrive(self._topic, name, wanted, self._brokers, partial(self._found, slot), gone, lost)

    def end(self, slot: int) -> None:
        """Nothing more of it is read."""
        redrive = self._forget(slot)
        if redrive is not None:
            redrive.close()

    def end_all(self) -> None:
        """Nothing more is read."""
        for slot in list(self._by_slot):
            self.end(slot)

    def close(self) -> None:
        """The subscription has ended."""
        self._pause.cancel()
        self.end_all()

    def take_done(self) -> list[Position]:
        """Acknowledge in the parking topic what was redriven and workers have acknowledged; returns where it is."""
        diversions = self._state.dispatcher.diversions
        done, diversions.done = diversions.done, []
        fed = [self._take(id(batch)) for batch in done if id(batch) in self._fed]
        for slot, at, _ in fed:
            self._log.acknowledge(at)
            if slot in self._by_slot:
                self._by_slot[slot].one_done()
        return [at for _, at, _ in fed]

    def forget_returned(self) -> None:
        """What was redriven and came back for good, or was forgotten by a seek, is in the lot only."""
        for number, (_, _, batch) in list(self._fed.items()):
            if batch.parts and not self._state.dispatcher.diversions.feeds(batch.parts[0]):
                self._take(number)

    # ---- within

    def _forget(self, slot: int) -> Redrive | None:
        """It is read no more by what read it, if anything did."""
        self._opening.discard(slot)
        return self._by_slot.pop(slot, None)

    def _take(self, number: int) -> tuple[int, Position, Batch]:
        """Something that was handed on is here no more."""
        slot, at, batch = self._fed.pop(number)
        self._fed_bytes -= len(batch.tail)
        self._fed_of[slot] -= 1
        if not self._fed_of[slot]:
            del self._fed_of[slot]
        return slot, at, batch

    def _reads(self, slot: int) -> bool:
        """Whether what was found of it is not all yet. What is there still then, the log had later."""
        redrive = self._by_slot.get(slot)
        return redrive is not None and not redrive.found_all

    def _is_held(self, slot: int) -> bool:
        """Whether a worker has something of the slot."""
        return bool(self._state.dispatcher.slots.holder(slot))

    def _found(self, slot: int, at: Position, tail: bytes) -> None:
        state = self._state
        self._opening.discard(slot)
        parked = read(tail)
        if parked is None or state.ended:
            return
        self._is_over(self._trouble)
        part = part_of(parked, state.dispatcher.selector.slot(parked.hashed), tail, state.now())
        assert part.batch is not None
        if is_taken(state.dispatcher, part):
            self._leave_out(part.slot, at)
            return
        self._fed[id(part.batch)] = part.slot, at, part.batch
        self._fed_bytes += len(part.batch.tail)
        self._fed_of[part.slot] += 1
        parking.feed(state.dispatcher, part, state.now())
        state.schedule_flush()

    def _give_up(self, slot: int, positions: list[Position]) -> None:
        """The broker has deleted them: its time to live or backlog quota, or an administrator. The rest is redriven."""
        first = format_position(positions[0])
        log.error("parked messages are gone", topic=self._topic, slot=slot, messages=len(positions), first=first)
        facts = {"slot": slot, "messages": len(positions), "first": first, "parking_topic": self._topic}
        self._state.happened("parked_gone", **facts)
        for position in positions:
            self._log.disown(position)

    def _leave_out(self, slot: int, at: Position) -> None:
        """A copy under the id of another message that is here: no gateway has parked it, and none redrives it."""
        self._state.counters.parked_copies_refused += 1
        log.error(
            "forged copy in the parking topic left out", topic=self._topic, message=format_position(at), slot=slot
        )
        self._log.disown(at)
        self._by_slot[slot].one_done()
        self._state.schedule_flush()
