"""Counts, logs and publishes what happens to exclusive producers.

Observability only; makes no decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import structlog

from proxy.net.election.statistics import ACCESS_MODES, ElectionCounters, TopicOwner
from proxy.producers.election import Contender, Stage
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.events import Events
    from proxy.net.ports import Clock
    from proxy.producers.standing import Standing

log = structlog.get_logger("keyline.producers")

Candidacy: TypeAlias = Contender["Candidate"]


class Candidate(Protocol):
    """A client's producer in its topic's election."""

    name: str
    """Empty until the broker has named it."""

    candidacy: Candidacy
    """Given by the election when it arrives."""

    @property
    def priority(self) -> int:
        """Highest first."""

    @property
    def topic_epoch(self) -> int | None:
        """Its epoch as a former owner, if it was one."""

    @property
    def arrived_at(self) -> float:
        """Time of its arrival, on the gateway's clock."""

    @property
    def address(self) -> str:
        """Its client's address."""

    @property
    def client_version(self) -> str:
        """Its client's name and version."""

    def ask(self) -> None:
        """Pass its request on."""

    def withdraw(self) -> None:
        """Close it at the broker, without informing its client."""

    def tell_queued(self) -> None:
        """Tell its client that it is not ready."""

    def tell_refused(self, error: int, message: str) -> None:
        """Tell its client that it will never be."""


class AuditLog:
    """The audit log of one topic."""

    def __init__(self, topic: str, clock: Clock, events: Events, totals: ElectionCounters) -> None:
        """Counts are added to `totals` as well."""
        self.counters = ElectionCounters()
        self.owner: TopicOwner | None = None
        """The owner of the topic, if it waited for it."""
        self._key = topic, ""
        self._clock = clock
        self._events = events
        self._totals = totals
        self._vacant_since: float | None = None

    def count(self, **counts: float) -> None:
        """Add to the counters, by name."""
        self.counters.count(**counts)
        self._totals.count(**counts)

    @property
    def vacant_s(self) -> float:
        """Time that the topic has had no known owner while producers wait; 0 if it has one."""
        return 0.0 if self._vacant_since is None else self._clock.now() - self._vacant_since

    def vacant(self, vacant: bool) -> None:  # noqa: FBT001 - one bit of news
        """Whether the topic is vacant now."""
        if not vacant:
            self._vacant_since = None
        elif self._vacant_since is None:
            self._vacant_since = self._clock.now()

    def queued(self, candidate: Candidate, waiting_count: int) -> None:
        """It waits."""
        self._tell("producer_queued", candidate, waiting_count=waiting_count)

    def promoted(
        self, candidate: Candidate, epoch: int | None, vacant_s: float, waiting_count: int, *, resumed: bool
    ) -> None:
        """It owns the topic, for the first time or again, after `vacant_s` without an owner."""
        self.owner = TopicOwner(
            producer_name=candidate.name,
            access_mode=ACCESS_MODES[pb.WaitForExclusive],
            priority=candidate.priority,
            topic_epoch=epoch,
            since=self._clock.now(),
            address=candidate.address,
            client_version=candidate.client_version,
        )
        self.count(promotions_total=not resumed, resumptions_total=resumed, vacancy_seconds_total=vacant_s)
        kind = "producer_resumed" if resumed else "producer_promoted"
        self._events.happened(
            kind, self._key, **_told(self.owner), vacant_s=round(vacant_s, 3), waiting_count=waiting_count
        )
        log.info(
            kind.replace("_", " "),
            topic=self._key[0],
            producer=candidate.name,
            priority=candidate.priority,
            epoch=epoch,
            peer=candidate.address,
            waiting=waiting_count,
        )

    def yielded(self, candidate: Candidate, rival: Standing | None) -> None:
        """It gave its turn at the broker away."""
        self.count(yields_total=1)
        told = {} if rival is None else {"rival_replica": rival.replica, "rival_priority": rival.priority}
        self._tell("producer_yielded", candidate, **told)
        log.info("producer yielded", topic=self._key[0], producer=candidate.name, priority=candidate.priority, **told)

    def taken(self, owner: TopicOwner) -> None:
        """A producer that did not wait owns the topic."""
        self._events.happened("producer_took_topic", self._key, **_told(owner))
        log.info("producer took topic", topic=self._key[0], producer=owner.producer_name, mode=owner.access_mode)

    def given_up(self, owner: TopicOwner) -> None:
        """It no longer owns the topic."""
        facts = _told(owner) | {"reason": "closed, or its connection is gone"}
        self._events.happened("producer_left", self._key, **facts)

    def ended(self, contender: Candidacy, reason: str) -> None:
        """It has left the topic or its queue."""
        candidate = contender.producer
        if contender.stage is Stage.OWNER:
            self.owner = None
            self._tell("producer_left", candidate, reason=reason)
            log.info("producer left", topic=self._key[0], producer=candidate.name, reason=reason)
        elif contender.stage in (Stage.ASKED, Stage.PARKED):
            self.count(failed_promotions_total=1)
            self._tell("producer_promotion_failed", candidate, reason=reason)
            log.info("producer promotion failed", topic=self._key[0], peer=candidate.address, reason=reason)
        else:
            self._tell("producer_left_queue", candidate, reason=reason)

    def _tell(self, kind: str, candidate: Candidate, **facts: Any) -> None:
        known: dict[str, Any] = {
            "producer_name": candidate.name,
            "priority": candidate.priority,
            "address": candidate.address,
        }
        self._events.happened(kind, self._key, **known, **facts)


def _told(owner: TopicOwner) -> dict[str, Any]:
    return {
        "producer_name": owner.producer_name,
        "access_mode": owner.access_mode,
        "priority": owner.priority,
        "topic_epoch": owner.topic_epoch,
        "address": owner.address,
    }
