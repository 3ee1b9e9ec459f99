"""One topic that stores nothing, on which every replica hears what any of them says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.net.mail.inbox import MailInbox
from proxy.net.mail.outbox import MailOutbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import BrokerDirectory, Clock


class PulsarSharedMail:
    """Implements `producer_rivals.SharedMail`."""

    def __init__(self, topic: str, replica: str, brokers: BrokerDirectory, clock: Clock) -> None:
        """`replica` is the unique name of this replica's subscription."""
        self._topic = topic
        self._replica = replica
        self._brokers = brokers
        self._clock = clock
        self._inbox: MailInbox | None = None
        self._outbox: MailOutbox | None = None

    @property
    def ready(self) -> bool:
        """As the port says."""
        return self._outbox is not None and self._outbox.ready

    def open(self, hear: Callable[[bytes], None]) -> None:
        """As the port says."""
        self._inbox = MailInbox(self._topic, self._replica, self._brokers, self._clock, hear)
        self._inbox.open()
        self._outbox = MailOutbox(self._topic, self._brokers, self._clock)

    def send(self, data: bytes) -> None:
        """As the port says."""
        assert self._outbox is not None
        self._outbox.send(data)

    def close(self) -> None:
        """As the port says."""
        if self._inbox is not None:
            self._inbox.close()
        if self._outbox is not None:
            self._outbox.close()
