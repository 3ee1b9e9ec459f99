"""The elections of all topics of this gateway with exclusive producers.

An election exists while a producer connected here owns the topic, waits for it or is expected to return.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from sortedcontainers import SortedDict

from proxy.errors import LimitExceeded
from proxy.net.election.election import TopicElection
from proxy.net.election.statistics import ElectionCounters, ElectionsPage, ElectionsSummary
from proxy.producers.rivals import NO_RIVAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.net.election.rivals import ProducerRivals
    from proxy.net.election.statistics import ElectionPage, ElectionSummary
    from proxy.net.events import Events
    from proxy.net.ports import Clock

OVERHEAD_BYTES: Final = 1_024
"""Of a producer that waits, besides its request."""


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """How elections are held."""

    producer_return_grace_s: float = 3.0
    """How long those that wait let the owner come back that the broker closed."""
    waiting_producers_bytes_max: int = 256 * 1024 * 1024
    """Memory of all that wait."""


class ProducerElections:
    """Finds a topic's election, and begins it."""

    def __init__(
        self, clock: Clock, events: Events, settings: ElectionSettings, rivals: ProducerRivals | None = None
    ) -> None:
        """The gateway has just started: owners of before it are still to come back.

        `rivals` is what other replicas say, which this starts and stops; None for a gateway that is alone.
        """
        self._rivals = rivals
        if rivals is not None:
            rivals.heard = self._heard
            rivals.closed = self._closed_elsewhere
            rivals.fenced = self._fenced_elsewhere
        self._clock = clock
        self._events = events
        self._settings = settings
        self._unsettled_until = clock.now() + settings.producer_return_grace_s
        self._elections: SortedDict[str, TopicElection] = SortedDict()
        self._totals = ElectionCounters()
        self._waiting_bytes = 0
        self._closed = False

    def of(self, topic: str) -> TopicElection:
        """The topic's election, begun if there is none."""
        election = self._elections.get(topic)
        if election is None:
            election = self._elections[topic] = TopicElection(
                topic,
                self._clock,
                self._events,
                self._settings.producer_return_grace_s,
                self._unsettled_until,
                self._totals,
                self._over,
                self._rivals,
            )
            if self._closed:
                election.close()
        return election

    def is_wanted(self, topic: str) -> bool:
        """Whether one owns the topic, or wants to: here, or at another replica as far as is known."""
        return topic in self._elections or (self._rivals is not None and self._rivals.place(topic) != NO_RIVAL)

    def start(self) -> None:
        """Hear of other replicas, and tell them."""
        if self._rivals is not None:
            self._rivals.start()

    def find(self, topic: str) -> TopicElection | None:
        """The topic's election, if there is one."""
        election: TopicElection | None = self._elections.get(topic)
        return election

    def take_room(self, request_bytes: int) -> int:
        """Set memory aside for a producer that waits; give what `give_room` is to be told. Raises `LimitExceeded`."""
        size = request_bytes + OVERHEAD_BYTES
        bound = self._settings.waiting_producers_bytes_max
        if self._waiting_bytes + size > bound:
            message = (
                f"producers that wait to be a topic's only one take up {self._waiting_bytes} bytes of this gateway, "
                f"and {bound} are all they may (waiting_producers_bytes_max)"
            )
            raise LimitExceeded(message)
        self._waiting_bytes += size
        return size

    def give_room(self, size: int) -> None:
        """It waits no longer."""
        self._waiting_bytes -= size

    def close(self) -> None:
        """The gateway stops: waiting producers are promoted elsewhere."""
        self._closed = True
        for election in self._elections.values():
            election.close()
        if self._rivals is not None:
            self._rivals.stop()

    # ---- reads

    def page(self, after: str | None, limit: int) -> ElectionsPage:
        """Freeze some of them, by topic."""
        names = list(islice(self._elections.irange(after, inclusive=(False, True)), limit + 1))
        listed = tuple(self._elections[name].summary() for name in names[:limit])
        return ElectionsPage(self.summary(), listed, names[limit - 1] if len(names) > limit else None)

    def waiting(self, topic: str, first: int, limit: int) -> ElectionPage | None:
        """Freeze one with some of those that wait; None if there is none."""
        election = self.find(topic)
        return None if election is None else election.page(first, limit)

    def summaries(self) -> Iterator[ElectionSummary]:
        """Each as of the moment it is asked for."""
        for topic in list(self._elections):
            if (election := self.find(topic)) is not None:
                yield election.summary()

    def summary(self) -> ElectionsSummary:
        """Freeze the sums."""
        elections = self._elections.values()
        return ElectionsSummary(
            topics_count=len(elections),
            owners_count=sum(election.owned for election in elections),
            waiting_count=sum(election.waiting_count for election in elections),
            waiting_bytes=self._waiting_bytes,
            outranked_count=sum(election.outranked for election in elections),
            rivals_count=0 if self._rivals is None else self._rivals.known_count,
            ignored_total=0 if self._rivals is None else self._rivals.ignored_total,
            counters=replace(self._totals),
        )

    def _heard(self, topic: str) -> None:
        if (election := self.find(topic)) is not None:
            election.heard()

    def _closed_elsewhere(self, topic: str) -> None:
        if (election := self.find(topic)) is not None:
            election.closed_elsewhere()

    def _fenced_elsewhere(self, topic: str, epoch: int, at: float) -> None:
        if (election := self.find(topic)) is not None:
            election.fenced_elsewhere(epoch, at)

    def _over(self, election: TopicElection) -> None:
        if self._elections.get(election.topic) is election:
            del self._elections[election.topic]
