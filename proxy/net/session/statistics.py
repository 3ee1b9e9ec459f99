"""What a session counts, and how it ended, as frozen values for whoever shows them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import Final


class EndCause(enum.Enum):
    """Why a client's connection ended; each is counted on its own."""

    CLIENT_LEFT = "client_left"
    SHUT_DOWN = "shut_down"
    HANDSHAKE_TIMEOUT = "handshake_timeout"
    SILENT = "silent"
    READS_NOTHING = "reads_nothing"
    BAD_FRAME = "bad_frame"
    UNKNOWN_COMMAND = "unknown_command"
    NOT_CONNECTED = "not_connected"
    CONNECTED_TWICE = "connected_twice"
    BAD_FLOW = "bad_flow"
    TARGET_REFUSED = "target_refused"
    CERTIFICATE_REFUSED = "certificate_refused"
    CERTIFICATE_EXPIRED = "certificate_expired"
    BROKER_UNREACHABLE = "broker_unreachable"
    BROKER_REFUSED = "broker_refused"
    BROKER_LOST = "broker_lost"


NOT_AT_FAULT: Final = frozenset(
    {
        EndCause.CLIENT_LEFT,
        EndCause.SHUT_DOWN,
        EndCause.TARGET_REFUSED,
        EndCause.BROKER_UNREACHABLE,
        EndCause.BROKER_LOST,
    }
)
"""Ends that clients meet again at each retry, and all at once when a broker goes: counted, but not each logged."""


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
    workers_turned_away_total: int = 0

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
        self.workers_turned_away_total += other.workers_turned_away_total


@dataclass(frozen=True, slots=True)
class RelayStatistics:
    """A client's way to its broker."""

    broker: str
    state: str
    requests_pending: int
    producers: int
    consumers: int
    queued_bytes: int
    redirect_connections: int


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """One client connection."""

    peer: str
    client_version: str
    state: str
    connected_since_s: float
    workers: int
    reading_paused: bool
    relay: RelayStatistics | None
    counters: dict[str, int]


def counts(counters: SessionCounters) -> dict[str, int]:
    """Copy the counts by name."""
    return {field.name: getattr(counters, field.name) for field in fields(counters)}
