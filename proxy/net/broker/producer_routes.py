"""The producers of one broker connection: routes the broker's answers to them.

The gateway produces for itself only: messages between replicas, and the records of groups. Few, and small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.errors import UpstreamError

if TYPE_CHECKING:
    from proxy.net.ports import UpstreamProducer
    from proxy.wire import pulsar_pb2 as pb


class ProducerRoutes:
    """Ids rise from 1 and are never reused on a connection, so late answers are ignored."""

    __slots__ = ("_next_id", "_producers")

    def __init__(self) -> None:
        """No producers yet."""
        self._next_id = 1
        self._producers: dict[int, UpstreamProducer] = {}

    def reserve(self) -> int:
        """Give a new, unused id."""
        producer_id = self._next_id
        self._next_id = producer_id + 1
        return producer_id

    def add(self, producer: UpstreamProducer) -> int:
        """Give a new id, `producer`'s from now on."""
        producer_id = self.reserve()
        self._producers[producer_id] = producer
        return producer_id

    def drop(self, producer_id: int) -> None:
        """Tell it nothing any more; idempotent."""
        self._producers.pop(producer_id, None)

    def stored(self, receipt: pb.CommandSendReceipt) -> None:
        """SEND_RECEIPT."""
        producer = self._producers.get(receipt.producer_id)
        if producer is not None:
            producer.stored(receipt.sequence_id)

    def not_stored(self, refusal: pb.CommandSendError) -> None:
        """SEND_ERROR."""
        producer = self._producers.get(refusal.producer_id)
        if producer is not None:
            producer.not_stored(refusal.sequence_id, UpstreamError(refusal.message, refusal.error))

    def closed_by_broker(self, producer_id: int, reason: str) -> None:
        """Tell a producer that the broker ended it, and forget its id."""
        producer = self._producers.pop(producer_id, None)
        if producer is not None:
            producer.closed_by_broker(reason)

    def take_all(self) -> list[UpstreamProducer]:
        """Forget everyone; who they were, in the order of their ids."""
        producers = list(self._producers.values())
        self._producers.clear()
        return producers
