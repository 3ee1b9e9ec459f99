"""This gateway's metrics. Implements `admin_api.ports_metrics.MetricsView` over the parts that count.

A scrape must not block the event loop for all subscriptions at once, so these and their workers are given one by one:
the caller lets other work run in between, and each is consistent in itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.journal.summary import NO_JOURNAL, JournalSummary, TopicSummary
from proxy.tracing.summary import NO_TRACES, TracesSummary
from proxy.views.deployment import NO_DEPLOYMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy.journal.service import JournalService
    from proxy.net.broker.directory import Brokers
    from proxy.net.election.elections import ProducerElections
    from proxy.net.election.statistics import ElectionsSummary, ElectionSummary
    from proxy.net.group.groups import Groups
    from proxy.net.group.views import GroupSummary
    from proxy.net.server_statistics import ServerStatistics
    from proxy.net.subscription.directory import Subscriptions
    from proxy.net.subscription.durations import Durations
    from proxy.net.subscription.summary import SubscribedWorkerSummary, SubscriptionsSummary, SubscriptionSummary
    from proxy.tracing.service import TracingService
    from proxy.views.deployment import DeploymentSummary


@dataclass(frozen=True, slots=True)
class GatewaySummary:
    """The gateway's numbers, without its subscriptions."""

    version: str
    build: str
    """Whether compiled modules run."""
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
    deployment: DeploymentSummary
    traces: TracesSummary


@dataclass(frozen=True, slots=True)
class CertificatesSummary:
    """The gateway's own certificates, and its trusted authorities."""

    expire_at_s: dict[str, float]
    """By the peers that see it, `clients` or `brokers`; in seconds since 1970."""
    well: bool
    reloads: int


NO_CERTIFICATES: Final = CertificatesSummary({}, well=True, reloads=0)


class MetricsSource:
    """The parts of one gateway that count something."""

    def __init__(
        self,
        version: str,
        build: str,
        not_ready_because: Callable[[], Sequence[str]],
        server: Callable[[], ServerStatistics],
        subscriptions: Subscriptions,
        elections: ProducerElections,
        brokers: Brokers,
        collections_total: Callable[[], int],
        groups: Groups | None = None,
        journal: JournalService | None = None,
        event_topic: TopicSummary | None = None,
        certificates: Callable[[], CertificatesSummary] = lambda: NO_CERTIFICATES,
        log_lines_left_out: Callable[[], int] = lambda: 0,
        deployment: Callable[[], DeploymentSummary] = lambda: NO_DEPLOYMENT,
        tracing: TracingService | None = None,
    ) -> None:
        """All parts of one gateway; `groups` and `journal` are None if they are not enabled.

        The publisher of events updates `event_topic`.
        """
        self._certificates = certificates
        self._deployment = deployment
        self._tracing = tracing
        self._log_lines_left_out = log_lines_left_out
        self._journal = journal
        self._event_topic = event_topic or TopicSummary()
        self._groups = groups
        self._version = version
        self._build = build
        self._not_ready_because = not_ready_because
        self._server = server
        self._subscriptions = subscriptions
        self._elections = elections
        self._brokers = brokers
        self._collections_total = collections_total

    def gateway(self) -> GatewaySummary:
        """Everything but the subscriptions, frozen."""
        brokers = self._brokers.statistics()
        return GatewaySummary(
            version=self._version,
            build=self._build,
            ready=not self._not_ready_because(),
            server=self._server(),
            subscriptions=self._subscriptions.summary(),
            producers=self._elections.summary(),
            broker_connections=brokers.connections,
            lookups_total=brokers.lookups_total,
            lookup_failures_total=brokers.lookup_failures_total,
            collections_total=self._collections_total(),
            log_lines_left_out_total=self._log_lines_left_out(),
            journal=NO_JOURNAL if self._journal is None else self._journal.summary(),
            event_topic=self._event_topic,
            certificates=self._certificates(),
            deployment=self._deployment(),
            traces=NO_TRACES if self._tracing is None else self._tracing.summary(),
        )

    def topics(self) -> Iterator[ElectionSummary]:
        """Each topic with exclusive producers, as of the moment of its iteration."""
        return self._elections.summaries()

    def groups(self) -> Iterator[GroupSummary]:
        """Each group as of the moment of its iteration."""
        return iter(()) if self._groups is None else self._groups.summaries()

    def subscriptions(self) -> Iterator[SubscriptionSummary]:
        """Each subscription as of the moment of its iteration."""
        return self._subscriptions.summaries()

    def durations(self, *, by_namespace: bool) -> Iterator[tuple[str, Durations]]:
        """Histograms of each subscription that is or was here, to be added up by what stands before them."""
        return self._subscriptions.durations(by_namespace=by_namespace)

    def workers(self) -> Iterator[SubscribedWorkerSummary]:
        """Each worker of each subscription, by name, as of the moment of its iteration."""
        return self._subscriptions.worker_summaries()
