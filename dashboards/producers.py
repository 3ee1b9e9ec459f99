"""Exclusive producers: owners of topics, waiting producers, fail-overs."""

from __future__ import annotations

from typing import Final

from dashboards.grafana import NO_LIMIT, Dashboard, Panel, Query, Row, above
from dashboards.panels import lines, stat
from dashboards.promql import SERIES_MAX, TOPIC_VARIABLES, gateway, gateway_rate, rate, topic

_OWNED: Final = f"{topic('keyline_topic_owned')} == 1"
_PRIORITY: Final = topic("keyline_topic_owner_priority")
_PROMOTED: Final = gateway_rate("producer_promotions")
_RESUMED: Final = gateway_rate("producer_resumptions")

_NOW: Final = Row(
    "Now",
    (
        stat(
            "Longest vacancy",
            "Time that a topic has had no known owner while producers wait. After an unload or a restart of "
            "brokers the former owner has some seconds to come back.",
            "s",
            above(5, red=30),
            f"max({topic('keyline_topic_vacant_seconds')})",
        ),
        stat(
            "Topics",
            "Topics that a producer connected to a gateway owns exclusively or waits for.",
            "short",
            NO_LIMIT,
            f"sum({gateway('keyline_gateway_exclusive_topics')})",
        ),
        stat(
            "Owners",
            "Producers connected to a gateway that own a topic. Others may be connected to brokers directly.",
            "short",
            NO_LIMIT,
            f"sum({gateway('keyline_gateway_exclusive_owners')})",
        ),
        stat(
            "Waiting",
            "Producers that wait to own a topic.",
            "short",
            NO_LIMIT,
            f"sum({gateway('keyline_gateway_waiting_producers')})",
        ),
        stat(
            "Without a standby",
            "Topics with an owner and no waiting producer: if the owner stops, none takes over.",
            "short",
            NO_LIMIT,
            f"count({_OWNED} and {topic('keyline_topic_waiting_producers')} == 0) or vector(0)",
        ),
        stat(
            "Memory of waiting producers",
            "Their requests are held by the gateways; waiting_producers_bytes_max is the bound.",
            "bytes",
            NO_LIMIT,
            f"sum({gateway('keyline_gateway_waiting_producers_bytes')})",
        ),
    ),
)

_TOPICS: Final = Row(
    "Topics",
    (
        Panel(
            "Topics",
            "Each topic as it is now. One that is not owned here and yet not vacant is owned by a producer that is "
            "connected elsewhere.",
            "short",
            NO_LIMIT,
            tuple(
                Query(f"max by (topic) ({topic(metric)})", column)
                for column, metric in (
                    ("Owned here", "keyline_topic_owned"),
                    ("Priority", "keyline_topic_owner_priority"),
                    ("Epoch", "keyline_topic_owner_epoch"),
                    ("Waiting", "keyline_topic_waiting_producers"),
                    ("Vacant for", "keyline_topic_vacant_seconds"),
                    ("Promotions", "keyline_topic_producer_promotions_total"),
                    ("Failed", "keyline_topic_producer_failed_promotions_total"),
                    ("Fencings", "keyline_topic_producer_fencings_total"),
                )
            ),
            kind="table",
            width=24,
            units=(("Vacant for", "s"),),
        ),
        lines(
            "Vacant topics",
            f"Time without an owner while producers wait. The {SERIES_MAX} longest.",
            "s",
            ("{{topic}}", f"topk({SERIES_MAX}, max by (topic) ({topic('keyline_topic_vacant_seconds')}))"),
            thresholds=above(5, red=30),
        ),
        lines(
            "Waiting producers",
            f"The {SERIES_MAX} topics with most waiting producers.",
            "short",
            ("{{topic}}", f"topk({SERIES_MAX}, max by (topic) ({topic('keyline_topic_waiting_producers')}))"),
        ),
        lines(
            "Owners' priorities",
            f"A fall is a fail-over to a producer with a lower priority. The {SERIES_MAX} lowest.",
            "short",
            ("{{topic}}", f"bottomk({SERIES_MAX}, max by (topic) ({_PRIORITY} and {_OWNED}))"),
        ),
        lines(
            "Epochs",
            f"They rise with each new owner, and stay when one comes back. The {SERIES_MAX} highest.",
            "short",
            ("{{topic}}", f"topk({SERIES_MAX}, max by (topic) ({topic('keyline_topic_owner_epoch')}))"),
        ),
    ),
)

_FAIL_OVERS: Final = Row(
    "Fail-overs",
    (
        lines(
            "Arrivals and promotions",
            "Producers that joined a queue, became the owner, or returned as the owner after an unload or a restart.",
            "cps",
            ("arrived", gateway_rate("producer_arrivals")),
            ("promoted", _PROMOTED),
            ("resumed", _RESUMED),
        ),
        lines(
            "Failed promotions and fencings",
            "Those whose turn it was and who did not become the owner: refused by the broker, closed, gone; and those "
            "displaced by a producer that did not wait.",
            "cps",
            ("failed", gateway_rate("producer_failed_promotions")),
            ("fenced", gateway_rate("producer_fencings")),
        ),
        lines(
            "Time without an owner",
            "Seconds that topics had no owner while producers waited, per promotion or resumption.",
            "s",
            ("each", f"{gateway_rate('producer_vacancy_seconds')} / ({_PROMOTED} + {_RESUMED})"),
            thresholds=above(5, red=30),
        ),
        lines(
            "Promotions by topic",
            f"Topics with many promotions have short-lived owners. The {SERIES_MAX} most.",
            "cps",
            (
                "{{topic}}",
                f"topk({SERIES_MAX}, sum by (topic) ({rate(topic('keyline_topic_producer_promotions_total'))}))",
            ),
        ),
    ),
)

PRODUCERS: Final = Dashboard(
    "producers",
    "Keyline / Exclusive producers",
    "Topics with an exclusive producer, their waiting producers, and fail-overs.",
    TOPIC_VARIABLES,
    (_NOW, _TOPICS, _FAIL_OVERS),
)
