"""The numbers of `/metrics` as rows instead of text, for the journal.

Histograms have only count and sum: buckets would be three of four rows, and the record of deliveries is more precise.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from admin_api.metrics import families
from admin_api.metrics.exposition import gateway_metrics, gather
from admin_api.turns import Turns

if TYPE_CHECKING:
    from admin_api.metrics.families import Family
    from admin_api.ports_metrics import MetricsView

Labels = list[tuple[str, str]]


class Sample(NamedTuple):
    """One number. Labels that do not apply are None."""

    name: str
    topic: str | None
    subscription: str | None
    worker: str | None
    labels: Labels
    """All others."""
    value: float


async def snapshot(view: MetricsView, workers_max: int) -> list[Sample]:
    """Ask for everything that a scrape shows, Pulsar's names aside; in turns with the messages."""
    turns = Turns()
    scrape = await gather(view, workers_max, turns)
    found = [
        Sample(sample.name, None, None, None, sorted(sample.labels.items()), float(sample.value))
        for metric in gateway_metrics(scrape)
        for sample in metric.samples
    ]
    for level, rows in (
        (families.TOPIC, scrape.topics),
        (families.GROUP, scrape.groups),
        (families.DURATIONS, scrape.subscriptions),
        (families.SUBSCRIPTION, scrape.subscriptions),
        (families.WORKER, scrape.workers),
        (families.BLAMED, scrape.blamed),
    ):
        for row in rows:
            summary = row.summary
            whose = summary.topic, getattr(summary, "subscription", None), _worker(summary)
            found += [
                Sample(name, *whose, labels, value)
                for family in level
                for name, labels, value in _numbers(family, summary)
            ]
            if turns.over:
                await turns.next()
    return found


def _worker(summary: Any) -> str | None:
    worker = getattr(summary, "worker", None)
    return None if worker is None else str(worker.name)


def _numbers(family: Family, summary: Any) -> Iterator[tuple[str, Labels, float]]:
    found = attrgetter(family.source)(summary)
    if family.kind == "histogram":
        yield f"{family.name}_count", [], float(sum(found.counts))
        yield f"{family.name}_sum", [], float(found.sum_s)
    elif family.values:
        for value in family.values:
            yield family.name, [(family.label, value)], float(value == found)
    elif family.label:
        for value, number in found.items():
            yield family.name, [(family.label, value)], float(number)
    else:
        yield family.name, [], float(found)
