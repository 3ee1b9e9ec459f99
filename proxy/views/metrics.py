"""What metrics show of this gateway. Implements `admin_api.ports_metrics.MetricsView` over the parts that count.

Scraping must not hold the loop for as long as there are subscriptions, so these and their consumers are given one by
one: whoever asks lets others run in between, and each is whole in itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.journal.summary import NO_JOURNAL, JournalSummary, TopicSummary
from proxy.net.broker.statistics import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy.journal.keeper import JournalKeeper
    from proxy.net.broker.directory import Brokers
    from proxy.net.election.elections import ProducerElections
    from proxy.net.election.statistics import ElectionsSummary, ElectionSummary
    from proxy.net.group.groups import Groups
    from proxy.net.group.views import GroupSummary
    from proxy.net.session.sessions import ServerStatistics
    from proxy.net.subscription.directory import Subscriptions
    from proxy.net.subscription.summary import SubscribedConsumerSummary, SubscriptionsSummary, SubscriptionSummary


@dataclass(frozen=True, slots=True)
class GatewaySummary:
    """The gateway in numbers, its subscriptions aside."""

    version: str
    ready: bool
    server: ServerStatistics
    subscriptions: SubscriptionsSummary
    producers: ElectionsSummary
    broker_connections: dict[str, int]
    """The gateway's own, by state; every state is there."""
    lookups_total: int
    lookup_failures_total: int
    collections_total: int
    log_lines_left_out_total: int
    journal: JournalSummary
    event_topic: TopicSummary
    certificates: CertificatesSummary


@dataclass(frozen=True, slots=True)
class CertificatesSummary:
    """The gateway's own certificates, and the authorities that it believes."""

    expire_at_s: dict[str, float]
    """By who is shown it, `clients` or `brokers`; in seconds since 1970."""
    well: bool
    reloads: int


NO_CERTIFICATES: Final = CertificatesSummary({}, well=True, reloads=0)


class MetricsSource:
    """The parts of one gateway that count something."""

    def __init__(
        self,
        version: str,
        not_ready_because: Callable[[], Sequence[str]],
        server: Callable[[], ServerStatistics],
        subscriptions: Subscriptions,
        elections: ProducerElections,
        brokers: Brokers,
        collections_total: Callable[[], int],
        groups: Groups | None = None,
        journal: JournalKeeper | None = None,
        event_topic: TopicSummary | None = None,
        certificates: Callable[[], CertificatesSummary] = lambda: NO_CERTIFICATES,
        log_lines_left_out: Callable[[], int] = lambda: 0,
    ) -> None:
        """All of one gateway; `groups` is None for one that shares nothing, `journal` for one that keeps none.

        `event_topic` is changed by whoever sends events.
        """
        self._certificates = certificates
        self._log_lines_left_out = log_lines_left_out
        self._journal = journal
        self._event_topic = event_topic or TopicSummary()
        self._groups = groups
        self._version = version
        self._not_ready_because = not_ready_because
        self._server = server
        self._subscriptions = subscriptions
        self._elections = elections
        self._brokers = brokers
        self._collections_total = collections_total

    def gateway(self) -> GatewaySummary:
        """Everything but the subscriptions, frozen."""
        brokers = self._brokers.statistics()
        states = Counter(connection.state for connection in brokers.connections)
        return GatewaySummary(
            version=self._version,
            ready=not self._not_ready_because(),
            server=self._server(),
            subscriptions=self._subscriptions.summary(),
            producers=self._elections.summary(),
            broker_connections={state.value: states[state.value] for state in State},
            lookups_total=brokers.lookups_total,
            lookup_failures_total=brokers.lookup_failures_total,
            collections_total=self._collections_total(),
            log_lines_left_out_total=self._log_lines_left_out(),
            journal=NO_JOURNAL if self._journal is None else self._journal.summary(),
            event_topic=self._event_topic,
            certificates=self._certificates(),
        )

    def topics(self) -> Iterator[ElectionSummary]:
        """Each topic that somebody wants for itself alone, as of the moment it is asked for."""
        return self._elections.summaries()

    def groups(self) -> Iterator[GroupSummary]:
        """Each group as of the moment it is asked for."""
        return iter(()) if self._groups is None else self._groups.summaries()

    def subscriptions(self) -> Iterator[SubscriptionSummary]:
        """Each subscription as of the moment it is asked for."""
        return self._subscriptions.summaries()

    def consumers(self) -> Iterator[SubscribedConsumerSummary]:
        """Each consumer of each subscription, by name, as of the moment it is asked for."""
        return self._subscriptions.consumer_summaries()
