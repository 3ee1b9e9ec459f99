"""All metrics: name, kind, source and help text. `docs/metrics.md` has the same as a table.

Names follow Prometheus: one prefix, then the level (gateway, topic, subscription, worker), base units at the end,
`_total` on counters. Labels are topic, subscription and worker; never a key, for keys have no bound.
"""

from __future__ import annotations

from typing import Final

from admin_api.metrics.deployment_families import DEPLOYMENT
from admin_api.metrics.family import Family, counter, gauge
from admin_api.metrics.gateway_families import GATEWAY as OF_GATEWAY
from admin_api.metrics.subscription_families import (
    DURATIONS,
    NAMESPACE_LABELS,
    SUBSCRIPTION,
    SUBSCRIPTION_LABELS,
    UPSTREAM_STATES,
    Histograms,
)
from admin_api.metrics.worker_families import BLAMED, WORKER, WORKER_LABELS

__all__ = [
    "BLAMED",
    "DURATIONS",
    "GATEWAY",
    "GROUP",
    "NAMESPACE_LABELS",
    "PULSAR_CONSUMER",
    "PULSAR_CONSUMER_LABELS",
    "PULSAR_SUBSCRIPTION",
    "PULSAR_SUBSCRIPTION_LABELS",
    "SUBSCRIPTION",
    "SUBSCRIPTION_LABELS",
    "TOPIC",
    "TOPIC_LABELS",
    "UPSTREAM_STATES",
    "WORKER",
    "WORKER_LABELS",
    "Family",
    "Histograms",
]

GATEWAY: Final = (*OF_GATEWAY, *DEPLOYMENT)
"""Without common labels."""

TOPIC_LABELS: Final = ("topic",)

TOPIC: Final = (
    gauge("keyline_topic_owned", "owned", "1 if a producer connected here owns the topic."),
    gauge(
        "keyline_topic_owner_priority",
        "owner_priority",
        "The owner's priority; 0 if there is no owner, or it did not wait.",
    ),
    gauge("keyline_topic_owner_epoch", "owner_epoch", "The owner's topic epoch; -1 if there is no owner."),
    gauge("keyline_topic_waiting_producers", "waiting_count", "Producers that wait for exclusive access to the topic."),
    gauge(
        "keyline_topic_vacant_seconds",
        "vacant_s",
        "Time that the topic has had no known owner while producers wait; 0 if it has one.",
        unit="seconds",
    ),
    counter(
        "keyline_topic_producer_promotions_total",
        "counters.promotions_total",
        "Times that a waiting producer became the owner, since the topic is tracked here.",
    ),
    counter(
        "keyline_topic_producer_failed_promotions_total",
        "counters.failed_promotions_total",
        "Failed promotions of waiting producers.",
    ),
    counter(
        "keyline_topic_producer_fencings_total",
        "counters.fencings_total",
        "Times that an owner was displaced by a producer that did not wait.",
    ),
    gauge("keyline_topic_rival_known", "rival_known", "1 if a producer is known to wait at another replica."),
    gauge("keyline_topic_outranked", "outranked", "1 while no producer is promoted here because that one is better."),
    counter(
        "keyline_topic_producer_yields_total",
        "counters.yields_total",
        "Turns at the broker that were given to a better producer at another replica.",
    ),
)
"""For each topic that a producer connected here owns exclusively or waits for."""

GROUP: Final = (
    gauge("keyline_group_connected", "connected", "1 while this replica has a lease, 0 while it delivers nothing."),
    gauge(
        "keyline_group_lease_left_seconds",
        "lease_left_s",
        "Time for which it may deliver without a message from the group's leader.",
        unit="seconds",
    ),
    gauge("keyline_group_leading", "leads", "1 if this replica leads the group."),
    gauge("keyline_group_epoch", "epoch_number", "Epoch of the known leader; -1 if none is known."),
    gauge("keyline_group_streams", "streams_count", "Streams of the group; 0 before the first lease."),
    gauge("keyline_group_streams_leased", "streams_here", "Streams leased to this replica."),
    gauge("keyline_group_streams_releasing", "streams_releasing", "Streams that it must release and still has."),
    counter("keyline_group_streams_opened_total", "counters.streams_opened", "Streams that it started to consume."),
    counter("keyline_group_streams_released_total", "counters.streams_released", "Streams that it released."),
    counter(
        "keyline_group_streams_overdue_total",
        "counters.streams_overdue",
        "Of these, streams with unacknowledged messages at the deadline, which are redelivered.",
    ),
    counter(
        "keyline_group_streams_refused_total",
        "counters.streams_refused",
        "Attempts to consume a leased stream that the broker refused.",
    ),
)
"""For each group of this replica; labels are the subscription's."""

PULSAR_SUBSCRIPTION_LABELS: Final = ("namespace", "topic", "subscription")

PULSAR_SUBSCRIPTION: Final = (
    gauge("pulsar_subscription_unacked_messages", "dispatcher.unacked_messages", "Messages that consumers hold."),
    gauge(
        "pulsar_subscription_in_replay",
        "dispatcher.waiting_messages",
        "Messages read from the topic that cannot be sent yet; here they wait in the gateway.",
    ),
    gauge("pulsar_subscription_consumers_count", "dispatcher.workers", "Consumers."),
    counter("pulsar_out_messages_total", "dispatcher.totals.sent_messages", "Messages sent to consumers."),
    counter("pulsar_out_bytes_total", "dispatcher.totals.sent_bytes", "Their bytes.", unit="bytes"),
)
"""Under the broker's names, as far as the gateway knows them: no backlog, which only the broker has, and no rates,
which Prometheus derives from counters."""

PULSAR_CONSUMER_LABELS: Final = ("namespace", "topic", "subscription", "consumer_name")

PULSAR_CONSUMER: Final = (
    gauge("pulsar_consumer_available_permits", "worker.available_permits", "Messages it has asked for."),
    gauge("pulsar_consumer_unacked_messages", "worker.unacked_messages", "Messages that it holds."),
    gauge(
        "pulsar_consumer_blocked_on_unacked_messages",
        "worker.blocked_on_unacked_messages",
        "1 while it is at its unacknowledged limit.",
    ),
)
