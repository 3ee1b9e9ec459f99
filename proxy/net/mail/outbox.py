"""What a replica says on one topic that stores nothing: sent as soon as there is a producer, or lost."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

from proxy.net.alarm import Alarm
from proxy.net.broker.producer import GatewayProducer
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.ports import BrokerDirectory, Clock

log = structlog.get_logger("keyline.groups")

RETRY_S: Final = 1.0
"""Before a producer that failed is tried again."""
UNSENT_MAX: Final = 1_000
"""Messages that wait for the producer; what comes beyond is lost, as on a network."""
METADATA_BYTES_MAX: Final = 1 << 10
"""Of one message, within the broker's bound."""


class MailOutbox:
    """What is to go to one topic. Implements `broker.producer.ProducerOwner`."""

    def __init__(self, topic: str, brokers: BrokerDirectory, clock: Clock) -> None:
        """A producer is asked for at once."""
        self._topic = topic
        self._brokers = brokers
        self._clock = clock
        self._unsent: deque[bytes] = deque()
        self._ready = self._failing = False
        self._retry = Alarm(clock)
        self.used_at = clock.now()
        """When something was to be sent last."""
        self._producer: GatewayProducer | None = None
        self._open()

    @property
    def ready(self) -> bool:
        """Whether what is sent goes out now."""
        return self._ready

    def send(self, data: bytes) -> None:
        """Send, perhaps later, or lose it."""
        self.used_at = self._clock.now()
        if self._ready:
            assert self._producer is not None
            self._say(self._producer, data)
        elif len(self._unsent) < UNSENT_MAX:
            self._unsent.append(data)

    def close(self) -> None:
        """Say nothing more."""
        self._ready = False
        self._retry.cancel()
        if self._producer is not None:
            self._producer.close()

    def producer_ready(self, producer: GatewayProducer) -> None:
        """As it says."""
        self._ready = True
        self._failing = False
        while self._unsent:
            self._say(producer, self._unsent.popleft())

    def producer_stored(self, producer: GatewayProducer, sequence_id: int) -> None:
        """Nothing is stored, and delivery is not confirmed."""

    def producer_lost(self, producer: GatewayProducer, reason: str) -> None:
        """As it says."""
        del producer
        if not self._failing:
            log.info("replica messages dropped", topic=self._topic, messages=len(self._unsent), reason=reason)
        self._failing = True
        self._unsent.clear()  # the protocol has said them again since
        self._ready = False
        self._producer = None
        self._retry.set(RETRY_S, self._open)

    def _say(self, producer: GatewayProducer, data: bytes) -> None:
        """Send what the broker takes: at more it would end the connection, which lookups and other mail share."""
        most = producer.max_message_bytes - METADATA_BYTES_MAX
        if len(data) > most:
            log.warning("replica message too long", topic=self._topic, size_bytes=len(data), most_bytes=most)
            return
        producer.send(data)

    def _open(self) -> None:
        shared = pb.ProducerAccessMode.Shared
        self._producer = GatewayProducer(self._topic, shared, self._brokers, self._clock, self).open()
