"""The consumer that a lost connection carried, while its broker may keep it.

Problem: a connection can end at the gateway alone, as by a firewall that has lost it and answers for the broker. The
broker keeps the consumer until its keep-alive ends, and lets the gateway's next one in beside it, since both share all
slots. It then sends what comes behind the messages that were lost on their way. Batches of one key wait at the broker
until the former consumer has gone; batches of several do not, and their keys would be out of order.

Rule: a consumer that comes back after a lost connection asks first whether it is alone, as a consumer that wants all
slots for itself. The broker refuses that while another shares them, and nothing is read meanwhile. Let in, it leaves
and comes again as one that shares them: to a subscription without consumers, which begins at its first message that is
not acknowledged.

Why also where all batches have one key: half of the keys would be the former consumer's, and wait as long. With 4.0.7
messages of such keys stayed out for minutes once, when it had gone.

A consumer that is being closed counts as a former one until the broker has answered.

Bound: twice the broker's keep-alive, since those that share the slots may be direct workers, or another gateway's, and
stay; keys are theirs meanwhile. Then it goes on beside them, and that is counted: beside the former one, order may be
lost.

Not for an owner or a stream, which the broker lets in alone; nor for a subscription that direct workers share for now,
as configured.

Source: Pulsar, `AbstractSubscription.checkForConsumerCompatibilityErrorWithDispatcher`; seen with 4.2.4 and 4.0.7
(`tests/integration/faults/test_broker_side.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.core.words import lasting
from proxy.errors import broker_code
from proxy.net.broker.consumer import close_at
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import BrokerLink, Clock

KEEP_ALIVE_S: Final = 30.0
"""A broker's, by default: it gives a silent connection up after twice as much."""
MARGIN_S: Final = 5.0
"""For what a broker does then."""
_OTHERS_ARE_THERE: Final = frozenset({pb.ConsumerBusy, pb.ConsumerAssignError})
"""One that shares its slots, or one that asks itself, as the former one may have."""


@dataclass(slots=True)
class _Former:
    until: float
    """When it is waited for no longer."""
    stood: bool = False
    """Whether the broker said last that it, or another, is there."""


class Formers:
    """Those of a gateway, by topic and subscription: who subscribes next may be another life of the subscription."""

    def __init__(self, clock: Clock) -> None:
        """There are none."""
        self._clock = clock
        self._formers: dict[tuple[str, str], _Former] = {}
        """The oldest first."""

    def __len__(self) -> int:
        """How many are known, also of those that are waited for no longer."""
        return len(self._formers)

    def find(self, key: tuple[str, str]) -> _Former | None:
        """The one that the broker may keep, or may have kept until just now."""
        return self._formers.get(key)

    def stands(self, key: tuple[str, str]) -> bool:
        """Whether one is waited for, and the broker said last that it, or another, is there."""
        former = self._formers.get(key)
        return former is not None and former.stood and self._clock.now() < former.until

    def left_s(self, key: tuple[str, str]) -> float:
        """So long it is waited for."""
        former = self._formers.get(key)
        return 0.0 if former is None else max(0.0, former.until - self._clock.now())

    def add(self, key: tuple[str, str], seconds: float) -> _Former:
        """The broker may keep one for so long."""
        now = self._clock.now()
        self._formers.pop(key, None)
        while self._formers and self._formers[oldest := next(iter(self._formers))].until + seconds <= now:
            del self._formers[oldest]
        former = self._formers[key] = _Former(now + seconds)
        return former

    def remove(self, key: tuple[str, str], former: _Former | None = None) -> None:
        """There is none, or not this one; harmless if that is known."""
        if former is None or self._formers.get(key) is former:
            self._formers.pop(key, None)


class FormerConsumer:
    """That of one subscription, as the consumer sees it that is there now."""

    def __init__(self, key: tuple[str, str], formers: Formers, keep_alive_s: float) -> None:
        """None matters yet.

        `keep_alive_s` is the gateway's; the broker's is taken to be no longer than that, or than its default.
        """
        self._key = key
        self._formers = formers
        self._gone_s = 2 * max(keep_alive_s, KEEP_ALIVE_S) + MARGIN_S
        self._outstays = False
        """Whether the consumer that subscribes now does so beside one that stood until the end of the wait."""
        self.matters: Callable[[], bool] = bool
        """Whether order would be lost beside one."""
        self.outstayed: Callable[[], object] = list
        """Called when the gateway goes on beside another that may be the former one."""
        self.asked = False
        """Whether the consumer that subscribes now, or did last, asks whether it is alone."""

    def connection_lost(self) -> None:
        """The consumer is the former one now, and the broker may not know."""
        if self.matters():
            self._formers.add(self._key, self._gone_s)

    def close(self, link: BrokerLink, consumer_id: int, done: Callable[[], None] | None = None) -> None:
        """Close the consumer, as `close_at`: until the broker has answered, it may keep it."""
        noted: _Former | None = None
        if self.matters() and not self._formers.left_s(self._key):
            noted = self._formers.add(self._key, self._gone_s)

        def closed() -> None:
            if noted is not None:
                self._formers.remove(self._key, noted)

        close_at(link, consumer_id, done, closed)

    def ask(self) -> bool:
        """Whether the consumer that is about to subscribe is to ask."""
        former = self._formers.find(self._key) if self.matters() else None
        self.asked = former is not None and self._formers.left_s(self._key) > 0
        self._outstays = former is not None and former.stood and not self.asked
        return self.asked

    def gone(self) -> None:
        """No other consumer is there."""
        self._formers.remove(self._key)
        self.asked = False

    def let_in(self) -> None:
        """The consumer that shares the slots is."""
        if self._outstays:
            self._outstays = False
            self._formers.remove(self._key)
            self.outstayed()

    def refused(self, error: Exception) -> None:
        """What the broker said to the consumer that subscribed last."""
        former = self._formers.find(self._key)
        if former is not None and self.asked:
            former.stood = self.stands(error)

    def stands(self, error: Exception) -> bool:
        """Whether a broker answered to the question that it, or another, is there."""
        return self.asked and broker_code(error) in _OTHERS_ARE_THERE

    def says(self, error: Exception) -> str:
        """What a broker said; the gateway says it in its own words if it asked."""
        if not self.stands(error):
            return str(error)
        left = lasting(self._formers.left_s(self._key))
        return (
            "the broker has another consumer of the subscription: the gateway's former one, whose connection was lost, "
            f"a direct worker or another gateway; the gateway waits for its end, {left} more at most"
        )
