"""Frozen views of the way upstream, for the admin API and the metrics."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class State(enum.Enum):
    """Where a connection stands; it only ever moves down this list."""

    CONNECTING = "connecting"
    HANDSHAKE = "handshake"
    READY = "ready"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class BrokerConnectionStatistics:
    """One connection as operators see it."""

    broker: str
    proxy_to_broker_url: str
    state: str
    server_version: str
    consumers: int
    requests_waiting: int
    reading_paused: bool
    unknown_frames_total: int
    unexpected_replies_total: int
    request_timeouts_total: int


@dataclass(frozen=True, slots=True)
class BrokersStatistics:
    """The way upstream as operators see it."""

    service_urls: tuple[str, ...]
    lookups_waiting: int
    lookups_total: int
    lookup_failures_total: int
    connections: tuple[BrokerConnectionStatistics, ...]
