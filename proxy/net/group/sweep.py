"""Removes the topics of groups that no replica is in any more, because the last ones crashed or were cut off.

Problem: what a crashed replica left, no replica of the group removes, and a topic cannot be asked whose it is. Rule: of
a group that has a member one has the topic's exclusive producer, or waits for it, and brokers refuse it to others who
ask with access mode Exclusive. Where it is given it is kept for a while. A member that the broker forgot, as it does at
an unload, takes it away meanwhile, as it does with a leader that says nothing (`GroupMember`). If none does, the group
has no member, and its topic is removed. A member that comes later begins a new group.

Every replica looks now and then, at moments of its own; two that look at the same topic exclude each other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

import structlog

from proxy.groups.bundles import DEPLOYMENT
from proxy.net.broker.producer import GatewayProducer
from proxy.net.group.topic_name import TOPIC_PREFIX, group_topic_name
from proxy.net.group.topic_removal import GroupTopicRemoval
from proxy.net.mail.group_mail import topic_of_all
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import BrokerDirectory, BrokerLink, Clock, Timer

log = structlog.get_logger("keyline.groups")

FAILURES_MAX: Final = 3
"""Lists in a row that a broker does not give, before it is asked no more: it may refuse, or the list be too long."""
LOOKS_MAX: Final = 20
"""At a time."""


@dataclass(frozen=True, slots=True)
class SweepTiming:
    """In seconds."""

    first_s: float = 60.0
    """From the start to the first look, and up to as much again, by the replica's name."""
    every_s: float = 3_600.0
    alone_s: float = 30.0
    """How long no replica takes the producer of a group that has no member. A member does within some 5 s."""
    late_s: float = 3.0
    """A replica that is later than that stood still, and knows nothing of what happened meanwhile."""


class GroupSweep:
    """This replica's looks at the topics of all groups in the namespace."""

    def __init__(
        self, namespace: str, replica: str, brokers: BrokerDirectory, clock: Clock, timing: SweepTiming | None = None
    ) -> None:
        """`start` begins. The deployment's topic stays: it has operators' orders."""
        self._namespace = namespace
        self._brokers = brokers
        self._clock = clock
        self._timing = timing or SweepTiming()
        self._first_s = self._timing.first_s * (1 + crc32(replica.encode()) / (1 << 32))
        self._done = {group_topic_name(namespace, DEPLOYMENT)}
        """What is not looked at again: a broker may be configured not to delete it."""
        self._failures = 0
        self._waiting: deque[str] = deque()
        self._looks: set[_Look] = set()
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look from time to time."""
        self._timer = self._clock.call_later(self._first_s, self._ask)

    def close(self) -> None:
        """Look no more, and let go what is held."""
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        for look in list(self._looks):
            look.close()

    # ---- within

    def _ask(self) -> None:
        self._timer = self._clock.call_later(self._timing.every_s, self._ask)
        if not self._looks:
            self._brokers.locate(topic_of_all(self._namespace), self._located)

    def _located(self, link: BrokerLink | Exception) -> None:
        if isinstance(link, Exception):
            self._listed(link)
            return
        link.request(
            lambda request_id: commands.list_topics(self._namespace, f"{TOPIC_PREFIX}.*", request_id), self._listed
        )

    def _listed(self, reply: pb.BaseCommand | Exception) -> None:
        if isinstance(reply, Exception):
            self._failures += 1
            last = self._failures >= FAILURES_MAX
            log.warning("group topics not listed", namespace=self._namespace, reason=str(reply), again=not last)
            if last:
                self.close()
            return
        self._failures = 0
        begin = f"persistent://{self._namespace}/{TOPIC_PREFIX}"
        found = [topic for topic in reply.getTopicsOfNamespaceResponse.topics if topic.startswith(begin)]
        self._waiting.extend(topic for topic in found if topic not in self._done)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and len(self._looks) < LOOKS_MAX:
            self._looks.add(_Look(self._waiting.popleft(), self._brokers, self._clock, self._timing, self._looked))

    def _looked(self, look: _Look, *, removed: bool) -> None:
        self._looks.discard(look)
        if removed:
            self._done.add(look.topic)
            log.info("topic of a former group removed", topic=look.topic)
        self._go_on()


class _Look:
    """At one topic. Implements `broker.producer.ProducerOwner`."""

    def __init__(
        self, topic: str, brokers: BrokerDirectory, clock: Clock, timing: SweepTiming, over: Callable[..., None]
    ) -> None:
        self.topic = topic
        self._brokers = brokers
        self._clock = clock
        self._timing = timing
        self._over = over
        self._timer: Timer | None = None
        self._removal: GroupTopicRemoval | None = None
        self._producer = GatewayProducer(topic, pb.ProducerAccessMode.Exclusive, brokers, clock, self).open()

    def close(self) -> None:
        """End without a result."""
        self._let_go()

    # ---- ProducerOwner

    def producer_ready(self, producer: GatewayProducer) -> None:
        """As it says."""
        del producer
        due = self._clock.now() + self._timing.alone_s
        self._timer = self._clock.call_later(self._timing.alone_s, lambda: self._alone(due))

    def producer_stored(self, producer: GatewayProducer, sequence_id: int) -> None:
        """It sends nothing."""

    def producer_lost(self, producer: GatewayProducer, reason: str) -> None:
        """The group has a member; or the broker cannot be reached."""
        del producer, reason
        self._end(removed=False)

    # ---- within

    def _alone(self, due: float) -> None:
        if self._clock.now() > due + self._timing.late_s:
            self._end(removed=False)
        else:
            self._removal = GroupTopicRemoval(self.topic, self._brokers, self._clock, self._removed)

    def _removed(self, problem: str | None) -> None:
        self._end(removed=problem is None)

    def _end(self, *, removed: bool) -> None:
        self._let_go()
        self._over(self, removed=removed)

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._removal is not None:
            self._removal.close()
        self._producer.close()
