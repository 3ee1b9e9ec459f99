"""A scrape: gathers numbers from the gateway and writes them as text, alternating with messages.

Each subscription and worker is consistent in itself, but not all are of one moment. The text is written family by
family, as the formats require, and sent while it is made: 1,000 subscriptions take 10 MB.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from prometheus_client import Metric

from admin_api.metrics import families
from admin_api.metrics.formats import Format, Frozen, encoded
from admin_api.metrics.template import Row, Template, empty_metric, escaped, label_text

if TYPE_CHECKING:
    from admin_api.metrics.families import Family, Histograms
    from admin_api.ports_metrics import MetricsView
    from admin_api.turns import Turns

_T = TypeVar("_T")
DURATION_LABELS: Final[dict[Histograms, Sequence[str]]] = {
    "subscription": families.SUBSCRIPTION_LABELS,
    "namespace": families.NAMESPACE_LABELS,
    "gateway": (),
}
ROWS_AT_ONCE: Final = 16
"""Between two looks at the clock; so many histograms take 0.1 ms."""


class Scrape(NamedTuple):
    """Everything that is to be shown."""

    gateway: Any
    topics: list[Row]
    groups: list[Row]
    subscriptions: list[Row]
    durations: list[Row]
    """Whose histograms are shown: subscriptions, namespaces or one of the whole gateway."""
    workers: list[Row]
    blamed: list[Row]
    """Workers that keep messages from being worked on."""


class Level(NamedTuple):
    """Families with the same labels, and what they are told of."""

    families: Sequence[Family]
    labels: Sequence[str]
    rows: list[Row]


class Summed(NamedTuple):
    """Histograms of several subscriptions together."""

    durations: Any


async def gather(view: MetricsView, workers_max: int, turns: Turns, histograms: Histograms = "subscription") -> Scrape:
    """Ask the gateway for everything, with at most `workers_max` workers, and one set of `histograms` for each such."""
    subscriptions = [row async for row in _in_turns(map(_subscription_row, view.subscriptions()), turns)]
    return Scrape(
        view.gateway(),
        [row async for row in _in_turns(map(_topic_row, view.topics()), turns)],
        [row async for row in _in_turns(map(_subscription_row, view.groups()), turns)],
        subscriptions,
        subscriptions if histograms == "subscription" else await _summed(view, histograms, turns),
        [row async for row in _in_turns(map(_worker_row, islice(view.workers(), workers_max)), turns)],
        [_worker_row(blamed) for row in subscriptions for blamed in row.summary.blamed_workers()],
    )


async def _summed(view: MetricsView, histograms: Histograms, turns: Turns) -> list[Row]:
    sums: dict[str, Any] = {}
    for namespace, durations in view.durations(by_namespace=histograms == "namespace"):
        before = sums.get(namespace)
        sums[namespace] = durations if before is None else before + durations
        if turns.over:
            await turns.next()
    return [Row(("", "", escaped(namespace), "", ""), Summed(found)) for namespace, found in sums.items()]


async def exposition(
    scrape: Scrape, form: Format, turns: Turns, *, pulsar_names: bool, histograms: Histograms = "subscription"
) -> AsyncIterator[str]:
    """The gateway's metrics in pieces of text; not the format's end, for others may follow."""
    yield encoded(Frozen(gateway_metrics(scrape)), form)
    await turns.next()
    pieces: list[str] = []
    for level in _levels(scrape, histograms, pulsar_names=pulsar_names):
        text = label_text(level.labels, form)
        rows = [labelled async for labelled in _in_turns(((row, text(*row.label_values)) for row in level.rows), turns)]
        for family in level.families if rows else ():
            template = Template(family, level.labels, level.rows[0].summary, form)
            pieces.append(template.head)
            for start in range(0, len(rows), ROWS_AT_ONCE):
                pieces.append(template.lines(rows[start : start + ROWS_AT_ONCE]))
                if turns.over:
                    yield "".join(pieces)
                    pieces.clear()
                    await turns.next()
    yield "".join(pieces)


def gateway_metrics(scrape: Scrape) -> Iterator[Metric]:
    """Rows without a topic."""
    build = Metric("keyline_build", "The gateway's version, and whether it is compiled.", "info")
    labels = {"version": scrape.gateway.version, "build": scrape.gateway.build}
    build.add_sample("keyline_build_info", labels, 1)
    yield build
    for family in families.GATEWAY:
        metric = empty_metric(family)
        found = scrape.gateway
        for part in family.source.split("."):
            found = found[part] if isinstance(found, dict) else getattr(found, part)
        for value, number in found.items() if family.label else [("", found)]:
            metric.add_sample(family.name, {family.label: value} if family.label else {}, number)
        yield metric
    shown = Metric("keyline_gateway_workers_shown", "Workers that this scrape shows one by one.", "gauge")
    shown.add_sample(shown.name, {}, len(scrape.workers))
    yield shown


async def _in_turns(rows: Iterator[_T], turns: Turns) -> AsyncIterator[_T]:
    for row in rows:
        yield row
        if turns.over:
            await turns.next()


def _topic_row(summary: Any) -> Row:
    return _row(summary, summary.topic, "", "")


def _subscription_row(summary: Any) -> Row:
    return _row(summary, summary.topic, summary.subscription, "")


def _worker_row(summary: Any) -> Row:
    return _row(summary, summary.topic, summary.subscription, summary.worker.name)


def _row(summary: Any, topic: str, subscription: str, worker: str) -> Row:
    values = (topic, subscription, _namespace(topic), worker, worker)
    return Row(tuple(map(escaped, values)), summary)


def _levels(scrape: Scrape, histograms: Histograms, *, pulsar_names: bool) -> Iterator[Level]:
    yield Level(families.TOPIC, families.TOPIC_LABELS, scrape.topics)
    yield Level(families.GROUP, families.SUBSCRIPTION_LABELS, scrape.groups)
    yield Level(families.DURATIONS, DURATION_LABELS[histograms], scrape.durations)
    yield Level(families.SUBSCRIPTION, families.SUBSCRIPTION_LABELS, scrape.subscriptions)
    yield Level(families.WORKER, families.WORKER_LABELS, scrape.workers)
    yield Level(families.BLAMED, families.WORKER_LABELS, scrape.blamed)
    if pulsar_names:
        yield Level(families.PULSAR_SUBSCRIPTION, families.PULSAR_SUBSCRIPTION_LABELS, scrape.subscriptions)
        yield Level(families.PULSAR_CONSUMER, families.PULSAR_CONSUMER_LABELS, scrape.workers)


def _namespace(topic: str) -> str:
    """``tenant/namespace`` of a full topic name."""
    return topic.partition("://")[2].rpartition("/")[0]
