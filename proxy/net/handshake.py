"""CONNECT and CONNECTED between a client and its broker: the requested broker, and the supported features.

A client that looked a topic up through the gateway reconnects and names its broker in `proxy_to_broker_url`. That is an
untrusted address, to which the gateway would connect from inside the network: here its form is checked, and the
operator's lists. Only the cluster can tell whether it is a broker (`broker.names`).

CONNECTED lists the broker's features. A client relies on each flag, so only flags that hold through this gateway are
passed on: a future flag may bring commands that name brokers' addresses, or that the gateway would refuse.

Specification: Pulsar binary protocol, "Connection establishment" and "Proxy".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proxy.errors import ClientError
from proxy.limits import CLIENT_VERSION_CHARACTERS_MAX
from proxy.service_url import ServiceUrl, parse_service_url
from proxy.shortened import shortened
from proxy.wire import pulsar_pb2 as pb

PROTOCOL_VERSION_MAX: Final = 21
"""The newest supported protocol version."""

FRAME_PADDING_BYTES: Final = 10 * 1024
"""What Pulsar adds to maxMessageSize to get the largest frame."""

HELD_FEATURES: Final = (
    "supports_auth_refresh",
    "supports_broker_entry_metadata",
    "supports_partial_producer",
    "supports_topic_watchers",
    "supports_get_partitioned_metadata_without_auto_creation",
    "supports_repl_dedup_by_lid_and_eid",
    "supports_topic_watcher_reconcile",
)
"""Feature flags that hold end to end. Not held: scalable topics and transaction coordinator discovery, whose updates
carry brokers' addresses and would lead the client past us."""


NOT_ALLOWED: Final = "proxy_to_broker_url: this broker is not among those that the gateway's operator allows"


@dataclass(frozen=True, slots=True)
class TargetPolicy:
    """Which of the cluster's brokers a client may name: a list makes them fewer, and no host a broker."""

    hosts: frozenset[str] | None = None
    """Host names, or ``.suffix`` for all below a domain; None allows all."""

    ports: frozenset[int] | None = None
    """Ports; None allows all."""

    def check(self, url: ServiceUrl) -> None:
        """Raise `ClientError` for a broker that is not on the lists."""
        if self.ports is not None and url.port not in self.ports:
            raise ClientError(NOT_ALLOWED, pb.AuthorizationError)
        if self.hosts is None or url.host in self.hosts:
            return
        if not any(allowed.startswith(".") and url.host.endswith(allowed) for allowed in self.hosts):
            raise ClientError(NOT_ALLOWED, pb.AuthorizationError)


EVERY_BROKER: Final = TargetPolicy()


def requested_broker(connect: pb.CommandConnect, scheme: str, policy: TargetPolicy) -> ServiceUrl | None:
    """Read the broker that a client names in CONNECT; None if it names none.

    `scheme` is the gateway's for brokers; the client sends only ``host:port``. Raises `ClientError`.
    """
    if not connect.proxy_to_broker_url:
        return None
    try:
        url = parse_service_url(connect.proxy_to_broker_url, scheme)
    except ValueError as error:
        message = f"proxy_to_broker_url: {error}"
        raise ClientError(message, pb.NotAllowedError) from error
    policy.check(url)
    return ServiceUrl(scheme, url.host, url.port)


def upstream_connect(connect: pb.CommandConnect) -> pb.CommandConnect:
    """Make what the broker gets: the client's own words, credentials included.

    The wish for a broker is taken out: `relay.route` handles it, also for a proxy.
    """
    forwarded = pb.CommandConnect()
    forwarded.CopyFrom(connect)
    forwarded.ClearField("proxy_to_broker_url")
    return forwarded


def downstream_connected(connected: pb.CommandConnected, max_frame_bytes: int) -> pb.CommandConnected:
    """Make what the client gets: the broker's answer, less what does not hold through us.

    `max_message_size` stays as it is unless frames of that size would be refused here: then the client shall know
    the smaller bound, and refuse one message, rather than lose its connection over it.
    """
    told = pb.CommandConnected()
    told.CopyFrom(connected)
    told.protocol_version = min(connected.protocol_version, PROTOCOL_VERSION_MAX)
    if connected.HasField("max_message_size"):
        told.max_message_size = min(connected.max_message_size, max_frame_bytes - FRAME_PADDING_BYTES)
    if connected.HasField("feature_flags"):
        held = pb.FeatureFlags()
        for name in HELD_FEATURES:
            if connected.feature_flags.HasField(name):
                setattr(held, name, getattr(connected.feature_flags, name))
        told.feature_flags.CopyFrom(held)
    return told


def client_version_of(connect: pb.CommandConnect) -> str:
    """What a client says it is, cut: kept for as long as it is here, and told in log lines and statistics."""
    return shortened(connect.client_version, CLIENT_VERSION_CHARACTERS_MAX)
