"""The topics of all groups in the namespace, for operators: which there are, who needs them, and the removal of one.

The sweep removes topics of former groups by itself, each hour (`sweep`); this is for who wants to see them, or not to
wait. It removes nothing that the sweep would not: an operator decides when, and the broker whether the group has a
member (`topic_look`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

import structlog

from proxy.errors import Conflict, KeylineError, NotFound, UpstreamUnavailable
from proxy.groups.bundles import DEPLOYMENT
from proxy.net.group.topic_list import list_topics
from proxy.net.group.topic_look import LookTiming, TopicLook
from proxy.net.group.topic_name import TOPIC_PREFIX, group_topic_name
from proxy.net.group.topic_reader import SUBSCRIPTION
from proxy.net.mail.group_mail import MAIL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.net.events import Events
    from proxy.net.ports import BrokerDirectory, Clock

log = structlog.get_logger("keyline.groups")

LOOKS_MAX: Final = 20
"""At a time, for a list."""
REMOVALS_MAX: Final = 20
"""At a time."""
GROUP: Final = "group"
OWNERS: Final = "deployment"
MAIL: Final = "mail"
_KEPT: Final = {
    OWNERS: "it is the deployment's in owner mode, with the orders of operators",
    MAIL: "it stores nothing: the broker deletes it when no replica is connected to it",
}
"""Why topics of these kinds are not removed."""


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """One that gateways made."""

    topic: str
    kind: str
    """`GROUP`, `OWNERS` or `MAIL`."""
    in_use_because: str | None
    """Why it is not removed; None if no replica is in its group."""


@dataclass(frozen=True, slots=True)
class GroupTopicsPage:
    """Some of them, by name."""

    namespace: str
    topics: tuple[GroupTopic, ...]
    next: str | None
    """What to ask for the next page after; None behind the last one."""


class GroupTopics:
    """Operators' view of them. Implements `admin_api.ports.GroupTopics`."""

    def __init__(
        self,
        namespace: str,
        brokers: BrokerDirectory,
        clock: Clock,
        events: Events,
        timing: LookTiming | None = None,
    ) -> None:
        """Nothing is asked before an operator does; what is removed is an event."""
        self._namespace = namespace
        self._brokers = brokers
        self._clock = clock
        self._events = events
        self._timing = timing or LookTiming()
        self._listing: _Listing | None = None
        self._removals: dict[str, _Removal] = {}
        """By topic."""

    def page(self, after: str | None, limit: int, answered: Callable[[GroupTopicsPage | KeylineError], None]) -> None:
        """Look at those after a name, `limit` at most; `answered` is called once, later.

        Raises `Conflict` while another page is made: each look costs the brokers some requests.
        """
        if self._listing is not None:
            raise Conflict("another list of these topics is being made; ask again when it is done")

        def done(page: GroupTopicsPage | KeylineError) -> None:
            self._listing = None
            answered(page)

        self._listing = _Listing(self._namespace, self._brokers, self._clock, after, limit, done)

    def remove(self, topic: str, by: str, answered: Callable[[KeylineError | None], None]) -> None:
        """Remove the topic of a group that has no member; `answered` is called once, later: with an error, or None.

        That is after half a minute, in which a member would take its producer back. The topic's records are deleted
        then; the broker deletes the empty topic (`brokerDeleteInactiveTopicsEnabled`). An error is `NotFound` if there
        is no such topic, and `Conflict` if a replica is in its group or cannot be excluded to be.

        Raises `Conflict` for a topic that is not a group's, or is being removed, or if many are.
        """
        kind = kind_of(topic, self._namespace)
        if kind in _KEPT:
            raise Conflict(f"{topic} is not removed: {_KEPT[kind]}")
        if kind is None:
            expected = f"persistent://{self._namespace}/{TOPIC_PREFIX}..."
            raise NotFound(f"{topic} is no group's topic: those are {expected}; `keyline group-topics` lists them")
        if topic in self._removals:
            raise Conflict(f"{topic} is being removed already")
        if len(self._removals) >= REMOVALS_MAX:
            raise Conflict(f"{REMOVALS_MAX} topics are being removed; order this when one of them is")

        def done(error: KeylineError | None) -> None:
            del self._removals[topic]
            if error is None:
                self._events.happened("operator_order", (topic, SUBSCRIPTION), order="remove topic", by=by)
            log.info("removal of a group's topic ordered", topic=topic, by=by, refused=str(error) if error else None)
            answered(error)

        removal = self._removals[topic] = _Removal(topic, self._brokers, self._clock, self._timing, done)
        removal.begin(self._namespace)

    def close(self) -> None:
        """Answer who waits, and let go what is held."""
        stopping = UpstreamUnavailable("the gateway is stopping; ask another replica")
        if self._listing is not None:
            self._listing.fail(stopping)
        for removal in list(self._removals.values()):
            removal.end(stopping)


def kind_of(topic: str, namespace: str) -> str | None:
    """What a topic of gateways is for, by its name; None for one that is not of them."""
    if topic == group_topic_name(namespace, DEPLOYMENT):
        return OWNERS
    if topic.startswith(f"persistent://{namespace}/{TOPIC_PREFIX}"):
        return GROUP
    return MAIL if topic.startswith(f"non-persistent://{namespace}/{MAIL_PREFIX}") else None


class _Listing:
    """One page that is being made."""

    def __init__(
        self,
        namespace: str,
        brokers: BrokerDirectory,
        clock: Clock,
        after: str | None,
        limit: int,
        answered: Callable[[GroupTopicsPage | KeylineError], None],
    ) -> None:
        self._namespace = namespace
        self._brokers = brokers
        self._clock = clock
        self._after = after or ""
        self._limit = limit
        self._answered: Callable[[GroupTopicsPage | KeylineError], None] | None = answered
        self._names: list[str] = []
        self._next: str | None = None
        self._waiting: deque[str] = deque()
        self._looks: set[TopicLook] = set()
        self._found: dict[str, str | None] = {}
        """Why each topic is not removed."""
        list_topics(brokers, namespace, TOPIC_PREFIX, self._stored_listed)

    def fail(self, error: KeylineError) -> None:
        """There will be no page."""
        for look in self._looks:
            look.close()
        self._end(error)

    def _stored_listed(self, names: Sequence[str] | Exception) -> None:
        if isinstance(names, Exception):
            self._not_listed(names)
        elif self._answered is not None:
            self._names += names
            list_topics(self._brokers, self._namespace, MAIL_PREFIX, self._all_listed, stored=False)

    def _all_listed(self, names: Sequence[str] | Exception) -> None:
        if isinstance(names, Exception):
            self._not_listed(names)
        elif self._answered is not None:
            self._choose([*self._names, *names])

    def _not_listed(self, reason: Exception) -> None:
        self._end(UpstreamUnavailable(f"the broker does not list {self._namespace}: {reason}"))

    def _choose(self, names: Sequence[str]) -> None:
        """Those of the page."""
        later = (name for name in set(names) if name > self._after)
        page = nsmallest(self._limit + 1, later)
        self._names = page[: self._limit]
        self._next = self._names[-1] if len(page) > self._limit else None
        for name in self._names:
            kind = kind_of(name, self._namespace)
            if kind == GROUP:
                self._waiting.append(name)
            else:
                self._found[name] = _KEPT[kind or MAIL]
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and len(self._looks) < LOOKS_MAX:
            topic = self._waiting.popleft()
            self._looks.add(TopicLook(topic, self._brokers, self._clock, self._looked, removes=None))
        if not self._looks:
            kinds = ((name, kind_of(name, self._namespace) or MAIL) for name in self._names)
            told = tuple(GroupTopic(name, kind, self._found[name]) for name, kind in kinds)
            self._end(GroupTopicsPage(self._namespace, told, self._next))

    def _looked(self, look: TopicLook, problem: str | None) -> None:
        self._looks.discard(look)
        self._found[look.topic] = problem
        self._go_on()

    def _end(self, page: GroupTopicsPage | KeylineError) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(page)


class _Removal:
    """Of one topic, which is looked for first: to ask for its producer would make it."""

    def __init__(
        self,
        topic: str,
        brokers: BrokerDirectory,
        clock: Clock,
        timing: LookTiming,
        answered: Callable[[KeylineError | None], None],
    ) -> None:
        self._topic = topic
        self._brokers = brokers
        self._clock = clock
        self._timing = timing
        self._answered: Callable[[KeylineError | None], None] | None = answered
        self._look: TopicLook | None = None

    def begin(self, namespace: str) -> None:
        """Once."""
        list_topics(self._brokers, namespace, TOPIC_PREFIX, self._listed)

    def end(self, error: KeylineError | None) -> None:
        """It is over, this way or that."""
        if self._look is not None:
            self._look.close()
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(error)

    def _listed(self, names: Sequence[str] | Exception) -> None:
        if self._answered is None:
            return
        if isinstance(names, Exception):
            self.end(UpstreamUnavailable(f"the broker does not say whether {self._topic} is there: {names}"))
        elif self._topic not in names:
            self.end(NotFound(f"there is no topic {self._topic}; `keyline group-topics` lists those that are there"))
        else:
            self._look = TopicLook(self._topic, self._brokers, self._clock, self._looked, removes=self._timing)

    def _looked(self, look: TopicLook, problem: str | None) -> None:
        del look
        refused = f"{self._topic} is not removed: a replica uses it, or that cannot be excluded ({problem})"
        self.end(None if problem is None else Conflict(refused))
