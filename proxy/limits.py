"""All bounds of client connections, with names, units and relations.

One frozen value, made from the configuration and passed by argument. A relation that does not hold is a bug of the
caller: the configuration's own checks are narrower and report to the operator.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB

NAME_CHARACTERS_MAX = 1_000
"""Of a name: of a worker or a subscription that a client gives, and of any in a path of the admin API."""

SUBSCRIBE_BYTES_MAX = 1 * MIB
"""Of a worker's SUBSCRIBE without the data of its schema. Room for a hash range of each slot (65,536 of 10 bytes) and
for as many properties as it may have; what brokers keep of a subscription's properties is bounded so, too."""

GREETING_FRAME_BYTES_MAX = 128 * KIB
"""Of a client's frame until its broker has let it in: a stranger's bytes are in no budget. Room for credentials;
Kerberos' largest tickets have 64 KiB."""

TOPIC_CHARACTERS_MAX = 4 * NAME_CHARACTERS_MAX
"""A topic's name has its tenant, cluster and namespace in it."""

CLIENT_VERSION_CHARACTERS_MAX = 256
"""Of what a client says it is, as the gateway keeps it; its broker gets it whole."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the listener, its sessions and their relays."""

    max_frame_bytes: int = 5 * MIB + 64 * KIB
    """Largest frame taken from a client or a broker. Pulsar's is maxMessageSize (5 MiB) and 10 KiB of padding."""

    connections_max: int = 20_000
    """Client connections in all; one more is closed at once."""

    connections_per_address_max: int = 0
    """Client connections from one IP address; 0 is no bound (behind a load balancer all clients share few)."""

    handshakes_max: int = 256
    """TLS handshakes of clients under way at a time: a burst of hellos costs the loop as many signatures at most."""

    workers_per_connection_max: int = 10_000
    """Key_Shared workers on one client connection, joined or joining: an application that consumes as many partitions
    with one client has as many."""

    unread_high_water_bytes: int = 1 * MIB
    """Unread bytes of a peer at which the gateway stops reading data for it."""

    unread_low_water_bytes: int = 256 * KIB
    """Unread bytes at which reading resumes."""

    unread_bytes_max: int = 64 * MIB
    """Unread bytes at which a connection is closed: it sends requests and never reads an answer."""

    queued_while_connecting_bytes: int = 256 * KIB
    """Requests of one client held while its upstream connection is reopened; more are answered with an error."""

    relayed_requests_max: int = 100_000
    """Requests of one client still unanswered by its broker. The Java client allows itself 50,000 lookups."""

    redirects_max: int = 10
    """Brokers asked in turn for one lookup, as many as Pulsar's own proxy."""

    redirect_connections_max: int = 16
    """Connections of one client to brokers that a lookup was redirected to."""

    connect_timeout_s: float = 10.0
    """From the first packet until a connection to a broker is open."""

    handshake_timeout_s: float = 10.0
    """From accepting a client until its CONNECT, and from the gateway's CONNECT until the broker's answer."""

    keep_alive_s: float = 30.0
    """Silence after which a peer is pinged; after twice that time it counts as disconnected."""

    turns_per_s_max: int = 5_000
    """Turns of the event loop a second in which the gateway sends, after a burst; 0 is no bound (`aio.turns`)."""

    def __post_init__(self) -> None:
        """Assert the relations."""
        assert 0 < self.unread_low_water_bytes < self.unread_high_water_bytes < self.unread_bytes_max
        assert self.max_frame_bytes < self.unread_bytes_max, "one frame must not end its own connection"
        assert 0 < self.queued_while_connecting_bytes < self.max_frame_bytes
        assert self.connections_max > 0 < self.handshakes_max
        assert 0 <= self.connections_per_address_max <= self.connections_max
        assert self.workers_per_connection_max > 0
        assert self.relayed_requests_max > 0 < self.redirects_max
        assert self.redirect_connections_max > 0
        assert self.keep_alive_s > 0 < self.connect_timeout_s
        assert self.handshake_timeout_s > 0 <= self.turns_per_s_max
