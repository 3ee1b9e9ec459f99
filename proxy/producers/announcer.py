"""Schedules this replica's announcements of waiting producers: each change soon, and everything periodically.

Announcements may be lost, and there are no answers. Changes of many topics are announced together, a bounded number at
a time; repetitions start with the topic that was announced longest ago.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain
from typing import TYPE_CHECKING, Final

from proxy.limits import TOPIC_CHARACTERS_MAX
from proxy.producers.announcement import Announcement, BestWaiting, TopicNews, name_bytes
from proxy.producers.rivals import EXPIRY_S

if TYPE_CHECKING:
    from proxy.producers.standing import Place

DAMPING_S: Final = 0.02
"""How long a change waits for others, and one announcement for the next."""
REPEAT_S: Final = 1.0
TOPICS_MAX: Final = 200
"""Of one announcement."""
ANNOUNCED_MAX: Final = 10_000
"""Topics with waiting producers of one replica that all others know; beyond it some expire in between."""
FENCE_REMEMBERED_S: Final = 600.0
"""Time for which a fencing is repeated to the fenced owner."""
ROUNDING_S: Final = 0.001
"""Subtracted from announced times: numbers are rounded, and a producer must not seem older than it is."""
NAMES_BYTES_MAX: Final = 128 * 1024
"""Of the topics' names in one announcement, as they are written there."""
ESCAPED_BYTES_MAX: Final = 6
"""Of one character in JSON."""

assert EXPIRY_S >= 3 * DAMPING_S + 2 * REPEAT_S, "a lost announcement must not make a topic expire"
assert TOPIC_CHARACTERS_MAX * ESCAPED_BYTES_MAX < NAMES_BYTES_MAX, "otherwise a topic would hold up all others"
assert TOPICS_MAX / DAMPING_S * REPEAT_S >= ANNOUNCED_MAX, "otherwise topics would expire between two repetitions"


class Announcer:
    """Of one replica."""

    __slots__ = ("_changed", "_closures", "_fences", "_number", "_ours", "_replica", "_said_at")

    def __init__(self, replica: str) -> None:
        """There is nothing to say."""
        self._replica = replica
        self._number = 0
        self._ours: dict[str, Place] = {}
        self._said_at: OrderedDict[str, float] = OrderedDict()
        """By topic, those first that were said longest ago."""
        self._closures: OrderedDict[str, int] = OrderedDict()
        """By topic, of those that the broker closed last."""
        self._fences: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Of topics that were taken by fencing last: with which epoch, and when."""
        self._changed: dict[str, None] = {}
        """Topics in the order of their first change that was not said."""

    def tell(self, topic: str, place: Place | None) -> bool:
        """Record a topic's place here, None if it has none; returns whether it is a change.

        A topic whose name no client may give is never announced.
        """
        if self._ours.get(topic) == place or _is_oversized(topic):
            return False
        if place is not None:
            self._ours[topic] = place
        else:
            del self._ours[topic]
            if topic not in self._said_at and not self._remembered(topic):  # and never was said
                self._changed.pop(topic)
                return False
        self._changed[topic] = None
        return True

    def tell_closed(self, topic: str) -> None:
        """The broker has closed it: announced once, also with an empty queue."""
        if _is_oversized(topic):
            return
        self._closures[topic] = self._closures.pop(topic, 0) + 1
        self._changed[topic] = None
        if len(self._closures) > ANNOUNCED_MAX:
            self._forget(self._closures.popitem(last=False)[0])

    def tell_fenced(self, topic: str, epoch: int, now: float) -> None:
        """A producer has taken it with that epoch: announced once, and repeated to replicas that seem unaware."""
        if _is_oversized(topic):
            return
        self._fences.pop(topic, None)
        self._fences[topic] = epoch, now
        self._changed[topic] = None
        if len(self._fences) > ANNOUNCED_MAX:
            self._forget(self._fences.popitem(last=False)[0])

    def hear_owned(self, topic: str, epoch: int, now: float) -> bool:
        """Another replica announces an owner with that epoch; returns whether it must be corrected."""
        fenced, at = self._fences.get(topic, (epoch, now))
        if now - at > FENCE_REMEMBERED_S:
            del self._fences[topic]
            return False
        if fenced > epoch:
            self._changed[topic] = None
        return fenced > epoch

    def tell_nothing(self) -> None:
        """All queues here are empty."""
        for topic in list(self._ours):
            self.tell(topic, None)

    def due_in(self, now: float) -> float | None:
        """Seconds until the next announcement; None if there is none."""
        if self._changed:
            return DAMPING_S
        first = next(iter(self._said_at.values()), None)
        return None if first is None else max(first + REPEAT_S - now, DAMPING_S)

    def next(self, now: float) -> Announcement | None:
        """The announcement to send now; None if there is none. It counts as sent."""
        topics = self._take_due(now)
        if not topics:
            return None
        self._number += 1
        return Announcement(self._replica, self._number, tuple(self._say(topic, now) for topic in topics))

    def _take_due(self, now: float) -> list[str]:
        topics: list[str] = []
        names_bytes = 0
        for topic in chain(self._changed, self._overdue(now)):
            names_bytes += name_bytes(topic)
            if len(topics) >= TOPICS_MAX or names_bytes > NAMES_BYTES_MAX:
                break
            topics.append(topic)
        return topics

    def _overdue(self, now: float) -> list[str]:
        overdue: list[str] = []
        for topic, said_at in self._said_at.items():
            if said_at + REPEAT_S > now or len(overdue) >= TOPICS_MAX:
                break
            if topic not in self._changed:
                overdue.append(topic)
        return overdue

    def _say(self, topic: str, now: float) -> TopicNews:
        self._changed.pop(topic, None)
        self._said_at.pop(topic, None)
        place = self._ours.get(topic)
        closures = self._closures.get(topic, 0)
        fenced, at = self._fences.get(topic, (None, now))
        if place is None:
            return TopicNews(topic, owned=False, best=None, closures=closures, fenced=fenced, fenced_s=now - at)
        self._said_at[topic] = now  # behind all others
        best = place.best
        told = None
        if best is not None:
            told = BestWaiting(best.priority, best.returning, max(now - best.since - ROUNDING_S, 0.0))
        return TopicNews(topic, place.owned, told, closures, place.epoch, fenced, now - at)

    def _forget(self, topic: str) -> None:
        """Forget it for want of room: it is no longer announced, unless something else of it is."""
        if topic not in self._ours and not self._remembered(topic):
            self._changed.pop(topic, None)

    def _remembered(self, topic: str) -> bool:
        """Whether it must be announced although its queue is empty."""
        return topic in self._closures or topic in self._fences


def _is_oversized(topic: str) -> bool:
    return len(topic) > TOPIC_CHARACTERS_MAX
