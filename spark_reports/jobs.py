"""The jobs of a report besides the audit, in the order in which its page shows them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from spark_reports import (
    capacity,
    drains,
    interventions,
    key_skew,
    latency,
    leases,
    metrics_summary,
    occupied,
    redeliveries,
    service,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from spark_reports.span import Span


@dataclass(frozen=True)
class Tables:
    """The journal's rows of the report's time."""

    events: DataFrame
    drains: DataFrame
    redeliveries: DataFrame
    deliveries: DataFrame
    metrics: DataFrame
    metrics_and_before: DataFrame
    """Those of the period before too (`service.with_before`)."""
    span: Span
    window_s: Callable[[], int]
    """How long a step of a plot over time is; returns once the gateways' runs are known."""
    is_small: bool = False
    """Whether what several jobs make of the rows has room in memory."""

    @cached_property
    def held(self) -> DataFrame:
        """What `occupied.holdings` says, which two jobs want several times."""
        found = occupied.holdings(self.deliveries)
        return found.cache() if self.is_small else found

    @cached_property
    def workers(self) -> DataFrame:
        """What `capacity.summary` says, kept: two jobs want it, and it is a row for each worker."""
        return capacity.summary(self.deliveries, self.held).cache()


@dataclass(frozen=True, slots=True)
class Job:
    """One result: a Parquet file of this name, and a table of this title."""

    name: str
    title: str
    build: Callable[[Tables], DataFrame]
    listed: bool = True
    """Whether the page has its rows; else it is there to be drawn."""


@dataclass(frozen=True, slots=True)
class Section:
    """Results that belong together, and the plots above them (see `plots`)."""

    title: str
    text: str
    jobs: tuple[Job, ...]
    plots: tuple[str, ...] = ()


SECTIONS: Final = (
    Section(
        "Service",
        "How each subscription fared by day: rates and mean times, and in brackets how much more or less that is than "
        "on the day before. From the gateways' metrics.",
        (Job("service", "By subscription and day", lambda of: service.by_period(of.metrics_and_before, of.span)),),
    ),
    Section(
        "Hand-overs",
        "A slot that moves to another worker waits until the one that had it has acknowledged what it has (PIP-379). "
        "How long that took, who made others wait, and what each of the longest came from.",
        (
            Job("drains", "By the worker that others waited for", lambda of: drains.summary(of.drains)),
            Job("worst_drains", "The longest with waiting messages", lambda of: drains.worst(of.drains, of.events)),
            Job("drain_timeline", "One by one", lambda of: drains.timeline(of.drains), listed=False),
        ),
        ("drain_timeline",),
    ),
    Section(
        "Keys and workers",
        "How unevenly messages fall on keys, each worker's share of the traffic against its share of the hash space, "
        "and whether another selector or more workers would make them more even.",
        (
            Job("key_gini", "Unevenness", lambda of: key_skew.gini(of.deliveries)),
            Job("key_shares", "Workers", lambda of: key_skew.shares(of.deliveries)),
            Job("key_heavy_hitters", "Keys with most messages", lambda of: key_skew.heavy_hitters(of.deliveries)),
            Job(
                "key_what_if", "With another selector or number of workers", lambda of: key_skew.what_if(of.deliveries)
            ),
            Job("key_curve", "The curve", lambda of: key_skew.curve(of.deliveries), listed=False),
        ),
        ("key_shares", "key_curve"),
    ),
    Section(
        "Latency",
        "Waiting is the time in the gateway, until a message was given to its worker; processing is the worker's time, "
        "until its acknowledgement.",
        (
            Job("latency", "Workers", lambda of: latency.by_consumer(of.deliveries)),
            Job(
                "stragglers",
                "Workers that are much slower than the others",
                lambda of: latency.stragglers(of.deliveries),
            ),
            Job("slowest", "The slowest deliveries", lambda of: latency.slowest(of.deliveries)),
            Job(
                "latency_over_time",
                "Over time",
                lambda of: latency.over_time(of.deliveries, of.window_s()),
                listed=False,
            ),
        ),
        ("latency_over_time",),
    ),
    Section(
        "Redeliveries",
        "Messages that came back from workers, when many did, and which come back again and again.",
        (
            Job("redeliveries", "Workers", lambda of: redeliveries.by_consumer(of.redeliveries)),
            Job("storms", "Storms", lambda of: redeliveries.storms(of.redeliveries)),
            Job("poisoned_keys", "Keys with such messages", lambda of: redeliveries.poisoned_keys(of.deliveries)),
            Job("poisoned", "Messages", lambda of: redeliveries.poisoned(of.deliveries)),
        ),
    ),
    Section(
        "Policies and orders",
        "What was taken from workers, and by what: ack leases that ended, quarantines, dead letters, parked "
        "keys, operators' orders. Messages that a worker had then came again, to it or to others.",
        (Job("interventions", "By cause and worker", lambda of: interventions.by_worker(of.events)),),
    ),
    Section(
        "Capacity",
        "What arrives against what workers get done, and how many would be needed.",
        (
            Job(
                "forecast",
                "Subscriptions",
                lambda of: capacity.forecast(of.deliveries, metrics=of.metrics, workers=of.workers),
            ),
            Job("capacity", "Workers", lambda of: of.workers),
            Job("rates", "Over time", lambda of: capacity.rates(of.deliveries, of.window_s(), of.held), listed=False),
        ),
        ("rates",),
    ),
    Section(
        "Groups of replicas",
        "Leaders, moves of streams between replicas, and times without an owner (EIP-0028). Times of several "
        "machines are compared here: no more exact than their clocks.",
        (
            Job("group_pauses", "Pauses", lambda of: leases.pauses(of.events)),
            Job("group_leaders", "Leaders", lambda of: leases.leaders(of.events)),
            Job("group_moves", "Streams gained and lost", lambda of: leases.moves(of.events)),
            Job("group_changes", "Events", lambda of: leases.changes(of.events)),
        ),
    ),
    Section(
        "Metrics",
        "What the gateways exported of draining hashes, over time.",
        (
            Job("metrics", "By day", lambda of: metrics_summary.by_day(of.metrics), listed=False),
            Job("draining", "Draining hashes", lambda of: metrics_summary.series(of.metrics), listed=False),
        ),
        ("draining",),
    ),
)


def all_jobs() -> list[Job]:
    """In the sections' order."""
    return [job for section in SECTIONS for job in section.jobs]
