"""Groups of replicas: each replica's share of each subscription, leaders, moving streams."""

from __future__ import annotations

from typing import Final

from dashboards.grafana import NO_LIMIT, Dashboard, Panel, Query, Row, above
from dashboards.panels import lines, stat
from dashboards.promql import SERIES_MAX, SUBSCRIPTION_VARIABLES, rate, subscription

_STREAMS: Final = f"max by (topic, subscription) ({subscription('keyline_group_streams')})"
_LEASED: Final = f"sum by (topic, subscription) ({subscription('keyline_group_streams_leased')})"
_BY_REPLICA: Final = "instance, topic, subscription"
_REPLICA: Final = "{{instance}} {{topic}} {{subscription}}"


def _moved(counter: str) -> str:
    return f"sum({rate(subscription(f'keyline_group_streams_{counter}_total'))})"


_NOW: Final = Row(
    "Now",
    (
        stat(
            "Streams without a replica",
            "Streams without a lease: their keys wait in the broker. A few are normal for a moment while they move.",
            "short",
            above(1, red=4),
            f"sum({_STREAMS} - {_LEASED})",
        ),
        stat(
            "Replicas without a lease",
            "Counted once for each group. Their workers get nothing.",
            "short",
            above(1, red=2),
            f"count({subscription('keyline_group_connected')} == 0) or vector(0)",
        ),
        stat(
            "Shortest lease",
            "Time for which a replica may deliver without a message from its leader. It is renewed every second.",
            "s",
            NO_LIMIT,
            f"min({subscription('keyline_group_lease_left_seconds')})",
        ),
        stat("Groups", "Subscriptions that replicas share.", "short", NO_LIMIT, f"count({_STREAMS})"),
        stat(
            "Leaders",
            "Normally one for each group; otherwise a group has no leader or two.",
            "short",
            NO_LIMIT,
            f"sum({subscription('keyline_group_leading')})",
        ),
        stat(
            "Streams being released",
            "Their workers still have messages of them.",
            "short",
            NO_LIMIT,
            f"sum({subscription('keyline_group_streams_releasing')})",
        ),
    ),
)

_GROUPS: Final = Row(
    "Groups",
    (
        Panel(
            "Replicas",
            "Each replica in each group, now.",
            "short",
            NO_LIMIT,
            tuple(
                Query(f"max by ({_BY_REPLICA}) ({subscription(metric)})", column)
                for column, metric in (
                    ("Streams", "keyline_group_streams_leased"),
                    ("Releasing", "keyline_group_streams_releasing"),
                    ("Lease left", "keyline_group_lease_left_seconds"),
                    ("Leads", "keyline_group_leading"),
                    ("Epoch", "keyline_group_epoch"),
                    ("Workers", "keyline_subscription_workers"),
                )
            ),
            kind="table",
            width=24,
            units=(("Lease left", "s"),),
        ),
        lines(
            "Streams of each replica",
            f"In proportion to its workers. The {SERIES_MAX} highest.",
            "short",
            (_REPLICA, f"topk({SERIES_MAX}, max by ({_BY_REPLICA}) ({subscription('keyline_group_streams_leased')}))"),
        ),
        lines(
            "Leases",
            f"The {SERIES_MAX} that end soonest. A line that falls to 0 is a replica that stops delivering.",
            "s",
            (
                _REPLICA,
                f"bottomk({SERIES_MAX}, min by ({_BY_REPLICA}) ({subscription('keyline_group_lease_left_seconds')}))",
            ),
        ),
    ),
)

_MOVES: Final = Row(
    "Moves",
    (
        lines(
            "Streams that move",
            "Opened here, released, released with unacknowledged messages (redelivered elsewhere).",
            "cps",
            ("opened", _moved("opened")),
            ("released", _moved("released")),
            ("overdue", _moved("overdue")),
        ),
        lines(
            "Refused streams",
            "Attempts to consume a leased stream that the broker refused: a consumer of the replica before, or one "
            "that is in no group, has some of its slots.",
            "cps",
            ("refused", _moved("refused")),
        ),
        lines(
            "Epochs",
            f"They rise with each new leader. The {SERIES_MAX} highest.",
            "short",
            (
                "{{topic}} {{subscription}}",
                f"topk({SERIES_MAX}, max by (topic, subscription) ({subscription('keyline_group_epoch')}))",
            ),
        ),
    ),
)

GROUPS: Final = Dashboard(
    "groups",
    "Keyline / Groups of replicas",
    "Subscriptions that several gateways share: streams, leases, leaders and streams that move between replicas.",
    SUBSCRIPTION_VARIABLES,
    (_NOW, _GROUPS, _MOVES),
)
