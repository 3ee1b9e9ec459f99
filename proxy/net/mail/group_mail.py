"""Messages between replicas, over topics that store nothing.

Every replica has its own inbox, and all share one topic for broadcasts. Both are non-persistent: absent replicas miss
messages, and no message arrives late; the protocol repeats everything that matters. A producer is created for each
recipient, and closed when it has not been used for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.alarm import Alarm
from proxy.net.mail.inbox import MailInbox
from proxy.net.mail.outbox import MailOutbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import BrokerDirectory, Clock

UNUSED_S_MAX: Final = 60.0
MAIL_PREFIX: Final = "keyline-groups-"
"""How the names of inboxes begin, within their namespace."""


def _prefix(namespace: str) -> str:
    return f"non-persistent://{namespace}/{MAIL_PREFIX}"


def topic_of_all(namespace: str) -> str:
    """Name the topic of messages to all replicas, which is there as long as a replica is."""
    return f"{_prefix(namespace)}all"


class PulsarGroupMail:
    """All messages of one replica's groups. Implements `group.ports.GroupMail`."""

    def __init__(
        self, namespace: str, replica: str, brokers: BrokerDirectory, clock: Clock, hear: Callable[[bytes], None]
    ) -> None:
        """`hear` is called with each message that arrives, after `start`."""
        self._prefix = _prefix(namespace)
        self._brokers = brokers
        self._clock = clock
        self._outboxes: dict[str, MailOutbox] = {}
        self._tidying = Alarm(clock)
        own, common = self._inbox(replica), topic_of_all(namespace)
        self._inboxes = [MailInbox(topic, replica, brokers, clock, hear) for topic in (own, common)]

    def start(self) -> None:
        """Begin to hear."""
        for inbox in self._inboxes:
            inbox.open()
        self._tidying.set(UNUSED_S_MAX, self._tidy)

    def stop(self) -> None:
        """Hear and say nothing more."""
        self._tidying.cancel()
        for inbox in self._inboxes:
            inbox.close()
        for outbox in self._outboxes.values():
            outbox.close()
        self._outboxes.clear()

    def send(self, replica: str, data: bytes) -> None:
        """As the port says."""
        self._send(self._inbox(replica), data)

    def send_all(self, data: bytes) -> None:
        """As the port says."""
        self._send(f"{self._prefix}all", data)

    # ---- within

    def _inbox(self, replica: str) -> str:
        return f"{self._prefix}{replica}"

    def _send(self, topic: str, data: bytes) -> None:
        outbox = self._outboxes.get(topic)
        if outbox is None:
            outbox = self._outboxes[topic] = MailOutbox(topic, self._brokers, self._clock)
        outbox.send(data)

    def _tidy(self) -> None:
        long_ago = self._clock.now() - UNUSED_S_MAX
        for topic, outbox in list(self._outboxes.items()):
            if outbox.used_at < long_ago:
                del self._outboxes[topic]
                outbox.close()
        self._tidying.set(UNUSED_S_MAX, self._tidy)


class PulsarSharedMail:
    """One topic on which every replica hears what any of them says. Implements `rivals.SharedMail`."""

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
