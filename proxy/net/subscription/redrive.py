"""One slot's parked messages, read again from the parking topic and handed on in order, a few at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.positions import unpack
from proxy.net.broker.consumer import GatewayConsumer
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.positions import Position
    from proxy.net.ports import BrokerDirectory

AHEAD_MAX: Final = 20
"""Messages that are read and not acknowledged yet; a few more may be on their way."""


class Redrive:
    """Implements `broker.consumer.ConsumerOwner`."""

    def __init__(
        self,
        topic: str,
        name: str,
        wanted: list[Position],
        brokers: BrokerDirectory,
        found: Callable[[Position, bytes], None],
        lost: Callable[[str], None],
    ) -> None:
        """Begin; `wanted`, in order, goes to `found`. A consumer without a cursor at the broker reads them."""
        ledger, entry = unpack(wanted[0] - 1)
        start = pb.MessageIdData(ledgerId=ledger, entryId=entry % (1 << 64))
        subscribe = pb.CommandSubscribe(
            topic=topic,
            subscription=name,
            subType=pb.CommandSubscribe.Exclusive,
            durable=False,
            start_message_id=start,
        )
        self._wanted = dict.fromkeys(wanted)
        self._found = found
        self._lost = lost
        self._ahead = 0
        self._ready = False
        self.wanted_in_all = len(wanted)
        self._consumer = GatewayConsumer(subscribe, brokers, self, whole=True, permits=AHEAD_MAX).open()

    @property
    def found_all(self) -> bool:
        """Whether all that was wanted was handed on."""
        return not self._wanted

    def one_done(self) -> None:
        """One of those that were found is acknowledged."""
        self._ahead -= 1
        if self._ready and self._wanted and self._ahead < AHEAD_MAX // 2:
            self._consumer.fetch(fetches=True)

    def close(self) -> None:
        """Read no more."""
        self._ready = False
        self._consumer.close()

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """As it says."""
        del consumer
        self._ready = True

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """As it says; `payload` is the whole message."""
        if position not in self._wanted:
            return
        del self._wanted[position]
        self._ahead += 1
        if not self._wanted:
            self.close()
        elif self._ahead >= AHEAD_MAX:
            consumer.fetch(fetches=False)
        self._found(position, payload)

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """As it says."""
        del consumer
        self._ready = False
        if self._wanted:
            self._lost(reason)
