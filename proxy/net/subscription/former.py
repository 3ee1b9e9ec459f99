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

Bound: twice the broker's keep-alive, since those that share the slots may be direct workers, which stay; keys are
theirs meanwhile. Then it goes on beside them, and that is counted: beside the former one, order may be lost.

Not for an owner or a stream, which the broker lets in alone; nor for a subscription that direct workers share for now,
as configured.

Source: Pulsar, `AbstractSubscription.checkForConsumerCompatibilityErrorWithDispatcher`; seen with 4.2.4 and 4.0.7
(`tests/integration/faults/test_broker_side.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.words import lasting
from proxy.errors import broker_code
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock

KEEP_ALIVE_S: Final = 30.0
"""A broker's, by default: it gives a silent connection up after twice as much."""
MARGIN_S: Final = 5.0
"""For what a broker does then."""


class Formers:
    """Those of a gateway, by topic and subscription: who subscribes next may be another life of the subscription."""

    def __init__(self, clock: Clock) -> None:
        """There are none."""
        self._clock = clock
        self._until: dict[tuple[str, str], float] = {}
        """When it is waited for no longer, the oldest first."""

    def __contains__(self, key: tuple[str, str]) -> bool:
        """Whether the broker may keep one."""
        return self._clock.now() < self._until.get(key, 0.0)

    def left_s(self, key: tuple[str, str]) -> float:
        """So long it is waited for."""
        return max(0.0, self._until.get(key, 0.0) - self._clock.now())

    def add(self, key: tuple[str, str], seconds: float) -> None:
        """The broker may keep one for so long."""
        now = self._clock.now()
        self.remove(key)
        while self._until and self._until[oldest := next(iter(self._until))] <= now:
            del self._until[oldest]
        self._until[key] = now + seconds

    def remove(self, key: tuple[str, str]) -> None:
        """There is none; harmless if that is known."""
        self._until.pop(key, None)


class FormerConsumer:
    """That of one subscription, as the consumer sees it that is there now."""

    def __init__(self, key: tuple[str, str], formers: Formers, keep_alive_s: float) -> None:
        """None matters yet.

        `keep_alive_s` is ours; the broker's is taken to be no longer than that, or than its default.
        """
        self._key = key
        self._formers = formers
        self._gone_s = 2 * max(keep_alive_s, KEEP_ALIVE_S) + MARGIN_S
        self.matters: Callable[[], bool] = bool
        """Whether order would be lost beside one."""
        self.outstayed: Callable[[], object] = list
        """Called when it is waited for no longer."""
        self.asked = False
        """Whether the consumer that subscribes now, or did last, asks whether it is alone."""

    def connection_lost(self) -> None:
        """Ours is the former one now, and the broker may not know."""
        if self.matters():
            self._formers.add(self._key, self._gone_s)

    def ask(self) -> bool:
        """Whether the consumer that is about to subscribe is to ask."""
        asked_before, self.asked = self.asked, self._key in self._formers
        if asked_before and not self.asked:
            self.outstayed()
        return self.asked

    def gone(self) -> None:
        """Nobody else is there."""
        self._formers.remove(self._key)
        self.asked = False

    def stands(self, error: Exception) -> bool:
        """Whether a broker said that it, or another, is there."""
        return self.asked and broker_code(error) == pb.ConsumerBusy

    def says(self, error: Exception) -> str:
        """What a broker said, in words of ours if it was asked."""
        if not self.stands(error):
            return str(error)
        left = lasting(self._formers.left_s(self._key))
        return (
            "the broker has another consumer of the subscription: the gateway's former one, whose connection was lost, "
            f"or a direct worker; the gateway waits for its end, {left} more at most"
        )
