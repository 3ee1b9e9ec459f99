"""What the parking topic has of a subscription: an index, read when the subscription begins and kept up to date.

The parking topic is the only record of what is parked: messages that its one subscription has not acknowledged. Its
consumer is exclusive, so that two gateways never believe that they own the lot. It reads everything there is once, up
to a mark that it publishes itself: a topic's last message may be acknowledged, and would never come. Contents are not
kept: a redrive reads them again (`redrive`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from proxy.core.positions import is_packable, unpack
from proxy.core.slice_id import sliceable
from proxy.net.alarm import Alarm
from proxy.net.broker.consumer import GatewayConsumer
from proxy.net.subscription.state import ended_meanwhile
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.parked import Parked, mark_of, read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.positions import Position
    from proxy.net.ports import BrokerDirectory, Clock
    from proxy.net.subscription.state import Answer

SUBSCRIPTION: Final = "keyline-parked"
RETRY_S: Final = 1.0
LEFT_MAX: Final = 10_000
"""Acknowledged positions that are remembered."""


class ParkedLog:
    """Implements `broker.consumer.ConsumerOwner`."""

    def __init__(
        self,
        topic: str,
        whose: tuple[str, str],
        brokers: BrokerDirectory,
        clock: Clock,
        slot_of: Callable[[int], int],
        marked: Callable[[str], None],
        changed: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """`whose` messages, by topic and subscription, are read; others may go to the same topic by its name.

        `marked` hears the name of each mark, `changed` that something came or is acknowledged.
        """
        self._topic = topic
        self._whose = whose
        self._brokers = brokers
        self._clock = clock
        self._slot_of = slot_of
        self._marked = marked
        self._changed = changed
        self._failed = failed
        self.slots: dict[int, dict[Position, Parked]] = {}
        """By slot, in the order in which they were parked."""
        self.origins: set[tuple[int, int | None]] = set()
        """Entry and index of what is parked."""
        self.count = 0
        self._slot_at: dict[Position, int] = {}
        self._to_acknowledge: dict[Position, None] = {}
        self._left: dict[Position, None] = {}
        """What was acknowledged last: a broker that is killed forgets the latest acknowledgements that it confirmed."""
        self._promised: list[tuple[set[Position], Answer]] = []
        """Answers that wait for acknowledgements, and for which."""
        self._consumer: GatewayConsumer | None = None
        self.news = False
        """Whether something came since the owner looked."""
        self.ready = False
        """Whether its consumer stands."""
        self.error_code: int | None = None
        """What the broker answered, if that is why it was lost last."""
        self._timer = Alarm(clock)
        self._over = False

    def open(self) -> None:
        """Begin, or begin again."""
        subscribe = pb.CommandSubscribe(
            topic=self._topic,
            subscription=SUBSCRIPTION,
            subType=pb.CommandSubscribe.Exclusive,
            initialPosition=pb.CommandSubscribe.Earliest,
        )
        self._consumer = GatewayConsumer(subscribe, self._brokers, self, whole=True).open()

    def close(self) -> None:
        """It is read no more."""
        self._over, self.ready = True, False
        self._timer.cancel()
        if self._consumer is not None:
            self._consumer.close()
        promised, self._promised = self._promised, []
        for _, answer in promised:
            answer(ended_meanwhile())

    def is_leaving(self, position: Position) -> bool:
        """Whether its acknowledgement is on its way."""
        return position in self._to_acknowledge

    def disown(self, position: Position) -> None:
        """It is none of the messages that were parked, and stays where it is."""
        self._forget(position)
        self._changed()

    def acknowledge(self, *positions: Position) -> None:
        """They are parked no more, once the broker knows."""
        self._to_acknowledge.update(dict.fromkeys(positions))
        if self.ready:
            self._send(positions)

    @property
    def leaving(self) -> list[Position]:
        """What is acknowledged, and the broker has not confirmed."""
        return list(self._to_acknowledge)

    def when_acknowledged(self, positions: Iterable[Position], answer: Answer) -> None:
        """Call `answer` when the broker has confirmed that these, which were acknowledged, are parked no more.

        With an error, if the log is closed before.
        """
        left = self._to_acknowledge.keys() & positions
        if not left:
            answer(None)
        elif self._over:
            answer(ended_meanwhile())
        else:
            self._promised.append((left, answer))

    # ---- ConsumerOwner

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """As it says."""
        del consumer
        self.ready = True
        if self._to_acknowledge:
            self._send(tuple(self._to_acknowledge))
        self._changed()

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """As it says; `payload` is the whole message."""
        del consumer
        if position in self._slot_at:
            return
        if position in self._left:
            self.acknowledge(position)
            return
        parked = read(payload)
        if parked is None:
            name = mark_of(payload)
            if name is not None:
                self.acknowledge(position)
                self._marked(name)
            return
        if parked.whose != self._whose or not _is_place(parked):
            return
        if (parked.position, parked.place) in self.origins:
            self.acknowledge(position)  # its receipt was lost, and it was published again
            return
        slot = self._slot_of(parked.hashed)
        self._slot_at[position] = slot
        self.slots.setdefault(slot, {})[position] = parked
        self.origins.add((parked.position, parked.place))
        self.count += 1
        self.news = True
        self._changed()

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """As it says: again, after a pause."""
        self.ready, self.error_code = False, consumer.error_code
        self._failed(reason)
        if not self._over:
            self._timer.set(RETRY_S, self.open)

    # ---- within

    def _send(self, positions: tuple[Position, ...]) -> None:
        assert self._consumer is not None

        def answered(problem: str | None) -> None:
            if problem is None:
                self._acknowledged(positions)
            else:
                self._clock.call_later(RETRY_S, self._send_again)

        self._consumer.acknowledge(positions, answered)

    def _send_again(self) -> None:
        if self.ready and self._to_acknowledge and not self._over:
            self._send(tuple(self._to_acknowledge))

    def _acknowledged(self, positions: tuple[Position, ...]) -> None:
        for position in positions:
            self._to_acknowledge.pop(position, None)
            self._left[position] = None
            self._forget(position)
        while len(self._left) > LEFT_MAX:
            del self._left[next(iter(self._left))]
        self._keep_promises(positions)
        self._changed()

    def _keep_promises(self, positions: tuple[Position, ...]) -> None:
        promised, self._promised = self._promised, []
        for left, answer in promised:
            left.difference_update(positions)
            if left:
                self._promised.append((left, answer))
            else:
                answer(None)

    def _forget(self, position: Position) -> None:
        slot = self._slot_at.pop(position, None)
        if slot is None:
            return
        parked = self.slots[slot].pop(position)
        self.origins.discard((parked.position, parked.place))
        self.count -= 1
        if not self.slots[slot]:
            del self.slots[slot]


def _is_place(parked: Parked) -> bool:
    """Whether there can be a message where it says that it was."""
    ledger, entry = unpack(parked.position)
    sliced = parked.place is None or sliceable(entry, parked.place + 1)
    return entry >= 0 and is_packable(ledger, entry) and sliced
