"""Announcements of waiting producers between replicas, over a shared topic that stores nothing.

There is no leader and no agreement: only the broker's exclusive producer determines the owner of a topic. Announcements
only influence which producer a replica promotes, and whose turn it gives away. A lost or late announcement can cost a
wrong order for a moment, or an epoch; never a second owner, and never a topic without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import structlog

from proxy.net.alarm import Alarm
from proxy.producers.announcement import UnreadableError, decode, encode
from proxy.producers.announcer import Announcer
from proxy.producers.rivals import EXPIRY_S, Rivals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy.net.ports import Clock
    from proxy.producers.standing import Place

log = structlog.get_logger("keyline.producers")

EXPIRY_CHECK_S: Final = 0.25
"""Largest delay of the expiry of announcements."""
NOT_READY_S: Final = 0.25
"""How long what is due waits while nothing can be sent. It is not kept: it would be old when it is heard."""

assert EXPIRY_CHECK_S < EXPIRY_S / 4


def rivals_topic(namespace: str) -> str:
    """Name the topic that all replicas share."""
    return f"non-persistent://{namespace}/keyline-producers-all"


class SharedMail(Protocol):
    """Every announcement reaches all replicas, including this one, or is lost."""

    @property
    def ready(self) -> bool:
        """Whether what is sent goes out now."""

    def open(self, hear: Callable[[bytes], None]) -> None:
        """Begin to hear and to send; `hear` is called with each message."""

    def send(self, data: bytes) -> None:
        """Only while it is open."""

    def close(self) -> None:
        """Hear and send nothing more."""


class ProducerRivals:
    """One replica's part in it."""

    def __init__(self, replica: str, mail: SharedMail, clock: Clock) -> None:
        """`replica` names this process, and no process before it; `start` begins."""
        self.replica = replica
        self.heard: Callable[[str], None] | None = None
        """Called with each topic of which something else is known than before."""
        self.closed: Callable[[str], None] | None = None
        """Called with each topic that another replica has seen the broker close."""
        self.fenced: Callable[[str, int, float], None] | None = None
        """Called with each topic that was taken by fencing at another replica, the epoch and when; again and again."""
        self._mail = mail
        self._clock = clock
        self._rivals = Rivals(replica)
        self._announcer = Announcer(replica)
        self._unreadable_total = 0
        self._started = False
        self._saying = Alarm(clock)
        self._say_at = 0.0
        self._expiring = Alarm(clock)

    @property
    def known_count(self) -> int:
        """Topics of other replicas that are known, each counted for each."""
        return len(self._rivals)

    @property
    def ignored_total(self) -> int:
        """Messages that could not be read, and topics that found no room."""
        return self._unreadable_total + self._rivals.beyond_total

    def start(self) -> None:
        """Begin to hear and to say."""
        self._started = True
        self._mail.open(self._hear)
        self._expiring.set(EXPIRY_CHECK_S, self._expire)
        self._say_later()

    def stop(self) -> None:
        """Announce an empty queue, then stop."""
        if not self._started:
            return
        self._started = False
        self._saying.cancel()
        self._expiring.cancel()
        self._announcer.tell_nothing()
        while self._mail.ready and (announcement := self._announcer.next(self._clock.now())) is not None:
            self._mail.send(encode(announcement))
        self._mail.close()

    def place(self, topic: str) -> Place:
        """What other replicas say of it."""
        return self._rivals.place(topic)

    def tell(self, topic: str, place: Place | None) -> None:
        """Let others know how a topic stands here; None if there is nothing more to say of it."""
        if self._announcer.tell(topic, place):
            self._say_later()

    def tell_closed(self, topic: str) -> None:
        """Let others know that the broker has closed it."""
        self._announcer.tell_closed(topic)
        self._say_later()

    def tell_fenced(self, topic: str, epoch: int) -> None:
        """Announce that a producer has taken it by fencing."""
        self._announcer.tell_fenced(topic, epoch, self._clock.now())
        self._say_later()

    # ---- within

    def _say_later(self) -> None:
        now = self._clock.now()
        due_s = self._announcer.due_in(now)
        if due_s is None or not self._started:
            return
        if not self._mail.ready:
            due_s = max(due_s, NOT_READY_S)
        if self._saying.is_set and self._say_at <= now + due_s:
            return
        self._say_at = now + due_s
        self._saying.set(due_s, self._say)

    def _say(self) -> None:
        announcement = self._announcer.next(self._clock.now()) if self._mail.ready else None
        if announcement is not None:
            self._mail.send(encode(announcement))
        self._say_later()

    def _hear(self, data: bytes) -> None:
        try:
            announcement = decode(data)
        except UnreadableError as error:
            self._unreadable_total += 1
            if self._unreadable_total == 1:  # others will be like it
                log.warning("producer announcement ignored", error=str(error))
            return
        self._changed(self._rivals.hear(announcement, self._clock.now()))
        for topic in self._rivals.take_closed():
            if self.closed is not None:
                self.closed(topic)
        for topic, epoch, at in self._rivals.take_fenced():
            if self.fenced is not None:
                self.fenced(topic, epoch, at)
        for topic, epoch in self._rivals.take_owned():
            if self._announcer.hear_owned(topic, epoch, self._clock.now()):
                self._say_later()

    def _expire(self) -> None:
        self._expiring.set(EXPIRY_CHECK_S, self._expire)
        self._changed(self._rivals.expire(self._clock.now()))

    def _changed(self, topics: Iterable[str]) -> None:
        if self.heard is not None:
            for topic in topics:
                self.heard(topic)
