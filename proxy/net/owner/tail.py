"""Follows the deployment's topic: every record of who owns what, from the last one on.

Every replica has a reader of its own, so that the leader need not know the readers. It begins at the last
record, which says everything; what was before it is not read again, however long the topic has become.

All that a leader tells its sessions is in the topic before: so a session that has been told more than the reader has
read knows that the reader is behind; if it stays so, the reader begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.core.positions import unpack
from proxy.groups.encoding import UnreadableError, decode_record
from proxy.groups.messages import Version
from proxy.net.alarm import Alarm
from proxy.net.broker.consumer import GatewayConsumer
from proxy.net.broker.readers import Readers
from proxy.net.message_ids import UINT64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.positions import Position
    from proxy.groups.memory import GroupMemory
    from proxy.net.ports import BrokerDirectory, Clock

BEHIND_S_MAX: Final = 1.0
"""How long a record may take from the topic to here."""
RETRY_S: Final = 1.0
"""Before a reader that failed is tried again; meanwhile what is known stays."""
_EARLIEST: Final = (-1, -1)
"""The topic's beginning."""

log = structlog.get_logger("keyline.owner")


class OwnerTail:
    """Implements `broker.consumer.ConsumerOwner`."""

    def __init__(
        self, topic: str, replica: str, brokers: BrokerDirectory, clock: Clock, learn: Callable[[GroupMemory], None]
    ) -> None:
        """`learn` is called with each record, after `open`; `replica` names our subscriptions."""
        self._topic = topic
        self._readers = Readers(topic, f"keyline-tail-{replica}")
        self._brokers = brokers
        self._learn = learn
        self._consumer: GatewayConsumer | None = None
        self._from: tuple[int, int] | None = None
        """After which entry it reads; None while it asks for the last one."""
        self._retry = Alarm(clock)
        self._failing = False
        self._read = Version(0, 0)
        """Of the greatest version that is known to be in the topic by what was read of it."""
        self._expected = Version(0, 0)
        self._behind = Alarm(clock)

    def open(self) -> None:
        """Start, or restart."""
        self._from = None
        self._subscribe()

    def close(self) -> None:
        """Hear nothing more."""
        self._retry.cancel()
        self._behind.cancel()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def expect(self, version: Version) -> None:
        """A leader has given this version: a record that has it, or a later one, is in the topic."""
        self._expected = max(version, self._expected)
        if self._expected > self._read and not self._behind.is_set:
            self._behind.set(BEHIND_S_MAX, self._look_behind)

    # ---- ConsumerOwner

    def consumer_ready(self, consumer: GatewayConsumer) -> None:
        """As it says."""
        self._failing = False
        if self._from is None:
            consumer.ask_last(self._begin_at)

    def consumer_received(self, consumer: GatewayConsumer, position: Position, payload: bytes) -> None:
        """As it says."""
        _ = consumer, position
        try:
            record = decode_record(payload)
        except UnreadableError as error:
            log.warning("owner record unreadable", topic=self._topic, reason=str(error))
        else:
            self._read = max(Version(record.epoch, record.number), self._read)
            self._learn(record)

    def consumer_lost(self, consumer: GatewayConsumer, reason: str) -> None:
        """As it says."""
        _ = consumer
        if not self._failing:
            log.warning("owner records lost", topic=self._topic, reason=reason)
        self._failing = True
        self._consumer = None
        self._retry.set(RETRY_S, self.open)

    # ---- within

    def _look_behind(self) -> None:
        if self._expected <= self._read:
            return
        if self._consumer is not None:
            log.warning("owner records late", topic=self._topic, expected=self._expected, read=self._read)
            self._consumer.close()
            self.open()
        self.expect(self._expected)

    def _subscribe(self) -> None:
        begin = self._from
        subscribe = self._readers.request()
        if begin is not None:
            ledger, entry = begin
            subscribe.start_message_id.ledgerId, subscribe.start_message_id.entryId = (
                ledger & UINT64_MAX,
                entry & UINT64_MAX,
            )
        self._consumer = GatewayConsumer(subscribe, self._brokers, self, fetches=begin is not None).open()

    def _begin_at(self, last: Position | None) -> None:
        """Read from the last record on: what a reader is told to begin at, it takes for read."""
        if self._consumer is not None:
            self._consumer.close()
        if last is None:
            self._from = _EARLIEST
        else:
            ledger, entry = unpack(last)
            self._from = (ledger, entry - 1)
        self._subscribe()
