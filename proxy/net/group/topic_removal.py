"""Removes a group's topic, which no replica needs any more.

A broker deletes a topic that has no subscription, no producer and no consumer (`brokerDeleteInactiveTopicsEnabled`, on
by default). A group's topic has one subscription, which keeps its last record: so it is deleted, and the broker does
the rest. Who does this holds the topic's exclusive producer, so no other replica leads the group meanwhile; one that
leads it afterwards subscribes again, before the broker looks or after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.broker.consumer import GatewayConsumer
from proxy.net.group.topic_reader import keeping

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.positions import Position
    from proxy.net.ports import BrokerDirectory, Clock

REMOVE_S_MAX: Final = 3.0
"""A replica that stops waits for this; what is left then is removed by the sweep of another."""


class GroupTopicRemoval:
    """Deletes the subscription, once; implements `broker.consumer.ConsumerOwner`."""

    def __init__(self, topic: str, brokers: BrokerDirectory, clock: Clock, over: Callable[[str | None], None]) -> None:
        """Begin; `over` is called once, later, with what went wrong, None if nothing did."""
        self._over: Callable[[str | None], None] | None = over
        self._timer = clock.call_later(REMOVE_S_MAX, lambda: self.give_up(f"not done within {REMOVE_S_MAX:g} s"))
        self._consumer = GatewayConsumer(keeping(topic), brokers, self, fetches=False).open()

    def give_up(self, reason: str) -> None:
        """Do no more, and say so; harmless when it is over."""
        self._consumer.close()
        self._end(reason)

    def close(self) -> None:
        """Do no more; `over` is not called."""
        self._over = None
        self.give_up("")

    # ---- ConsumerOwner

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """As it says."""
        consumer.unsubscribe(self._end)

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """It asks for no messages."""

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """As it says."""
        del consumer
        self._end(reason)

    def _end(self, problem: str | None) -> None:
        over, self._over = self._over, None
        self._timer.cancel()
        if over is not None:
            over(problem)
