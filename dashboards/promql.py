"""Variables of every dashboard, and common PromQL.

The variables are those of the dashboards that Pulsar's users have: cluster, namespace, topic, subscription, with job
and instance for the gateways. `cluster` is a label that a scrape's configuration adds; all of it matches its absence
too. `namespace` is cut from the topic, for the gateway's metrics have no label of it.
"""

from __future__ import annotations

from typing import Final

from dashboards.grafana import Variable

_JOB: Final = 'cluster=~"$cluster", job=~"$job"'
_INSTANCE: Final = f'{_JOB}, instance=~"$instance"'
_NAMESPACE: Final = f'{_INSTANCE}, topic=~".+://($namespace)/[^/]+"'
_TOPIC: Final = f'{_NAMESPACE}, topic=~"$topic"'
_SUBSCRIPTION: Final = f'{_TOPIC}, subscription=~"$subscription"'
_WORKER: Final = f'{_SUBSCRIPTION}, worker=~"$worker"'

GATEWAY_VARIABLES: Final = (
    Variable("cluster", "Cluster", "label_values(keyline_gateway_ready, cluster)", ".*"),
    # All of them by name: everything that Prometheus scrapes has the process_* metrics.
    Variable("job", "Job", 'label_values(keyline_gateway_ready{cluster=~"$cluster"}, job)', None),
    Variable("instance", "Gateway", f"label_values(keyline_gateway_ready{{{_JOB}}}, instance)", ".+"),
)
TOPIC_VARIABLES: Final = (
    *GATEWAY_VARIABLES,
    Variable(
        "namespace",
        "Namespace",
        f"label_values(keyline_topic_owned{{{_INSTANCE}}}, topic)",
        "[^/]+/[^/]+",
        regex=r"/^[^:]+:\/\/([^\/]+\/[^\/]+)\//",
    ),
    Variable("topic", "Topic", f"label_values(keyline_topic_owned{{{_NAMESPACE}}}, topic)", ".+"),
)
SUBSCRIPTION_VARIABLES: Final = (
    *GATEWAY_VARIABLES,
    Variable(
        "namespace",
        "Namespace",
        f"label_values(keyline_subscription_workers{{{_INSTANCE}}}, topic)",
        "[^/]+/[^/]+",
        regex=r"/^[^:]+:\/\/([^\/]+\/[^\/]+)\//",
    ),
    Variable("topic", "Topic", f"label_values(keyline_subscription_workers{{{_NAMESPACE}}}, topic)", ".+"),
    Variable(
        "subscription", "Subscription", f"label_values(keyline_subscription_workers{{{_TOPIC}}}, subscription)", ".+"
    ),
)
WORKER_VARIABLES: Final = (
    *SUBSCRIPTION_VARIABLES,
    Variable("worker", "Worker", f"label_values(keyline_worker_connected{{{_SUBSCRIPTION}}}, worker)", ".+"),
)

GATEWAY: Final = "{{instance}} {{process}}"
"""Legend of a gateway: of several processes on one host each by its number, which is empty where there is one."""
SERIES_MAX: Final = 10
"""Series a panel shows of subscriptions or workers: those with the most. A gateway may have 10,000 subscriptions."""


def gateway(metric: str) -> str:
    """The series of the gateways chosen."""
    return f"{metric}{{{_INSTANCE}}}"


def topic(metric: str) -> str:
    """The series of the topics chosen."""
    return f"{metric}{{{_TOPIC}}}"


def subscription(metric: str) -> str:
    """The series of the subscriptions chosen."""
    return f"{metric}{{{_SUBSCRIPTION}}}"


def worker(metric: str) -> str:
    """The series of the workers chosen."""
    return f"{metric}{{{_WORKER}}}"


def rate(series: str) -> str:
    """What a counter gains in a second."""
    return f"rate({series}[$__rate_interval])"


def gateway_rate(counter: str) -> str:
    """Gain per second of `keyline_gateway_..._total`, over the gateways chosen."""
    return f"sum({rate(gateway(f'keyline_gateway_{counter}_total'))})"


def subscription_sum(gauge: str) -> str:
    """Sum of `keyline_subscription_...` over the subscriptions chosen."""
    return f"sum({subscription(f'keyline_subscription_{gauge}')})"


def subscription_rate(counter: str) -> str:
    """Gain per second of `keyline_subscription_..._total`, over the subscriptions chosen."""
    return f"sum({rate(subscription(f'keyline_subscription_{counter}_total'))})"


def quantile(share: float, histogram: str) -> str:
    """A quantile over the subscriptions chosen, see `buckets`."""
    return f"histogram_quantile({share}, {buckets(histogram, 'rate')})"


def buckets(histogram: str, function: str = "increase") -> str:
    """How many observations fell into each bucket; of all subscriptions where they have no histograms of their own.

    Which is what `metrics_histograms` says: then there is a label `namespace` or none.
    """
    each = subscription(f"{histogram}_bucket")
    together = f'{histogram}_bucket{{{_INSTANCE}, topic="", namespace=~"($namespace)?"}}'
    own, summed = (f"sum by (le) ({function}({series}[$__rate_interval]))" for series in (each, together))
    return f"{own} or {summed}"
