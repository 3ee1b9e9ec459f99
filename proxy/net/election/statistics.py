"""Elections as frozen values, for the admin API and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxy.producers.election import Contender
    from proxy.producers.standing import Standing

ACCESS_MODES = ("shared", "exclusive", "wait_for_exclusive", "exclusive_with_fencing")
"""By their number on the wire."""


@dataclass(slots=True)
class ElectionCounters:
    """Counts of one topic, or of all."""

    arrivals_total: int = 0
    """Producers that came to be the only one."""
    promotions_total: int = 0
    """Of those, how often one became the owner."""
    resumptions_total: int = 0
    """How often a former owner resumed with the same epoch, without another owner in between."""
    failed_promotions_total: int = 0
    """How often one that was asked for at the broker did not become the owner: refused, closed, lost."""
    fencings_total: int = 0
    """How often an owner, or a returning one, was displaced by a producer that did not wait (ProducerFenced)."""
    yields_total: int = 0
    """Turns at the broker that were given to a better producer at another replica."""
    vacancy_seconds_total: float = 0.0
    """How long a topic had no owner before one was promoted or resumed, from when the first wanted it; all in all."""

    def count(self, **counts: float) -> None:
        """Add to these, by name."""
        for name, number in counts.items():
            setattr(self, name, getattr(self, name) + number)


@dataclass(frozen=True, slots=True)
class TopicOwner:
    """The topic's only producer."""

    producer_name: str
    access_mode: str
    """One of `ACCESS_MODES`."""
    priority: int | None
    """None for one that did not wait for the topic."""
    topic_epoch: int | None
    """None if the broker named none."""
    since: float
    """On the gateway's clock."""
    address: str
    client_version: str


@dataclass(frozen=True, slots=True)
class WaitingProducer:
    """A waiting producer."""

    position: int
    """How many are before it."""
    producer_name: str
    """Empty if the broker is to name it, and was not asked yet."""
    priority: int
    since: float
    """When it came, on the gateway's clock."""
    stage: str
    """`waiting` here, `asked` or `parked` at the broker, or `withdrawing` from there."""
    returning: bool
    """Whether it is the topic's last owner."""
    address: str
    client_version: str

    @classmethod
    def of(cls, candidacy: Contender[Any], position: int) -> WaitingProducer:
        """Freeze one."""
        producer = candidacy.producer
        return cls(
            position=position,
            producer_name=producer.name,
            priority=producer.priority,
            since=producer.arrived_at,
            stage=candidacy.stage.value,
            returning=candidacy.returning,
            address=producer.address,
            client_version=producer.client_version,
        )


@dataclass(frozen=True, slots=True)
class BestRival:
    """The best of those that wait for the topic at other replicas."""

    replica: str
    priority: int
    returning: bool
    since: float
    """When it came, counted back from when we heard of it; on the gateway's clock."""

    @classmethod
    def of(cls, standing: Standing | None) -> BestRival | None:
        """Freeze one, if there is one."""
        if standing is None:
            return None
        return cls(standing.replica, standing.priority, standing.returning, standing.since)


@dataclass(frozen=True, slots=True)
class ElectionSummary:
    """One topic's election in numbers."""

    topic: str
    now: float
    owner: TopicOwner | None
    """Only owners connected here; None also if a producer connected elsewhere owns the topic."""
    waiting_count: int
    vacant_s: float
    """Time that the topic has had no known owner while producers wait; 0 if it has one."""
    held: str
    """The producers that are held: `nobody`, `newcomers`, `everybody`."""
    rival: BestRival | None
    """None if no other replica announces a waiting producer."""
    outranked: bool
    """Whether no producer is promoted here because the rival is better."""
    counters: ElectionCounters

    @property
    def owned(self) -> bool:
        """Whether there is an owner."""
        return self.owner is not None

    @property
    def rival_known(self) -> bool:
        """Whether another replica announces a waiting producer."""
        return self.rival is not None

    @property
    def owner_priority(self) -> int:
        """The owner's; 0 if there is none, or it did not wait."""
        return 0 if self.owner is None else self.owner.priority or 0

    @property
    def owner_epoch(self) -> int:
        """The topic's epoch that the owner was told; -1 if there is none."""
        return -1 if self.owner is None or self.owner.topic_epoch is None else self.owner.topic_epoch


@dataclass(frozen=True, slots=True)
class ElectionPage:
    """One topic's election with some of those that wait, in order."""

    summary: ElectionSummary
    waiting: tuple[WaitingProducer, ...]
    next: int | None
    """The position at which the next page begins; None if this is the last."""


@dataclass(frozen=True, slots=True)
class ElectionsSummary:
    """All topics in numbers; counts include topics whose elections have ended."""

    topics_count: int
    owners_count: int
    """Topics with an owner connected here."""
    waiting_count: int
    waiting_bytes: int
    """Memory of those that wait."""
    outranked_count: int
    """Topics without promotion here because a better producer waits at another replica."""
    rivals_count: int
    """Topics that other replicas speak of, each counted for each."""
    ignored_total: int
    """What other replicas said and was not understood, or found no room."""
    counters: ElectionCounters


@dataclass(frozen=True, slots=True)
class ElectionsPage:
    """Some topics, by name."""

    summary: ElectionsSummary
    elections: tuple[ElectionSummary, ...]
    next: str | None
    """What to ask the next page `after`; None if this is the last."""
