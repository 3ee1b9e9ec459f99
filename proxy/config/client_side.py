"""Bounds of client connections."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ByteSize, field_validator

from proxy.config.types import Group, setting
from proxy.limits import Limits

TURNS_PER_S_MIN: Final = 100
"""Of those that may be set: fewer would be a gateway that pauses for more than 10 ms at a time."""

_LIMITS = Limits()


def _limit(name: str, description: str, unit: str, **bounds: Any) -> Any:
    """Declare a setting whose default is that of `Limits`."""
    return setting(getattr(_LIMITS, name), description, unit=unit, **bounds)


class ClientSide(Group):
    """Bounds of client connections; names and defaults are those of `proxy.limits.Limits`."""

    max_frame_bytes: ByteSize = _limit(
        "max_frame_bytes", "Largest frame taken from a client or a broker: the brokers' maxMessageSize and 10 KiB.",
        "bytes", ge=64 * 1024, le=1 << 30,
    )  # fmt: skip
    connections_max: int = _limit(
        "connections_max", "Client connections in all; one more is closed at once.", "connections", ge=1, le=1_000_000
    )
    connections_per_address_max: int = _limit(
        "connections_per_address_max", "Client connections from one IP address; 0 is no bound.",
        "connections", ge=0, le=1_000_000,
    )  # fmt: skip
    handshakes_max: int = _limit(
        "handshakes_max", "Concurrent TLS handshakes of clients; others wait, and a handshake that takes more than a "
        "second gives way to them. Each also counts as a connection.",
        "handshakes", ge=1, le=100_000,
    )  # fmt: skip
    workers_per_connection_max: int = _limit(
        "workers_per_connection_max",
        "Workers on one client connection; one more is refused with ConsumerBusy. A client has one worker for each "
        "partition that it consumes.",
        "workers", ge=1, le=1_000_000,
    )  # fmt: skip
    unread_high_water_bytes: ByteSize = _limit(
        "unread_high_water_bytes", "Unread bytes of a peer at which the gateway stops reading for it.",
        "bytes", ge=4096, le=1 << 30,
    )  # fmt: skip
    unread_low_water_bytes: ByteSize = _limit(
        "unread_low_water_bytes", "Unread bytes at which reading resumes.", "bytes", ge=1024, le=1 << 30
    )
    unread_bytes_max: ByteSize = _limit(
        "unread_bytes_max", "Unread bytes at which a connection is closed.", "bytes", ge=64 * 1024, le=1 << 32
    )
    queued_while_connecting_bytes: ByteSize = _limit(
        "queued_while_connecting_bytes", "Requests of one client held while its upstream connection is reopened.",
        "bytes", ge=1024, le=1 << 30,
    )  # fmt: skip
    relayed_requests_max: int = _limit(
        "relayed_requests_max",
        "Unanswered requests of one client at its broker, and as many at the owners of its subscriptions.",
        "requests",
        ge=1,
        le=10_000_000,
    )
    redirects_max: int = _limit("redirects_max", "Brokers asked in turn for one lookup.", "brokers", ge=1, le=100)
    redirect_connections_max: int = _limit(
        "redirect_connections_max", "Connections of one client to brokers after lookup redirects.",
        "connections", ge=1, le=1000,
    )  # fmt: skip
    connect_timeout_s: float = _limit(
        "connect_timeout_s", "How long a connection to a broker may take to open.", "seconds", gt=0, le=600
    )
    handshake_timeout_s: float = _limit(
        "handshake_timeout_s", "How long a client's CONNECT, or a broker's answer to the gateway's, may take.",
        "seconds", gt=0, le=600,
    )  # fmt: skip
    keep_alive_s: float = _limit(
        "keep_alive_s", "Silence after which a peer is pinged; after twice this time it counts as disconnected.",
        "seconds", ge=1, le=3600,
    )  # fmt: skip
    turns_per_s_max: int = _limit(
        "turns_per_s_max", "Turns of the event loop per second in which the gateway sends, after a burst of 64. "
        "Meanwhile messages gather, which costs the gateway, brokers and clients less CPU. 5,000 delays a message by "
        "at most 0.2 ms in each turn that it takes: one to be passed on, two to reach a worker. 0 is no bound.",
        "turns", ge=0, le=1_000_000, takes=f"0, or a whole number from {TURNS_PER_S_MIN} to 1,000,000 (turns)",
    )  # fmt: skip

    @field_validator("turns_per_s_max")
    @classmethod
    def _no_standstill(cls, turns: int) -> int:
        if 0 < turns < TURNS_PER_S_MIN:
            raise ValueError(
                f"must be 0, or from {TURNS_PER_S_MIN}: between two turns the gateway serves no one, here for "
                f"{1000 // turns} ms"
            )
        return turns
