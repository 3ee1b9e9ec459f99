"""Overview: health of the gateways, traffic, waiting messages, resources."""

from __future__ import annotations

from typing import Final

from dashboards.grafana import NO_LIMIT, Dashboard, Panel, Query, Row, above
from dashboards.panels import lines, stat, worst
from dashboards.promql import (
    GATEWAY,
    SUBSCRIPTION_VARIABLES,
    gateway,
    gateway_rate,
    quantile,
    rate,
    subscription,
    subscription_rate,
)

BUDGET_USED: Final = f"{gateway('keyline_gateway_held_bytes')} / {gateway('keyline_gateway_memory_limit_bytes')}"
DISPATCH: Final = "keyline_subscription_dispatch_latency_seconds"
ACK: Final = "keyline_subscription_ack_latency_seconds"

_AT_A_GLANCE: Final = Row(
    "At a glance",
    (
        stat(
            "Gateways not ready",
            "Gateways to which no client should be sent now: they stop, or reach no broker. /readyz of each says why.",
            "short",
            above(red=1),
            f"count({gateway('keyline_gateway_ready')}) - sum({gateway('keyline_gateway_ready')})",
        ),
        stat(
            "Subscriptions",
            "Key_Shared subscriptions dispatched by the gateways.",
            "short",
            NO_LIMIT,
            f"sum({gateway('keyline_gateway_subscriptions')})",
        ),
        stat(
            "Workers",
            "Workers of all subscriptions, joined or joining.",
            "short",
            NO_LIMIT,
            f"sum({gateway('keyline_gateway_workers')})",
        ),
        stat(
            "Longest wait",
            "How long the slot has waited that has waited longest. A backlog makes it long too, for a slot waits until "
            "the last of its messages is sent: see Key ordering.",
            "s",
            above(60, red=600),
            f"max({subscription('keyline_subscription_oldest_wait_seconds')})",
        ),
        stat(
            "Memory budget used",
            "Of the gateway that has used most. At 100% it reads nothing from brokers until workers acknowledge.",
            "percentunit",
            above(0.7, red=0.9),
            f"max({BUDGET_USED})",
        ),
        stat(
            "Reading from brokers",
            "Whether a gateway has stopped reading because its memory budget is used up.",
            "short",
            above(red=1),
            f"max({gateway('keyline_gateway_reading_stopped')})",
            texts=((0, "reads", "green"), (1, "stopped", "red")),
        ),
    ),
)

_MESSAGES: Final = Row(
    "Messages",
    (
        lines(
            "Messages",
            "Sent to workers, acknowledged by them, and returned for redelivery.",
            "mps",
            ("sent", subscription_rate("sent_messages")),
            ("acknowledged", subscription_rate("acked_messages")),
            ("given back", subscription_rate("redelivered_messages")),
        ),
        lines(
            "Bytes",
            "Sent to workers on Key_Shared subscriptions, and relayed both ways for everything else.",
            "binBps",
            ("sent to workers", subscription_rate("sent_bytes")),
            ("relayed to clients", gateway_rate("relayed_to_client_bytes")),
            ("relayed to brokers", gateway_rate("relayed_to_broker_bytes")),
        ),
        lines(
            "Dispatch latency",
            "From an entry's arrival to its being written to a worker's socket, at the first attempt. Where workers "
            "have permits, this is what the gateway adds; elsewhere it is the backlog.",
            "s",
            ("median", quantile(0.5, DISPATCH)),
            ("99%", quantile(0.99, DISPATCH)),
            thresholds=above(0.1, red=1),
        ),
        lines(
            "Acknowledgement latency",
            "From a delivery to the acknowledgement of its last message: the workers' time, including their queues.",
            "s",
            ("median", quantile(0.5, ACK)),
            ("99%", quantile(0.99, ACK)),
            thresholds=above(10, red=60),
        ),
    ),
)

_SUBSCRIPTIONS: Final = Row(
    "Subscriptions",
    (
        Panel(
            "Subscriptions",
            "Each subscription now.",
            "short",
            NO_LIMIT,
            tuple(
                Query(f"sum by (topic, subscription) ({series})", column)
                for column, series in (
                    ("Sent", rate(subscription("keyline_subscription_sent_messages_total"))),
                    ("Workers", subscription("keyline_subscription_workers")),
                    ("Waiting", subscription("keyline_subscription_waiting_messages")),
                    ("Longest wait", subscription("keyline_subscription_oldest_wait_seconds")),
                    ("Draining hashes", subscription("keyline_subscription_draining_hashes")),
                    ("Unacknowledged", subscription("keyline_subscription_unacked_messages")),
                )
            ),
            kind="table",
            width=24,
            units=(("Sent", "mps"), ("Longest wait", "s")),
        ),
        worst(
            "Waiting messages",
            "Messages that cannot be sent yet: their key is at another worker, or their worker has no permits.",
            "waiting_messages",
        ),
        worst("Unacknowledged messages", "Messages that workers hold.", "unacked_messages"),
        worst(
            "Oldest unacknowledged delivery",
            "Age of the oldest unacknowledged delivery.",
            "oldest_unacknowledged_seconds",
            unit="s",
        ),
        worst(
            "Look-ahead used",
            "Waiting messages as a share of those that may wait and those that workers ask for. At 100% nothing more "
            "is asked of the broker, and keys behind those that wait are not seen.",
            "look_ahead_used_ratio",
            unit="percentunit",
            thresholds=above(0.8, red=1),
        ),
        worst(
            "Unconfirmed acknowledgements",
            "Entries that workers acknowledged and the broker has not confirmed: they are sent again after a loss.",
            "unconfirmed_acks",
        ),
        Panel(
            "Consumers at the broker",
            "The gateway's own, one for each subscription, by state. Others than ready get nothing.",
            "short",
            NO_LIMIT,
            (Query(f"sum by (state) ({subscription('keyline_subscription_upstream_state')})", "{{state}}"),),
            stacked=True,
        ),
        lines(
            "Subscribed again at the broker",
            "Times that the gateway's consumers subscribed. A broker's restart shows as one for each of its topics.",
            "cps",
            ("subscribed", subscription_rate("upstream_connects")),
        ),
    ),
)

_CONNECTIONS: Final = Row(
    "Connections",
    (
        lines(
            "Client connections",
            "Open connections.",
            "short",
            (GATEWAY, gateway("keyline_gateway_connections")),
            width=8,
        ),
        lines(
            "Connections opened and ended",
            "Ended by cause: bad_frame, unknown_command, bad_flow and similar are protocol errors of clients.",
            "cps",
            ("opened", gateway_rate("connections_opened")),
            ("{{cause}}", f"sum by (cause) ({rate(gateway('keyline_gateway_connections_ended_total'))})"),
            width=8,
        ),
        lines(
            "Refused",
            "At the limit of the gateway, of an address or of a subscription.",
            "cps",
            ("connections", gateway_rate("connections_refused")),
            ("connections of an address", gateway_rate("connections_per_address_refused")),
            ("subscriptions", gateway_rate("subscriptions_refused")),
            ("workers", gateway_rate("workers_refused")),
            ("workers of a subscription", gateway_rate("workers_per_subscription_refused")),
            ("workers of a connection", gateway_rate("workers_per_connection_refused")),
            width=8,
            thresholds=above(red=0.001),
        ),
        Panel(
            "Connections to brokers",
            "The gateway's own, by state.",
            "short",
            NO_LIMIT,
            (Query(f"sum by (state) ({gateway('keyline_gateway_broker_connections')})", "{{state}}"),),
            width=8,
            stacked=True,
        ),
        lines(
            "Lookups and reconnects",
            "Lookups of topics' brokers, failed lookups, and reopened connections of clients to their brokers.",
            "cps",
            ("lookups", gateway_rate("lookups")),
            ("failed", gateway_rate("lookup_failures")),
            ("reconnects", gateway_rate("relay_reconnects")),
            width=8,
        ),
        lines(
            "Frames",
            "From clients, relayed both ways, executed by the gateway itself, and dropped with their connection.",
            "cps",
            ("from clients", gateway_rate("frames_received")),
            ("relayed to brokers", gateway_rate("relayed_to_broker_frames")),
            ("relayed to clients", gateway_rate("relayed_to_client_frames")),
            ("carried out here", gateway_rate("intercepted_commands")),
            ("dropped", gateway_rate("dropped_frames")),
            width=8,
        ),
    ),
)

_PROCESS: Final = Row(
    "Process",
    (
        lines(
            "Memory budget used",
            "Bytes of entries that no worker has acknowledged, as a share of the budget.",
            "percentunit",
            (GATEWAY, BUDGET_USED),
            width=8,
            thresholds=above(0.7, red=0.9),
        ),
        lines(
            "Memory",
            "Resident memory of the process, and the entries held in it.",
            "bytes",
            (f"{GATEWAY} resident", gateway("process_resident_memory_bytes")),
            (f"{GATEWAY} held", gateway("keyline_gateway_held_bytes")),
            width=8,
        ),
        lines(
            "Processor",
            "Share of one core: the gateway's event loop uses one, so 100% is the maximum.",
            "percentunit",
            (GATEWAY, rate(gateway("process_cpu_seconds_total"))),
            width=8,
            thresholds=above(0.7, red=0.9),
        ),
        lines(
            "File descriptors used",
            "As a share of the process's limit. Each connection takes one.",
            "percentunit",
            (GATEWAY, f"{gateway('process_open_fds')} / {gateway('process_max_fds')}"),
            width=8,
            thresholds=above(0.7, red=0.9),
        ),
        lines(
            "Reading stopped",
            "Times that a gateway stopped reading because the memory budget was spent, and that a subscription asked "
            "for nothing because its own was.",
            "cps",
            ("gateways", gateway_rate("reading_stops")),
            ("subscriptions", subscription_rate("budget_stops")),
            width=8,
        ),
        lines(
            "Uptime",
            "Uptime of each process of a gateway.",
            "s",
            (GATEWAY, f"time() - {gateway('process_start_time_seconds')}"),
            width=8,
        ),
    ),
)

_PROCESSES: Final = Row(
    "Several processes on a host",
    (
        Panel(
            "Processes that do not answer",
            "Processes of a host without an answer to a scrape, so that their series are missing above: they start, "
            "stand still or cannot start. Empty for a gateway of one process.",
            "short",
            above(red=1),
            (Query(f"1 - {gateway('keyline_process_up')}", GATEWAY),),
            stacked=True,
        ),
        lines(
            "Restarts",
            "Starts of each process after its first one, since its host started. Empty for a gateway of one process.",
            "short",
            (GATEWAY, gateway("keyline_process_restarts_total")),
        ),
    ),
)

OVERVIEW: Final = Dashboard(
    "overview",
    "Keyline / Overview",
    "Gateways, their traffic, waiting messages and resources.",
    SUBSCRIPTION_VARIABLES,
    (_AT_A_GLANCE, _MESSAGES, _SUBSCRIPTIONS, _CONNECTIONS, _PROCESS, _PROCESSES),
)
