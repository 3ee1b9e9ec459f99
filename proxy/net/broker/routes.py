"""The consumers of one broker connection: routes messages and notifications to them.

Kept apart from the connection so that one object owns the ids. The loop over frames reads `deliver` and writes
`touched` itself, because a call per message is what it cannot afford; everything else goes through the methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.net.ports import UpstreamConsumer
    from proxy.wire.messages import MessageHead

Deliver = Callable[["MessageHead"], None]


class ConsumerRoutes:
    """Ids rise from 1 and are never reused on a connection, so late messages are ignored."""

    __slots__ = ("_consumers", "_next_id", "deliver", "touched")

    def __init__(self) -> None:
        """No consumers yet."""
        self._next_id = 1
        self._consumers: dict[int, UpstreamConsumer] = {}
        self.deliver: dict[int, Deliver] = {}
        """Consumer id -> its `message`."""
        self.touched: dict[int, None] = {}
        """Ids that got messages since the last `end_messages`, in order."""

    def __len__(self) -> int:
        """How many consumers there are."""
        return len(self._consumers)

    def __bool__(self) -> bool:
        """Whether there is a consumer."""
        return bool(self._consumers)

    def reserve(self) -> int:
        """Give a new id without a consumer."""
        consumer_id = self._next_id
        self._next_id = consumer_id + 1
        return consumer_id

    def add(self, consumer: UpstreamConsumer) -> int:
        """Give a new id, routed to `consumer` from now on."""
        consumer_id = self.reserve()
        self._consumers[consumer_id] = consumer
        self.deliver[consumer_id] = consumer.message
        return consumer_id

    def drop(self, consumer_id: int) -> None:
        """Route nothing to it any more; idempotent."""
        self._consumers.pop(consumer_id, None)
        self.deliver.pop(consumer_id, None)

    def end_messages(self) -> None:
        """Tell those who got messages that the run is over."""
        touched = list(self.touched)
        self.touched.clear()
        for consumer_id in touched:
            consumer = self._consumers.get(consumer_id)
            if consumer is not None:
                consumer.messages_end()

    def closed_by_broker(self, consumer_id: int, reason: str) -> None:
        """Tell a consumer that the broker ended it, behind the messages that came before, and forget its id."""
        self.end_messages()
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            self.drop(consumer_id)
            consumer.closed_by_broker(reason)

    def reached_end_of_topic(self, consumer_id: int) -> None:
        """Pass the news on, behind the messages that came before."""
        self.end_messages()
        consumer = self._consumers.get(consumer_id)
        if consumer is not None:
            consumer.reached_end_of_topic()

    def take_all(self) -> list[UpstreamConsumer]:
        """Forget everyone; who they were, in the order of their ids."""
        consumers = list(self._consumers.values())  # ids rise, so the order of insertion is theirs
        self._consumers.clear()
        self.deliver.clear()
        self.touched.clear()
        return consumers
