"""The admin API's answers besides statistics: frozen values, made in `answers`."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.core.statistics import DrainingHash, WorkerStatistics


@dataclass(frozen=True, slots=True)
class Ring:
    """The whole hash space of a subscription; slots in no range have no owner."""

    hash_space: int
    """Number of slots; with 65,535 the first is 1, else 0."""
    workers: tuple[str, ...]
    """Names, in join order."""
    ranges: tuple[tuple[int, int, int], ...]
    """(first, last, place of the owner in `workers`), ascending."""
    draining_hashes_count: int


@dataclass(frozen=True, slots=True)
class StandingOrders:
    """The active orders of one subscription."""

    topic: str
    subscription: str
    present: bool
    """Whether any of its workers is connected; orders also apply to later ones."""
    paused: bool
    drained: tuple[str, ...]
    """Names of drained workers."""
    excluded: tuple[str, ...]
    """Names of excluded workers."""
    ordering_mode: str | None
    """None means that of the clients or the configuration."""
    limits: dict[str, float]
    """By name; absent ones are the configuration's."""
    replica: str | None
    """Which is to serve it, in owner mode; None for any."""


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """The limits of one subscription, by name."""

    in_effect: dict[str, float]
    configured: dict[str, float]
    """Those of the configuration, or of the workers' consumer properties."""


@dataclass(frozen=True, slots=True)
class DrainingPage:
    """Some of the slots that drain, ascending."""

    now: float
    draining_hashes_count: int
    """All there are, of the subscription or the worker."""
    draining_hashes: tuple[DrainingHash, ...]
    holders: tuple[str, ...]
    """The holder of each of them."""
    next: int | None
    """Value of `after` for the next page; None if this is the last."""


@dataclass(frozen=True, slots=True)
class ConnectedConsumer:
    """A worker, with the further fields that a broker shows."""

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
    """Identifies the gateway's own consumer at the broker."""
    ordering_mode: str
    waiting_messages: int
    consumers: tuple[ConnectedConsumer, ...]
