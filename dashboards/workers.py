"""Workers: who is to blame, permits, held messages and traffic of each.

The first two rows are of all workers; the others show as many one by one as `metrics_workers_max` lets them.
"""

from __future__ import annotations

from typing import Final

from dashboards.grafana import NO_LIMIT, Dashboard, Panel, Query, Row, Thresholds, above
from dashboards.panels import lines, stat
from dashboards.promql import (
    SERIES_MAX,
    WORKER_VARIABLES,
    gateway,
    rate,
    subscription,
    subscription_sum,
    worker,
)

LEGEND: Final = "{{worker}} {{subscription}}"
NEEDS: Final = " Of the workers that metrics_workers_max shows."
ENOUGH_ABOVE_ZERO: Final[Thresholds] = (("orange", None), ("green", 1))


def _by_worker(series: str) -> str:
    return f"sum by (topic, subscription, worker) ({series})"


def _workers(title: str, description: str, series: str, *, unit: str = "short") -> Panel:
    """A line for each of the workers that have most."""
    expression = f"topk({SERIES_MAX}, {_by_worker(series)})"
    return lines(title, f"{description} The {SERIES_MAX} highest.{NEEDS}", unit, (LEGEND, expression), width=8)


_SENT: Final = _by_worker(rate(worker("keyline_worker_sent_messages_total")))
_SENT_TO_ALL: Final = f"sum by (topic, subscription) ({rate(subscription('keyline_subscription_sent_messages_total'))})"
_TRAFFIC_SHARE: Final = f"{_SENT} / on (topic, subscription) group_left () ({_SENT_TO_ALL} > 0)"
# The highest and not the sum: gateways that serve one subscription each have a ring of their own.
_HASH_SHARE: Final = f"max by (topic, subscription, worker) ({worker('keyline_worker_hash_space_ratio')})"

_TOGETHER: Final = Row(
    "All workers together",
    (
        stat(
            "Workers shown one by one",
            "Workers that have series of their own, of all there are. Below 100%, raise metrics_workers_max, unless "
            "several workers share a name and so their series.",
            "percentunit",
            (("orange", None), ("green", 0.999)),
            f"sum({gateway('keyline_gateway_workers_shown')}) / (sum({gateway('keyline_gateway_workers')}) > 0)",
        ),
        stat(
            "Permits",
            "Permits of workers: messages asked for and not sent. At 0 the workers are the bottleneck.",
            "short",
            ENOUGH_ABOVE_ZERO,
            subscription_sum("available_permits"),
        ),
        stat(
            "Unacknowledged",
            "Messages that workers hold.",
            "short",
            NO_LIMIT,
            subscription_sum("unacked_messages"),
        ),
        stat(
            "Workers at their limit",
            "Workers that get nothing because they are at their unacknowledged limit.",
            "short",
            above(1),
            subscription_sum("workers_blocked_on_unacked_messages"),
        ),
        stat(
            "Excluded workers",
            "Workers that are connected and get no keys because an operator excluded them, until they are readmitted.",
            "short",
            above(1),
            subscription_sum("excluded_workers"),
        ),
        stat(
            "Quarantined workers",
            "Workers that are connected and get no keys for a time because they lost their ack lease too often.",
            "short",
            above(1),
            subscription_sum("quarantined_workers"),
        ),
    ),
)


def _blamed(metric: str) -> str:
    """Of workers that keep messages from being worked on, which are named whatever metrics_workers_max is."""
    return f"max by (topic, subscription, worker) ({subscription(f'keyline_blamed_worker_{metric}')})"


_TO_BLAME: Final = Row(
    "Workers to blame",
    (
        stat(
            "Stopped workers",
            "Workers that hold messages and have acknowledged none for longer than is usual, or leave their socket "
            "unread. The table names them.",
            "short",
            above(red=1),
            subscription_sum("stopped_workers"),
            width=6,
        ),
        stat(
            "Starved subscriptions",
            "Subscriptions whose workers get nothing because messages for another have filled the look-ahead.",
            "short",
            above(red=1),
            subscription_sum("starved"),
            width=6,
        ),
        stat(
            "Longest wait",
            "Of a hash slot with waiting messages.",
            "s",
            above(30, red=300),
            f"max({subscription('keyline_subscription_oldest_wait_seconds')})",
            width=6,
        ),
        stat(
            "Oldest unacknowledged",
            "Age of the oldest delivery that no worker has acknowledged.",
            "s",
            above(60, red=900),
            f"max({subscription('keyline_subscription_oldest_unacknowledged_seconds')})",
            width=6,
        ),
        Panel(
            "Workers to blame",
            "Workers that keep messages from being worked on, now: at most ten of a subscription. Empty while all is "
            "well. Stopped is 1 for those that have stopped acknowledging or reading.",
            "short",
            NO_LIMIT,
            (
                Query(_blamed("waiting_messages"), "Waiting for it"),
                Query(_blamed("unacked_messages"), "Unacknowledged"),
                Query(_blamed("silent_seconds"), "Silent"),
                Query(_blamed("stopped"), "Stopped"),
            ),
            kind="table",
            width=24,
            units=(("Silent", "s"),),
        ),
    ),
)

_SHARES: Final = Row(
    "Share of the hash space against share of the traffic",
    (
        lines(
            "Traffic by hash space",
            "A worker's share of the messages sent, by its share of the hash space: 1 is fair, 2 is twice its part. "
            f"Far from 1, few keys make most of the traffic. The {SERIES_MAX} highest.{NEEDS}",
            "short",
            (LEGEND, f"topk({SERIES_MAX}, {_TRAFFIC_SHARE} / ({_HASH_SHARE} > 0))"),
            width=8,
            thresholds=above(2, red=4),
        ),
        lines(
            "Share of the hash space",
            f"The ring's share of each worker. The {SERIES_MAX} highest.{NEEDS}",
            "percentunit",
            (LEGEND, f"topk({SERIES_MAX}, {_HASH_SHARE})"),
            width=8,
        ),
        lines(
            "Share of the traffic",
            f"A worker's share of the messages sent on its subscription. The {SERIES_MAX} highest.{NEEDS}",
            "percentunit",
            (LEGEND, f"topk({SERIES_MAX}, {_TRAFFIC_SHARE})"),
            width=8,
        ),
        Panel(
            "Workers",
            f"Each worker now.{NEEDS}",
            "short",
            NO_LIMIT,
            (
                Query(_HASH_SHARE, "Hash space"),
                Query(_TRAFFIC_SHARE, "Traffic"),
                Query(_SENT, "Sent"),
                Query(_by_worker(worker("keyline_worker_available_permits")), "Permits"),
                Query(_by_worker(worker("keyline_worker_unacked_messages")), "Unacknowledged"),
                Query(_by_worker(worker("keyline_worker_draining_hashes")), "Draining hashes"),
            ),
            kind="table",
            width=24,
            units=(("Hash space", "percentunit"), ("Traffic", "percentunit"), ("Sent", "mps")),
        ),
    ),
)

_EACH: Final = Row(
    "Each worker",
    (
        _workers(
            "Permits",
            "Its permits: messages asked for and not sent. At 0 for long, it is slower than its keys.",
            worker("keyline_worker_available_permits"),
        ),
        _workers(
            "Unacknowledged messages",
            "Messages it holds. Level and without acknowledgements, it is stuck.",
            worker("keyline_worker_unacked_messages"),
        ),
        _workers(
            "Oldest unacknowledged delivery",
            "Age of its oldest unacknowledged delivery. It grows while a worker is stuck.",
            worker("keyline_worker_oldest_unacknowledged_seconds"),
            unit="s",
        ),
        _workers(
            "Pending acks",
            "Deliveries it has not acknowledged; a batch may be one.",
            worker("keyline_worker_pending_acks"),
        ),
        _workers(
            "Messages sent to it",
            "At each attempt.",
            rate(worker("keyline_worker_sent_messages_total")),
            unit="mps",
        ),
        _workers(
            "Messages it acknowledged",
            "A message counts once, however often it was sent.",
            rate(worker("keyline_worker_acked_messages_total")),
            unit="mps",
        ),
        _workers(
            "Messages it returned",
            "For redelivery.",
            rate(worker("keyline_worker_redelivered_messages_total")),
            unit="mps",
        ),
        _workers(
            "Bytes sent to it",
            "At each attempt.",
            rate(worker("keyline_worker_sent_bytes_total")),
            unit="binBps",
        ),
        _workers(
            "Slots that drain at it",
            "They moved away, and it still holds their messages.",
            worker("keyline_worker_draining_hashes"),
        ),
        _workers(
            "Slots handed over by it",
            "Slots that stopped draining at it.",
            rate(worker("keyline_worker_draining_hashes_cleared_total")),
            unit="cps",
        ),
        _workers(
            "At its limit",
            "1 while it gets nothing because it holds as many unacknowledged messages as it may.",
            worker("keyline_worker_blocked_on_unacked_messages"),
        ),
        _workers(
            "Unknown acknowledgements",
            "Of messages that it did not hold, mostly late ones.",
            rate(worker("keyline_worker_unknown_acks_total")),
            unit="cps",
        ),
        _workers(
            "Workers with the same name",
            "Above 1 if several share a name, and with it these series.",
            worker("keyline_worker_connected"),
        ),
    ),
)

WORKERS: Final = Dashboard(
    "workers",
    "Keyline / Workers",
    "Who is to blame; permits, held messages and traffic of each worker; its share of the hash space against its share "
    "of the traffic.",
    WORKER_VARIABLES,
    (_TO_BLAME, _TOGETHER, _SHARES, _EACH),
)
