"""Settings of client sessions about the cluster behind the gateway, from the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.net.handshake import EVERY_BROKER, TargetPolicy
from proxy.service_url import ServiceUrl

if TYPE_CHECKING:
    from proxy.net.relay.identity import ProxyRole


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings of every session about the cluster behind the gateway."""

    brokers: tuple[ServiceUrl, ...]
    """Where clients go that name no broker; tried in turn."""

    targets: TargetPolicy = EVERY_BROKER
    """Which of the cluster's brokers clients may name."""

    upstream_is_proxy: bool = False
    """`brokers` are Pulsar proxies: they get the name of the client's broker; the gateway does not connect to it."""

    listener_name: str | None = None
    """Whose addresses clients' lookups ask for; None for those of the listener that was connected to."""

    authorize_workers: bool = True
    """Ask the broker, on the client's own connection, whether it may consume what it subscribes to."""

    authorize_again_s: float = 60.0
    """How often again, for as long as it does; 0 for never."""

    proxy_role: ProxyRole | None = None
    """How the gateway speaks for clients that it knows by their certificates; None if it does not."""

    def __post_init__(self) -> None:
        """Assert what the configuration has checked."""
        assert self.brokers
        # A Pulsar proxy would put the gateway's role in the place of the client's.
        assert self.proxy_role is None or not self.upstream_is_proxy
