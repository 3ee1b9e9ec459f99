"""Removes the topics of groups that no replica is in any more, because the last ones crashed or were cut off.

Problem: what a crashed replica left, no replica of the group removes, and a topic cannot be asked whose it is. So it is
looked whether the group has a member (`topic_look`).

Every replica looks now and then, at moments of its own; two that look at the same topic exclude each other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from proxy.groups.bundles import DEPLOYMENT
from proxy.net.alarm import Alarm
from proxy.net.group.topic_list import list_topics
from proxy.net.group.topic_look import LookTiming, TopicLook
from proxy.net.group.topic_name import TOPIC_PREFIX, group_topic_name
from proxy.net.spread import share_of

if TYPE_CHECKING:
    from proxy.net.ports import BrokerDirectory, Clock

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
    look: LookTiming = field(default_factory=LookTiming)


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
        self._first_s = self._timing.first_s * (1 + share_of(replica))
        self._done = {group_topic_name(namespace, DEPLOYMENT)}
        """What is not looked at again: a broker may be configured not to delete it."""
        self._failures = 0
        self._waiting: deque[str] = deque()
        self._looks: set[TopicLook] = set()
        self._timer = Alarm(clock)

    def start(self) -> None:
        """Look from time to time."""
        self._timer.set(self._first_s, self._ask)

    def close(self) -> None:
        """Look no more, and let go what is held."""
        self._timer.cancel()
        self._waiting.clear()
        for look in list(self._looks):
            look.close()

    # ---- within

    def _ask(self) -> None:
        self._timer.set(self._timing.every_s, self._ask)
        if not self._looks:
            list_topics(self._brokers, self._namespace, TOPIC_PREFIX, self._listed)

    def _listed(self, found: list[str] | Exception) -> None:
        if isinstance(found, Exception):
            self._failures += 1
            last = self._failures >= FAILURES_MAX
            log.warning("group topics not listed", namespace=self._namespace, reason=str(found), again=not last)
            if last:
                self.close()
            return
        self._failures = 0
        self._waiting.extend(topic for topic in found if topic not in self._done)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and len(self._looks) < LOOKS_MAX:
            topic = self._waiting.popleft()
            self._looks.add(TopicLook(topic, self._brokers, self._clock, self._looked, removes=self._timing.look))

    def _looked(self, look: TopicLook, problem: str | None) -> None:
        self._looks.discard(look)
        if problem is None:
            self._done.add(look.topic)
            log.info("topic of a former group removed", topic=look.topic)
        self._go_on()
