"""CONNECT and CONNECTED between a client and its broker: where the client wants to go, and what it may be told.

A client that looked a topic up through us comes back and says in `proxy_to_broker_url` which broker it means. That is
an address chosen by a stranger, to be dialled from inside the network: here it is checked for form, and against the
operator's lists where there are any. Whether it is a broker at all, the cluster says (`broker_names`).

CONNECTED says what the broker can do. A client takes each feature flag as a promise, so only those are passed on that
hold through this gateway: a flag of tomorrow may bring commands that name brokers' addresses, or that we would refuse.

Specification: Pulsar binary protocol, "Connection establishment" and "Proxy".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proxy.errors import ClientError
from proxy.service_url import ServiceUrl, parse_service_url
from proxy.wire import pulsar_pb2 as pb

PROTOCOL_VERSION_MAX: Final = 21
"""The newest protocol version whose commands we know."""

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
    """Read the broker a client asks for in CONNECT; None when it leaves the choice to us.

    `scheme` is how we dial brokers, whatever the client says: it sends only ``host:port``. Raises `ClientError`.
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

    The wish for a broker is taken out: to fulfil it is `relay_route`'s, also where a proxy has to hear of it.
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
