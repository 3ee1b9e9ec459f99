"""Key ordering: hand-overs and their duration, waiting keys, risks for the order."""

from __future__ import annotations

from typing import Final

from dashboards.grafana import NO_LIMIT, Dashboard, Panel, Query, Row, above
from dashboards.panels import lines, stat, worst
from dashboards.promql import (
    SUBSCRIPTION_VARIABLES,
    buckets,
    quantile,
    subscription,
    subscription_rate,
    subscription_sum,
)

HAND_OVER: Final = "keyline_subscription_hand_over_duration_seconds"
BLOCKED: Final = "keyline_subscription_blocked_time_seconds"
LAST_BOUND: Final = " The last bound is 60 s: what takes longer is shown as that."


def _quantiles(title: str, description: str, histogram: str) -> Panel:
    shares = (("median", 0.5), ("90%", 0.9), ("99%", 0.99))
    queries = ((legend, quantile(share, histogram)) for legend, share in shares)
    return lines(title, description + LAST_BOUND, "s", *queries, thresholds=above(10, red=60))


def _heatmap(title: str, description: str, histogram: str) -> Panel:
    return Panel(title, description, "s", NO_LIMIT, (Query(buckets(histogram), "{{le}}"),), kind="heatmap")


_AT_A_GLANCE: Final = Row(
    "At a glance",
    (
        stat(
            "Draining hashes",
            "Slots that moved and are still pending at their former owner. Until then their new owner gets none.",
            "short",
            NO_LIMIT,
            subscription_sum("draining_hashes"),
        ),
        stat(
            "Unacknowledged of them",
            "Deliveries that former owners must acknowledge before those slots flow.",
            "short",
            NO_LIMIT,
            subscription_sum("draining_hashes_unacked_messages"),
        ),
        stat(
            "Waiting slots",
            "Slots with waiting messages: for a hand-over, or because their worker has no permits.",
            "short",
            NO_LIMIT,
            subscription_sum("waiting_slots"),
        ),
        stat(
            "Longest wait",
            "Of a slot, from its first message that had to wait. `keyline stats` names the subscription, "
            "`keyline explain` says what a key waits for.",
            "s",
            above(60, red=600),
            f"max({subscription('keyline_subscription_oldest_wait_seconds')})",
        ),
        stat(
            "Opaque batches",
            "In the time shown. They could not be opened, so order holds for their first key only, unless their "
            "producer batches by key.",
            "short",
            above(red=1),
            f"sum(increase({subscription('keyline_subscription_opaque_batches_total')}[$__range]))",
        ),
        stat(
            "Paused subscriptions",
            "Subscriptions that an operator has paused.",
            "short",
            above(1),
            subscription_sum("paused"),
        ),
    ),
)

_HAND_OVERS: Final = Row(
    "Hand-overs",
    (
        worst(
            "Draining hashes",
            "They come when workers join or leave, and go as the former owners acknowledge. A line that stays level is "
            "a worker that does not.",
            "draining_hashes",
        ),
        worst(
            "Unacknowledged messages of draining hashes",
            "Deliveries that former owners hold of them.",
            "draining_hashes_unacked_messages",
        ),
        _quantiles(
            "Hand-over duration",
            "Time from a membership change until a moved slot had nothing pending at its former owner, per slot.",
            HAND_OVER,
        ),
        _heatmap("Hand-overs by duration", "Number of slots handed over, by duration.", HAND_OVER),
        lines(
            "Slots handed over",
            "Slots that stopped draining.",
            "cps",
            ("handed over", subscription_rate("draining_hashes_cleared")),
        ),
        lines(
            "Workers",
            "Causes of hand-overs: workers that join and leave.",
            "short",
            ("joined", subscription_sum("workers")),
            ("joining", subscription_sum("workers_joining")),
        ),
    ),
)

_WAITING: Final = Row(
    "Waiting",
    (
        _quantiles(
            "Blocked time",
            "Waiting time of a slot, from its first message that had to wait until the last was sent.",
            BLOCKED,
        ),
        _heatmap("Waits by duration", "Number of blocked slots, by duration.", BLOCKED),
        worst(
            "Longest wait", "Of a slot that waits now.", "oldest_wait_seconds", unit="s", thresholds=above(60, red=600)
        ),
        worst("Waiting slots", "Slots with waiting messages.", "waiting_slots"),
        worst("Waiting messages", "Messages that cannot be sent yet.", "waiting_messages"),
        worst("Waiting bytes", "Their bytes.", "waiting_bytes", unit="bytes"),
    ),
)

_RISKS: Final = Row(
    "Risks for the order and exceptions from guarantees",
    (
        lines(
            "Contract broken",
            "Deliveries of watched keys to a second worker, before an earlier message, or twice, as the gateway's own "
            "monitor sees them: none, ever. `contract_monitor_one_in` says how many keys it watches.",
            "short",
            (
                "{{kind}}",
                f"sum by (kind) (increase({subscription('keyline_contract_violations_total')}[$__rate_interval]))",
            ),
            width=8,
            thresholds=above(red=1),
        ),
        lines(
            "Order of keys at risk",
            "Batches that could not be opened (encrypted or too large): order holds for their first key only, unless "
            "their producer batches by key. Entries whose metadata is damaged.",
            "cps",
            ("opaque batches", subscription_rate("opaque_batches")),
            ("unreadable entries", subscription_rate("unreadable_entries")),
            width=8,
            thresholds=above(red=0.001),
        ),
        lines(
            "Permit overshoots",
            "Deliveries larger than a worker's permits, because the entry could not be split.",
            "cps",
            ("overshoots", subscription_rate("permit_overshoots")),
            width=8,
            thresholds=above(0.001),
        ),
        lines(
            "Acknowledgements refused or unknown",
            "Refused: cumulative ones, which Key_Shared does not allow, and those of transactions that the broker or "
            "the gateway refused. Unknown: of what the worker did not hold, late ones mostly.",
            "cps",
            ("refused", subscription_rate("refused_acks")),
            ("unknown", subscription_rate("unknown_acks")),
            width=8,
        ),
        lines(
            "Given back",
            "Share of the messages sent that workers gave back, or left behind, to be delivered once more.",
            "percentunit",
            (
                "given back",
                f"{subscription_rate('redelivered_messages')} / ({subscription_rate('sent_messages')} > 0)",
            ),
            width=8,
            thresholds=above(0.1, red=0.5),
        ),
        lines(
            "Batches of several keys",
            "Batches whose keys have several slots, and the parts in which they were delivered, each to its worker.",
            "cps",
            ("mixed batches", subscription_rate("mixed_batches")),
            ("parts delivered", subscription_rate("sliced_deliveries")),
            width=8,
        ),
        lines(
            "Sent again by the broker",
            "Entries that the broker sent again and the gateway discarded: a worker has or has acknowledged them.",
            "cps",
            ("repeated", subscription_rate("repeated_entries")),
            width=8,
        ),
    ),
)

KEY_ORDERING: Final = Dashboard(
    "key-ordering",
    "Keyline / Key ordering",
    "Hand-overs of keys between workers, keys that wait, and risks for their order.",
    SUBSCRIPTION_VARIABLES,
    (_AT_A_GLANCE, _HAND_OVERS, _WAITING, _RISKS),
)
