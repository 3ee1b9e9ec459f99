"""Client connections in numbers, for metrics: kept apart from sessions so that a reader of numbers knows no session."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """The listener and all its sessions, present and past."""

    accepting: bool
    connections: int
    connections_total: int
    handshakes: int
    """TLS handshakes under way; each takes the place of a connection."""
    handshakes_failed_total: int
    refused_total: int
    refused_per_address_total: int
    ended_total: dict[str, int]
    """Sessions ended, by cause (`session.end_cause.EndCause`); every cause is there."""
    counters: dict[str, int]
    """Sums of `relay.statistics.SessionCounters`."""
