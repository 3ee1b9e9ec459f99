"""Parameters of a WebSocket worker: plain values that the admin API reads from a URL and the gateway joins with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

OUTSTANDING_MAX: int = 1_000
"""Most messages sent to one WebSocket and not acknowledged; the bound Pulsar's own WebSocket service has."""


@dataclass(frozen=True, slots=True)
class SocketRequest:
    """One worker's parameters, validated."""

    dialect: Literal["v1", "v2"]
    """v2 is Pulsar's, v1 is Keyline's."""
    topic: str
    """With everything before its name; a partitioned one means all its partitions."""
    subscription: str
    peer: str
    """``host:port``."""
    token: str | None = field(default=None, repr=False)
    """For the broker, which authorizes the worker."""
    consumer_name: str = ""
    outstanding_max: int = OUTSTANDING_MAX
    """Most messages sent and not acknowledged."""
    pull: bool = False
    """Send only permitted messages, regardless of unacknowledged ones."""
    earliest: bool = False
    """Where a new subscription begins: with the first message there is, or behind the last."""
    durable: bool = True
    priority_level: int | None = None
    ack_timeout_s: float = 0.0
    """Time without an acknowledgement after which a message is returned; 0 for never."""
    nack_delay_s: float = 60.0
    """Delay before a refused message is returned."""
    encrypted: Literal["FAIL", "DISCARD", "CONSUME"] = "FAIL"
    """Action for a message that a producer encrypted, which the gateway cannot read."""
    redeliveries_max: int | None = None
    """Redeliveries after which a refused message goes to `dead_letter_topic`; None for never."""
    dead_letter_topic: str = ""
    """With everything before its name."""
    binary: bool = False
    """Payloads as they are, behind a JSON header, instead of Base64 within JSON; v1 only."""
