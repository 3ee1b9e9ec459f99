"""The consumers and producers of one broker connection: routes messages, answers and notifications to them.

Kept apart from the connection so that one object owns the ids. The loop over frames reads `deliver` and writes
`touched` itself, because a call per message is what it cannot afford; everything else goes through the methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from proxy.errors import UpstreamError

if TYPE_CHECKING:
    from proxy.net.ports import UpstreamConsumer, UpstreamProducer
    from proxy.wire import pulsar_pb2 as pb
    from proxy.wire.messages import MessageHead

T = TypeVar("T")

Deliver = Callable[["MessageHead"], None]


class Routes(Generic[T]):
    """Ids rise from 1 and are never reused on a connection, so late messages and answers are ignored."""

    __slots__ = ("_next_id", "_routed")

    def __init__(self) -> None:
        """No ids yet."""
        self._next_id = 1
        self._routed: dict[int, T] = {}

    def reserve(self) -> int:
        """Give a new, unused id."""
        reserved = self._next_id
        self._next_id = reserved + 1
        return reserved

    def add(self, routed: T) -> int:
        """Give a new id, routed to this one from now on."""
        reserved = self.reserve()
        self._routed[reserved] = routed
        return reserved

    def drop(self, routed_id: int) -> None:
        """Route nothing to it any more; idempotent."""
        self._routed.pop(routed_id, None)

    def take_all(self) -> list[T]:
        """Forget everyone; who they were, in the order of their ids."""
        routed = list(self._routed.values())  # ids rise, so the order of insertion is theirs
        self._routed.clear()
        return routed


class ProducerRoutes(Routes["UpstreamProducer"]):
    """The gateway produces for itself only: messages between replicas, records of groups, dead letters."""

    __slots__ = ()

    def stored(self, receipt: pb.CommandSendReceipt) -> None:
        """SEND_RECEIPT."""
        producer = self._routed.get(receipt.producer_id)
        if producer is not None:
            producer.stored(receipt.sequence_id)

    def not_stored(self, refusal: pb.CommandSendError) -> None:
        """SEND_ERROR."""
        producer = self._routed.get(refusal.producer_id)
        if producer is not None:
            producer.not_stored(refusal.sequence_id, UpstreamError(refusal.message, refusal.error))

    def closed_by_broker(self, producer_id: int, reason: str) -> None:
        """Tell a producer that the broker ended it, and forget its id."""
        producer: UpstreamProducer | None = self._routed.pop(producer_id, None)
        if producer is not None:
            producer.closed_by_broker(reason)


class ConsumerRoutes(Routes["UpstreamConsumer"]):
    """Consumers, and the way in for their messages."""

    __slots__ = ("deliver", "touched")

    def __init__(self) -> None:
        """No consumers yet."""
        super().__init__()
        self.deliver: dict[int, Deliver] = {}
        """Consumer id -> its `message`."""
        self.touched: dict[int, None] = {}
        """Ids that got messages since the last `end_messages`, in order."""

    def add(self, routed: UpstreamConsumer) -> int:
        """As `Routes.add`; its messages go to it without a further call."""
        consumer_id = super().add(routed)
        self.deliver[consumer_id] = routed.message
        return consumer_id

    def drop(self, routed_id: int) -> None:
        """As `Routes.drop`."""
        super().drop(routed_id)
        self.deliver.pop(routed_id, None)

    def end_messages(self) -> None:
        """Tell those who got messages that the run is over."""
        touched = list(self.touched)
        self.touched.clear()
        for consumer_id in touched:
            consumer = self._routed.get(consumer_id)
            if consumer is not None:
                consumer.messages_end()

    def closed_by_broker(self, consumer_id: int, reason: str) -> None:
        """Tell a consumer that the broker ended it, behind the messages that came before, and forget its id."""
        self.end_messages()
        consumer = self._routed.get(consumer_id)
        if consumer is not None:
            self.drop(consumer_id)
            consumer.closed_by_broker(reason)

    def reached_end_of_topic(self, consumer_id: int) -> None:
        """Pass the news on, behind the messages that came before."""
        self.end_messages()
        consumer = self._routed.get(consumer_id)
        if consumer is not None:
            consumer.reached_end_of_topic()

    def take_all(self) -> list[UpstreamConsumer]:
        """As `Routes.take_all`."""
        self.deliver.clear()
        self.touched.clear()
        return super().take_all()
