"""What the admin API is answered besides statistics: frozen values. Made in `admin_answers`."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.core.statistics import DrainingHash, WorkerStatistics


@dataclass(frozen=True, slots=True)
class Ring:
    """The whole hash space of a subscription; hashes in no range have no owner."""

    hash_space: int
    """How many hashes there are; with 65,535 the first is 1, else 0."""
    consumers: tuple[str, ...]
    """Names, in join order."""
    ranges: tuple[tuple[int, int, int], ...]
    """(first, last, place of the owner in `consumers`), ascending."""
    draining_hashes_count: int


@dataclass(frozen=True, slots=True)
class StandingOrders:
    """What was ordered of one subscription and not taken back."""

    topic: str
    subscription: str
    present: bool
    """Whether any of its workers is here; orders wait for those that are not."""
    paused: bool
    drained: tuple[str, ...]
    """Names of consumers that get nothing new."""
    ordering_mode: str | None
    """None is what the clients or the configuration say."""
    limits: dict[str, int]
    """By name; what is not named is the configuration's."""


@dataclass(frozen=True, slots=True)
class DrainingPage:
    """Some of the hashes that drain, ascending."""

    now: float
    draining_hashes_count: int
    """All there are, of the subscription or the consumer."""
    draining_hashes: tuple[DrainingHash, ...]
    holders: tuple[str, ...]
    """Who holds each of them."""
    next: int | None
    """What to ask the next page `after`; None if this is the last."""


@dataclass(frozen=True, slots=True)
class ConnectedConsumer:
    """A worker, with what a broker would show of it besides."""

    statistics: WorkerStatistics
    consumer_id: int
    """The client's own number of it."""
    address: str
    client_version: str
    metadata: tuple[tuple[str, str], ...]
    first_sent_at: float


@dataclass(frozen=True, slots=True)
class ConnectedSubscription:
    """A subscription's workers as if they were connected to the broker."""

    topic: str
    subscription: str
    now: float
    replica_name: str
    """By which the gateway's own consumer is found at the broker."""
    ordering_mode: str
    waiting_messages: int
    consumers: tuple[ConnectedConsumer, ...]
