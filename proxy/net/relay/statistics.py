"""What passes between a client and its broker, counted: by the session that owns the counts, and by its relay."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class SessionCounters:
    """Counts of one session; its owner raises them, others get copies."""

    frames_received_total: int = 0
    bytes_received_total: int = 0
    relayed_to_broker_frames_total: int = 0
    relayed_to_broker_bytes_total: int = 0
    relayed_to_client_frames_total: int = 0
    relayed_to_client_bytes_total: int = 0
    intercepted_commands_total: int = 0
    lookups_rewritten_total: int = 0
    lookup_redirects_total: int = 0
    broker_reconnects_total: int = 0
    targets_asked_total: int = 0
    dropped_frames_total: int = 0
    permissions_asked_total: int = 0
    permissions_denied_total: int = 0
    permissions_revoked_total: int = 0
    workers_refused_total: int = 0

    def add(self, other: SessionCounters) -> None:
        """Add another session's counts to these. Spelt out: a scrape adds up thousands of sessions in one turn."""
        self.frames_received_total += other.frames_received_total
        self.bytes_received_total += other.bytes_received_total
        self.relayed_to_broker_frames_total += other.relayed_to_broker_frames_total
        self.relayed_to_broker_bytes_total += other.relayed_to_broker_bytes_total
        self.relayed_to_client_frames_total += other.relayed_to_client_frames_total
        self.relayed_to_client_bytes_total += other.relayed_to_client_bytes_total
        self.intercepted_commands_total += other.intercepted_commands_total
        self.lookups_rewritten_total += other.lookups_rewritten_total
        self.lookup_redirects_total += other.lookup_redirects_total
        self.broker_reconnects_total += other.broker_reconnects_total
        self.targets_asked_total += other.targets_asked_total
        self.dropped_frames_total += other.dropped_frames_total
        self.permissions_asked_total += other.permissions_asked_total
        self.permissions_denied_total += other.permissions_denied_total
        self.permissions_revoked_total += other.permissions_revoked_total
        self.workers_refused_total += other.workers_refused_total


def counts(counters: SessionCounters) -> dict[str, int]:
    """Copy the counts by name."""
    return {field.name: getattr(counters, field.name) for field in fields(counters)}
