"""The faults of one direction of a network, as a value; the default has none."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Direction(enum.Enum):
    """Which way bytes go."""

    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


@dataclass(frozen=True, slots=True)
class Conditions:
    """Of one direction, for every connection alike, those that stand and those to come."""

    delay_ms: float = 0.0
    """Added to the way of every byte; what is under way is bounded, so a long delay costs throughput too."""
    jitter_ms: float = 0.0
    """At most so much more, drawn anew for every piece. Order is kept, as TCP keeps it."""
    bytes_per_s: float | None = None
    """Of each connection; None is no bound."""
    stalled: bool = False
    """Connections stand and are accepted, and nothing moves: buffers fill, and neither end is told."""

    def __post_init__(self) -> None:
        """Assert what makes sense."""
        assert self.delay_ms >= 0 <= self.jitter_ms
        assert self.bytes_per_s is None or self.bytes_per_s > 0


HEALTHY = Conditions()
