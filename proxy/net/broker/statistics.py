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
class BrokersStatistics:
    """The way upstream as operators see it."""

    lookups_total: int
    lookup_failures_total: int
    connections: dict[str, int]
    """By state; every state is there."""
