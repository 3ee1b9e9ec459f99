"""Reads a group's topic, and keeps its last record from being deleted.

A broker deletes messages that no subscription needs, and topics without a subscription (measured: an unload, then some
two minutes). So the leader reads through a durable subscription and acknowledges records that a newer one replaces: one
record remains, as long as the subscription is not deleted. Its consumer is closed as soon as all is read: beside that
of a leader that stands still, the next one's would be refused until the broker has found it dead, which takes 5 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.groups.encoding import UnreadableError, decode_record
from proxy.groups.memory import GroupMemory
from proxy.net.broker.consumer import GatewayConsumer
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.positions import Position
    from proxy.net.ports import BrokerDirectory, Clock

READ_S_MAX: Final = 10.0
SUBSCRIPTION: Final = "keyline-group"

log = structlog.get_logger("keyline.groups")


def keeping(topic: str) -> pb.CommandSubscribe:
    """Return the request for the subscription that keeps the topic's last record, without its ids."""
    return pb.CommandSubscribe(
        topic=topic,
        subscription=SUBSCRIPTION,
        subType=pb.CommandSubscribe.Exclusive,
        initialPosition=pb.CommandSubscribe.Earliest,
    )


class GroupTopicReader:
    """Reads to the end, once; implements `broker.consumer.ConsumerOwner`."""

    def __init__(
        self,
        topic: str,
        brokers: BrokerDirectory,
        clock: Clock,
        read: Callable[[GroupMemory], None],
        failed: Callable[[str], None],
    ) -> None:
        """Begin; either `read` is called or `failed`, once, unless it is closed before."""
        self._topic = topic
        self._read = read
        self._failed = failed
        self._memory = GroupMemory()
        self._memory_at: Position | None = None
        self._last: Position | None = None
        self._over = False
        self._timer = clock.call_later(READ_S_MAX, self._too_late)
        self._consumer = GatewayConsumer(keeping(topic), brokers, self).open()

    def close(self) -> None:
        """It is no longer wanted."""
        self._over = True
        self._timer.cancel()
        self._consumer.close()

    # ---- ConsumerOwner

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """As it says."""
        consumer.ask_last(self._up_to)

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """As it says."""
        try:
            record = decode_record(payload)
        except UnreadableError as error:
            log.warning("group record ignored", topic=self._topic, reason=str(error))
        else:
            self._remember(consumer, position, record)
        if self._last is not None and position >= self._last and not self._over:
            self._end()

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """As it says."""
        del consumer
        self._fail(reason)

    # ---- within

    def _remember(self, consumer: GatewayConsumer, position: Position, record: GroupMemory) -> None:
        self._memory = self._memory.then(record)
        if self._memory is not record:
            return
        if self._memory_at is not None:
            consumer.acknowledge_up_to(self._memory_at)
        self._memory_at = position

    def _up_to(self, last: Position | None) -> None:
        if last is None or (self._memory_at is not None and self._memory_at >= last):
            self._end()
        else:
            self._last = last

    def _end(self) -> None:
        self.close()
        self._read(self._memory)

    def _too_late(self) -> None:
        self._fail(f"it was not read within {READ_S_MAX:g} s")

    def _fail(self, reason: str) -> None:
        if not self._over:
            self.close()
            self._failed(reason)
