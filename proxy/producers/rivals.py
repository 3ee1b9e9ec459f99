"""Waiting producers at other replicas, according to their announcements.

An announcement that is not repeated expires, so a lost one delays promotions only briefly. After an expiry this replica
promotes its own producer, and two producers that wait at the broker do no harm. Only the broker decides the owner.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.producers.standing import Place, Standing

if TYPE_CHECKING:
    from proxy.producers.announcement import Announcement, TopicNews

EXPIRY_S: Final = 3.0
"""Expiry of announcements that are not repeated."""
RIVALS_MAX: Final = 50_000
"""Topics of other replicas, counted once for each replica; further ones are not kept."""

NO_RIVAL: Final = Place(None, owned=False)


class _Heard(NamedTuple):
    number: int
    at: float
    place: Place
    closures: int


class Rivals:
    """Of one replica's view."""

    __slots__ = ("_by_topic", "_closed", "_fenced", "_heard_at", "_owned", "_replica", "beyond_total")

    def __init__(self, replica: str) -> None:
        """`replica` is this replica's name: its own announcements are ignored."""
        self._replica = replica
        self._by_topic: dict[str, dict[str, _Heard]] = {}
        self._heard_at: OrderedDict[tuple[str, str], float] = OrderedDict()
        """By topic and replica, those first that were heard of longest ago."""
        self._closed: list[str] = []
        self._fenced: list[tuple[str, int, float]] = []
        self._owned: list[tuple[str, int]] = []
        self.beyond_total = 0
        """Places that were not kept for want of room."""

    def __len__(self) -> int:
        """Count topics, each for each replica that spoke of it."""
        return len(self._heard_at)

    def hear(self, announcement: Announcement, now: float) -> list[str]:
        """Record a replica's announcement; returns the changed topics."""
        if announcement.replica == self._replica:
            return []
        return [news.topic for news in announcement.topics if self._note(announcement, news, now)]

    def take_closed(self) -> list[str]:
        """Topics that others have seen the broker close since the last look: it forgets who waits there."""
        closed, self._closed = self._closed, []
        return closed

    def take_fenced(self) -> list[tuple[str, int, float]]:
        """Topics taken by fencing elsewhere, with epoch and time, announced since the last call."""
        fenced, self._fenced = self._fenced, []
        return fenced

    def take_owned(self) -> list[tuple[str, int]]:
        """Topics owned elsewhere, each with the epoch, announced since the last call."""
        owned, self._owned = self._owned, []
        return owned

    def expire(self, now: float) -> list[str]:
        """Forget what was not repeated; the topics of which that was."""
        overdue = [each for each, _ in takewhile(lambda each: each[1] + EXPIRY_S <= now, self._heard_at.items())]
        for topic, replica in overdue:
            del self._heard_at[topic, replica]
            heard = self._by_topic[topic]
            del heard[replica]
            if not heard:
                del self._by_topic[topic]
        return [topic for topic, _ in overdue]

    def place(self, topic: str) -> Place:
        """The best of all that wait for it elsewhere, and whether it is owned at another replica."""
        heard = self._by_topic.get(topic)
        if heard is None:
            return NO_RIVAL
        best = min((each.place.best for each in heard.values() if each.place.best is not None), default=None)
        return Place(best, owned=any(each.place.owned for each in heard.values()))

    def _note(self, announcement: Announcement, news: TopicNews, now: float) -> bool:
        replica = announcement.replica
        heard = self._by_topic.get(news.topic, {})
        before = heard.get(replica)
        if before is not None and before.number >= announcement.number:
            return False  # it was overtaken, or came twice
        if before is None and len(self) >= RIVALS_MAX:
            self.beyond_total += 1
            return False
        if before is not None and news.closures > before.closures:
            self._closed.append(news.topic)
        if news.fenced is not None:
            self._fenced.append((news.topic, news.fenced, now - news.fenced_s))
        if news.owned and news.epoch is not None:
            self._owned.append((news.topic, news.epoch))
        best = news.best
        standing = None if best is None else Standing(not best.returning, -best.priority, now - best.waited_s, replica)
        self._by_topic.setdefault(news.topic, heard)[replica] = _Heard(
            announcement.number, now, Place(standing, news.owned), news.closures
        )
        self._heard_at[news.topic, replica] = now
        self._heard_at.move_to_end((news.topic, replica))
        return True
