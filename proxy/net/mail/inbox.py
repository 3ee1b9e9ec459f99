"""Receives messages of other replicas on one topic that stores nothing.

An absent replica misses messages, and no message arrives late: the protocol repeats everything that matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.net.alarm import Alarm
from proxy.net.broker.consumer import GatewayConsumer
from proxy.net.broker.readers import Readers

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.positions import Position
    from proxy.net.ports import BrokerDirectory, Clock

log = structlog.get_logger("keyline.groups")

RETRY_S: Final = 1.0
"""Before an inbox that failed is tried again."""


class MailInbox:
    """Hears what comes to one topic; comes back when it is lost. Implements `gateway_consumer.ConsumerOwner`."""

    def __init__(
        self, topic: str, replica: str, brokers: BrokerDirectory, clock: Clock, hear: Callable[[bytes], None]
    ) -> None:
        """`replica` begins our subscriptions' names; `hear` is called with each message that arrives, after `open`."""
        self._readers = Readers(topic, replica)
        self._brokers = brokers
        self._hear = hear
        self._consumer: GatewayConsumer | None = None
        self._retry = Alarm(clock)
        self._failing = False

    def open(self) -> None:
        """Begin to hear."""
        self._consumer = GatewayConsumer(self._readers.request(), self._brokers, self).open()

    def close(self) -> None:
        """Hear nothing more."""
        self._retry.cancel()
        if self._consumer is not None:
            self._consumer.close()

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """As it says."""
        del consumer
        self._failing = False

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """As it says."""
        del consumer, position
        self._hear(payload)

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """As it says."""
        del consumer
        if not self._failing:  # every retry fails alike
            log.warning("replica inbox lost", topic=self._readers.topic, reason=reason)
        self._failing = True
        self._consumer = None
        self._retry.set(RETRY_S, self.open)
