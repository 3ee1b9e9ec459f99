"""The metrics of this replica's part in owner mode, see `families`; all 0 in any other mode."""

from __future__ import annotations

from typing import Final

from admin_api.metrics.family import counter, gauge

DEPLOYMENT: Final = (
    gauge("keyline_deployment_leading", "deployment.leads", "1 if this replica leads the deployment."),
    gauge("keyline_deployment_epoch", "deployment.epoch", "Epoch of the last leader; it grows with each change."),
    gauge(
        "keyline_deployment_replicas",
        "deployment.replicas",
        "Replicas of the deployment, by its last record; 1 before the first.",
    ),
    gauge(
        "keyline_deployment_lease_left_seconds",
        "deployment.lease_left_s",
        "Time for which this replica may deliver without a message from the leader.",
        unit="seconds",
    ),
    gauge("keyline_deployment_drained", "deployment.drained", "1 if an operator ordered this replica to own nothing."),
    gauge("keyline_deployment_bundles", "deployment.bundles_here", "Bundles that this replica owns."),
    gauge(
        "keyline_deployment_bundles_leaving", "deployment.bundles_leaving", "Bundles that it releases and still has."
    ),
    gauge(
        "keyline_deployment_bundles_without_owner",
        "deployment.bundles_without_owner",
        "Bundles of the deployment that no replica owns: their subscriptions stand still.",
    ),
    gauge(
        "keyline_deployment_subscriptions", "deployment.subscriptions_here", "Subscriptions that it serves as owner."
    ),
    counter(
        "keyline_deployment_handed_over_total", "deployment.handed_over_total", "Subscriptions that it has handed over."
    ),
    counter(
        "keyline_deployment_handed_over_undrained_total",
        "deployment.handed_over_undrained_total",
        "Of these, those whose workers still held messages, which are delivered again.",
    ),
    gauge(
        "keyline_deployment_legs", "deployment.legs_here", "Open connections that other replicas led here for clients."
    ),
    counter(
        "keyline_deployment_legs_accepted_total",
        "deployment.legs_accepted_total",
        "Connections that proved to be replicas'.",
    ),
    counter(
        "keyline_deployment_legs_received_bytes_total",
        "deployment.legs_received_bytes_total",
        "Bytes from clients of other replicas.",
        unit="bytes",
    ),
    gauge(
        "keyline_deployment_connections_unproven",
        "deployment.connections_unproven",
        "Connections to the replicas' port that have not proved anything yet.",
    ),
    counter(
        "keyline_deployment_connections_refused_total",
        "deployment.connections_refused_total",
        "Connections to the replicas' port that did not prove to be a replica's.",
    ),
)
"""Of one replica; without common labels."""
