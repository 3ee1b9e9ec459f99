"""The metrics of the gateway itself, see `families`."""

from __future__ import annotations

from typing import Final

from admin_api.metrics.family import counter, gauge

GATEWAY: Final = (
    gauge("keyline_gateway_ready", "ready", "1 if the gateway is ready for clients, as /readyz."),
    gauge("keyline_gateway_shutting_down", "subscriptions.shutting_down", "1 while the gateway is shutting down."),
    gauge("keyline_gateway_connections", "server.connections", "Open client connections."),
    counter(
        "keyline_gateway_connections_opened_total",
        "server.connections_total",
        "Client connections opened, including refused ones.",
    ),
    gauge(
        "keyline_gateway_tls_handshakes",
        "server.handshakes",
        "Concurrent TLS handshakes of clients; each counts as a connection.",
    ),
    counter(
        "keyline_gateway_tls_handshakes_failed_total",
        "server.handshakes_failed_total",
        "Failed TLS handshakes of clients.",
    ),
    counter(
        "keyline_gateway_connections_refused_total",
        "server.refused_total",
        "Client connections refused at the gateway's limit.",
    ),
    counter(
        "keyline_gateway_connections_per_address_refused_total",
        "server.refused_per_address_total",
        "Client connections refused at the limit of their address.",
    ),
    counter(
        "keyline_gateway_connections_ended_total",
        "server.ended_total",
        "Client connections ended, by cause; bad_frame, unknown_command, bad_flow and similar are refused frames.",
        label="cause",
    ),
    counter("keyline_gateway_frames_received_total", "server.counters.frames_received_total", "Frames from clients."),
    counter(
        "keyline_gateway_received_bytes_total",
        "server.counters.bytes_received_total",
        "Bytes from clients.",
        unit="bytes",
    ),
    counter(
        "keyline_gateway_dropped_frames_total",
        "server.counters.dropped_frames_total",
        "Frames discarded because their connection had closed.",
    ),
    counter(
        "keyline_gateway_intercepted_commands_total",
        "server.counters.intercepted_commands_total",
        "Commands of clients that the gateway executed itself.",
    ),
    counter(
        "keyline_gateway_brokers_asked_for_total",
        "server.counters.targets_asked_total",
        "Lookups by the gateway because a client named an unknown broker.",
    ),
    counter(
        "keyline_gateway_permissions_asked_total",
        "server.counters.permissions_asked_total",
        "Permission checks at brokers for subscribing clients.",
    ),
    counter(
        "keyline_gateway_permissions_denied_total",
        "server.counters.permissions_denied_total",
        "Permission checks that were refused.",
    ),
    counter(
        "keyline_gateway_permissions_revoked_total",
        "server.counters.permissions_revoked_total",
        "Workers closed because their permission was revoked.",
    ),
    counter(
        "keyline_gateway_relayed_to_broker_frames_total",
        "server.counters.relayed_to_broker_frames_total",
        "Frames of clients relayed to brokers unchanged.",
    ),
    counter(
        "keyline_gateway_relayed_to_broker_bytes_total",
        "server.counters.relayed_to_broker_bytes_total",
        "Their bytes.",
        unit="bytes",
    ),
    counter(
        "keyline_gateway_relayed_to_client_frames_total",
        "server.counters.relayed_to_client_frames_total",
        "Frames of brokers relayed to clients unchanged.",
    ),
    counter(
        "keyline_gateway_relayed_to_client_bytes_total",
        "server.counters.relayed_to_client_bytes_total",
        "Their bytes.",
        unit="bytes",
    ),
    counter(
        "keyline_gateway_relay_reconnects_total",
        "server.counters.broker_reconnects_total",
        "Times a client's connection to its broker was reopened.",
    ),
    gauge("keyline_gateway_subscriptions", "subscriptions.subscriptions", "Key_Shared subscriptions dispatched here."),
    counter(
        "keyline_gateway_subscriptions_ended_total", "subscriptions.subscriptions_ended_total", "Subscriptions ended."
    ),
    counter(
        "keyline_gateway_subscriptions_refused_total",
        "subscriptions.subscriptions_refused_total",
        "Subscriptions refused at the gateway's limit.",
    ),
    gauge("keyline_gateway_workers", "subscriptions.workers", "Workers of all subscriptions, joined or joining."),
    counter(
        "keyline_gateway_workers_refused_total",
        "subscriptions.workers_refused_total",
        "Workers refused at the gateway's limit.",
    ),
    counter(
        "keyline_gateway_workers_per_subscription_refused_total",
        "subscriptions.workers_per_subscription_refused_total",
        "Workers refused at the limit of their subscription.",
    ),
    counter(
        "keyline_gateway_workers_per_connection_refused_total",
        "server.counters.workers_refused_total",
        "Workers refused at the limit of their client's connection.",
    ),
    counter(
        "keyline_gateway_slices_cut_total",
        "subscriptions.slices_cut_total",
        "Turns of the event loop in which a client's work exceeded its slice and was continued later.",
    ),
    counter(
        "keyline_gateway_log_lines_left_out_total",
        "log_lines_left_out_total",
        "Log lines omitted at the limit of their event (`log_lines_per_s`).",
    ),
    counter(
        "keyline_gateway_contract_checked_messages_total",
        "subscriptions.contract_checked_messages_total",
        "Deliveries that the contract's monitor judged (`contract_monitor_one_in`).",
    ),
    counter(
        "keyline_gateway_contract_violations_total",
        "subscriptions.contract_violations",
        "Of these, those that broke the contract, also in subscriptions that have ended.",
        label="kind",
    ),
    gauge(
        "keyline_gateway_held_bytes",
        "subscriptions.held_bytes",
        "Memory budget used: bytes of entries that no worker has acknowledged.",
        unit="bytes",
    ),
    gauge(
        "keyline_gateway_memory_limit_bytes",
        "subscriptions.memory_bytes",
        "Memory budget: held bytes above which nothing is read from brokers.",
        unit="bytes",
    ),
    gauge(
        "keyline_gateway_reading_stopped",
        "subscriptions.reading_stopped",
        "1 while nothing is read from brokers because the memory budget is used up.",
    ),
    counter("keyline_gateway_reading_stops_total", "subscriptions.reading_stops", "Times that reading was stopped."),
    gauge(
        "keyline_gateway_broker_connections",
        "broker_connections",
        "The gateway's own connections to brokers, by state.",
        label="state",
    ),
    gauge(
        "keyline_gateway_exclusive_topics",
        "producers.topics_count",
        "Topics that a producer connected here owns exclusively or waits for.",
    ),
    gauge("keyline_gateway_exclusive_owners", "producers.owners_count", "Producers connected here that own a topic."),
    gauge("keyline_gateway_waiting_producers", "producers.waiting_count", "Producers that wait to own a topic."),
    gauge(
        "keyline_gateway_waiting_producers_bytes",
        "producers.waiting_bytes",
        "Memory of waiting producers; see waiting_producers_bytes_max.",
        unit="bytes",
    ),
    counter(
        "keyline_gateway_producer_arrivals_total",
        "producers.counters.arrivals_total",
        "Producers that joined a topic's queue.",
    ),
    counter(
        "keyline_gateway_producer_promotions_total",
        "producers.counters.promotions_total",
        "Times that a waiting producer became its topic's owner.",
    ),
    counter(
        "keyline_gateway_producer_resumptions_total",
        "producers.counters.resumptions_total",
        "Times that a former owner got its topic back, with the same epoch.",
    ),
    counter(
        "keyline_gateway_producer_failed_promotions_total",
        "producers.counters.failed_promotions_total",
        "Failed promotions of waiting producers.",
    ),
    counter(
        "keyline_gateway_producer_fencings_total",
        "producers.counters.fencings_total",
        "Times that an owner was displaced by a producer that did not wait.",
    ),
    counter(
        "keyline_gateway_producer_vacancy_seconds_total",
        "producers.counters.vacancy_seconds_total",
        "Time that topics had no owner while producers waited, until one was promoted or resumed.",
        unit="seconds",
    ),
    counter(
        "keyline_gateway_producer_yields_total",
        "producers.counters.yields_total",
        "Turns at the broker that were given to a better producer at another replica.",
    ),
    gauge(
        "keyline_gateway_outranked_topics",
        "producers.outranked_count",
        "Topics without promotion here because a better producer waits at another replica.",
    ),
    gauge(
        "keyline_gateway_producer_rivals",
        "producers.rivals_count",
        "Topics with waiting producers at other replicas, counted once for each replica.",
    ),
    counter(
        "keyline_gateway_producer_announcements_ignored_total",
        "producers.ignored_total",
        "Announcements of other replicas that were unreadable or exceeded the limit.",
    ),
    counter("keyline_gateway_lookups_total", "lookups_total", "Lookups of topics' brokers."),
    counter("keyline_gateway_lookup_failures_total", "lookup_failures_total", "Failed lookups of topics' brokers."),
    counter(
        "keyline_gateway_garbage_walks_total",
        "collections_total",
        "Full garbage collections after subscriptions ended.",
    ),
    gauge("keyline_gateway_journal_kept", "journal.kept", "1 if this gateway keeps a journal."),
    gauge("keyline_gateway_journal_well", "journal.well", "1 if the journal works, 0 while rows are dropped."),
    counter("keyline_gateway_journal_rows_written_total", "journal.rows_written", "Rows written to the journal."),
    counter(
        "keyline_gateway_journal_rows_dropped_total",
        "journal.rows_dropped",
        "Rows dropped because the disk or the store was too slow, full or unavailable.",
        label="kind",
    ),
    counter(
        "keyline_gateway_journal_messages_unlisted_total",
        "journal.messages_unlisted",
        "Messages delivered without a row of their own: of batches that cannot be cut and have, or claim, more than "
        "4,096.",
    ),
    counter(
        "keyline_gateway_journal_rows_recovered_total",
        "journal.rows_recovered",
        "Rows recovered from unfinished files of a killed gateway with this name.",
    ),
    counter("keyline_gateway_journal_files_published_total", "journal.files_published", "Finished files."),
    counter(
        "keyline_gateway_journal_failures_total",
        "journal.failures",
        "Failed writes and publications.",
    ),
    gauge("keyline_gateway_journal_held_bytes", "journal.held_bytes", "Memory of rows not written yet.", unit="bytes"),
    counter("keyline_gateway_journal_topic_events_sent_total", "event_topic.sent", "Events sent to `journal_topic`."),
    counter(
        "keyline_gateway_journal_topic_events_dropped_total",
        "event_topic.dropped",
        "Events dropped because the broker did not accept them in time.",
    ),
    gauge(
        "keyline_gateway_journal_topic_well",
        "event_topic.well",
        "1 if events reach `journal_topic`, or if it is not set.",
    ),
    counter(
        "keyline_gateway_traces_exported_total",
        "traces.exported_total",
        "Sampled entries whose traces a collector took, or of which their producers wanted none.",
    ),
    counter(
        "keyline_gateway_traces_lost_total",
        "traces.lost",
        "Sampled entries without a trace, by cause: too many followed at once, the queue was full, export failed.",
        label="cause",
    ),
    gauge(
        "keyline_gateway_certificate_expires_timestamp_seconds",
        "certificates.expire_at_s",
        "Expiry of the gateway's own certificate, by the peers that see it; in seconds since 1970.",
        unit="seconds",
        label="certificate",
    ),
    gauge(
        "keyline_gateway_certificates_well",
        "certificates.well",
        "1 if the certificate files were readable at the last check, or if there are none.",
    ),
    counter(
        "keyline_gateway_certificate_reloads_total",
        "certificates.reloads",
        "Times that certificates were reloaded because their files had changed.",
    ),
)
"""Of the gateway; without common labels."""
