"""One slot's parked messages, read again from the parking topic and handed on in order, a few at a time."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from proxy.core import parking
from proxy.core.entry import Chunk
from proxy.core.positions import unpack
from proxy.net.broker.consumer import GatewayConsumer
from proxy.net.subscription.batch_slots import BATCH_MESSAGES_MAX
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.parked import restored_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.core.entry import Part
    from proxy.core.positions import Position
    from proxy.net.ports import BrokerDirectory
    from proxy.wire.parked import Parked

AHEAD_MAX: Final = 20
"""Messages that are read and not acknowledged yet; a few more may be on their way."""
EARLY_MAX: Final = 200
"""Messages that are kept until their turn: twice what is published at a time, so what may come in another order."""


class Redrive:
    """Implements `broker.consumer.ConsumerOwner`."""

    def __init__(
        self,
        topic: str,
        name: str,
        wanted: Mapping[Position, str],
        brokers: BrokerDirectory,
        found: Callable[[Position, bytes], None],
        gone: Callable[[list[Position]], None],
        lost: Callable[[str], None],
    ) -> None:
        """Begin; `wanted` goes to `found` in this order. A consumer without a cursor at the broker reads them.

        `gone` hears which of them the topic does not have any more, and then nothing follows.
        `wanted` has the uuid of each one's chunked message, or nothing. Such a message is handed on when all of it is
        here: a worker can acknowledge nothing of it before, and what is read ahead is bounded.
        """
        ledger, entry = unpack(min(wanted) - 1)
        start = pb.MessageIdData(ledgerId=ledger, entryId=entry % (1 << 64))
        subscribe = pb.CommandSubscribe(
            topic=topic,
            subscription=name,
            subType=pb.CommandSubscribe.Exclusive,
            durable=False,
            start_message_id=start,
        )
        self._wanted = set(wanted)
        self._order = deque(wanted)
        self._to_come = deque(sorted(wanted))
        """What the topic has at or behind the place that is read next, for a reader gets it in the topic's order."""
        self._early: dict[Position, bytes] = {}
        """Read before their turn."""
        self._message_of = wanted
        self._missing = Counter(wanted.values())
        """By uuid, chunks that were not taken yet."""
        self._begun: set[str] = set()
        """Messages of which chunks were taken, and not all."""
        self._kept: list[tuple[Position, bytes]] = []
        """What was taken since the first of them was begun."""
        self._found = found
        self._gone = gone
        self._lost = lost
        self._ahead = 0
        self._ready = False
        self._consumer = GatewayConsumer(subscribe, brokers, self, whole=True, permits=AHEAD_MAX).open()

    @property
    def found_all(self) -> bool:
        """Whether all that was wanted was handed on."""
        return not self._wanted

    def one_done(self) -> None:
        """One of those that were found is acknowledged."""
        self._ahead -= 1
        if not self._ready or not self._wanted:
            return
        if self._ahead < AHEAD_MAX // 2:
            self._consumer.fetch(fetches=True)
        if not self._ahead:  # what is behind may have been deleted meanwhile
            self._consumer.ask_last(self._reaches)

    def close(self) -> None:
        """Read no more."""
        self._ready = False
        self._consumer.close()

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """As it says. The topic may end before the last that is wanted."""
        self._ready = True
        consumer.ask_last(self._reaches)

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """As it says; `payload` is the whole message."""
        if passed := self._passed(position):
            self._miss(passed)
            return
        if position not in self._wanted or position in self._early:
            return
        self._early[position] = payload
        due = self._whole(self._take_due())
        self._ahead += len(due)
        if not self._wanted:
            self.close()
        elif self._ahead >= AHEAD_MAX:
            consumer.fetch(fetches=False)
        for each, payload_of_it in due:
            self._found(each, payload_of_it)

    def _reaches(self, last: Position | None) -> None:
        beyond = [position for position in self._to_come if last is None or position > last]
        if beyond:
            self._miss(beyond)

    def _passed(self, position: Position) -> list[Position]:
        """What should have come before this one."""
        passed = []
        while self._to_come and self._to_come[0] <= position:
            passed.append(self._to_come.popleft())
        return passed[:-1] if passed[-1:] == [position] else passed

    def _miss(self, positions: list[Position]) -> None:
        self.close()
        self._gone(positions)

    def _take_due(self) -> list[tuple[Position, bytes]]:
        """Those that are next; others, too, once more are early than the gateway itself may park in another order."""
        due = []
        while self._early:
            position = self._order[0]
            if position in self._wanted and position not in self._early:
                if len(self._early) <= EARLY_MAX:
                    break
                position = min(self._early)
            else:
                self._order.popleft()
            if position in self._early:
                self._wanted.discard(position)
                due.append((position, self._early.pop(position)))
        return due

    def _whole(self, taken: list[tuple[Position, bytes]]) -> list[tuple[Position, bytes]]:
        """What may be handed on now that these were taken: nothing while a chunked message is not all here."""
        for position, _ in taken:
            uuid = self._message_of[position]
            self._missing[uuid] -= 1
            if uuid and self._missing[uuid]:
                self._begun.add(uuid)
            else:
                self._begun.discard(uuid)
        self._kept += taken
        if self._begun:
            return []
        kept, self._kept = self._kept, []
        return kept

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """As it says."""
        del consumer
        self._ready = False
        if self._wanted:
            self._lost(reason)


def part_of(parked: Parked, slot: int, tail: bytes, now: float) -> Part:
    """What is delivered of a message that was read from the parking topic, where it is `tail`."""
    chunk = None if parked.chunk is None else Chunk(*parked.chunk)
    count = min(parked.messages, BATCH_MESSAGES_MAX)
    return parking.restored(parked.position, parked.place, count, slot, restored_tail(tail), now, chunk)
