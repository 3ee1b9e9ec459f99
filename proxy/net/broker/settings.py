"""Settings and credentials of a broker connection.

The gateway connects to brokers with its own credentials (its clients' credentials go through the relay). They are read
again at every handshake and every challenge, because a token file is rotated under a running process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from proxy.errors import ConfigurationError

PROTOCOL_VERSION = 21
"""Pulsar's v21: broker entry metadata, acknowledgement receipts, negative acks by batch index."""

TOKEN_METHOD = "token"  # noqa: S105 - the name of an authentication method, not a secret

CERTIFICATE_METHOD = "tls"


@dataclass(frozen=True, slots=True)
class Credentials:
    """One authentication method and its data, which never shows in a repr."""

    method: str
    data: bytes = field(repr=False)


CredentialsProvider = Callable[[], Credentials | None]
"""Gives today's credentials, or None for none; raises `ConfigurationError` when they cannot be had."""


def no_credentials() -> Credentials | None:
    """For a broker without authentication."""
    return None


def certificate_credentials() -> Credentials | None:
    """For a broker that takes the certificate of the connection."""
    return Credentials(CERTIFICATE_METHOD, b"")


def token_credentials(token: str) -> CredentialsProvider:
    """Give the same token every time."""
    credentials = Credentials(TOKEN_METHOD, token.strip().encode())
    return lambda: credentials


def token_file_credentials(path: Path) -> CredentialsProvider:
    """Read the token from a file every time, so that a rotated secret is used without a restart.

    The read blocks; it is one small local file per handshake.
    """

    def provide() -> Credentials:
        try:
            token = path.read_bytes().strip()
        except OSError as error:
            message = f"the broker token file {path} cannot be read: {error.strerror}"
            raise ConfigurationError(message) from error
        if not token:
            message = f"the broker token file {path} is empty; it should hold one token"
            raise ConfigurationError(message)
        return Credentials(TOKEN_METHOD, token)

    return provide


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings of every connection of the gateway's own to a broker."""

    service_urls: tuple[str, ...]
    """Where lookups start; tried in turn."""

    client_version: str
    """What the gateway calls itself in CONNECT, e.g. ``Keyline-v0.1.0``."""

    credentials: CredentialsProvider = no_credentials

    connections_per_broker: int = 1
    """Consumers are dealt to them in turn."""

    max_frame_bytes: int = 5 * 1024 * 1024 + 10 * 1024
    """A larger frame from the broker ends the connection: memory is bounded (G7)."""

    connect_timeout_s: float = 10.0
    """From the first packet to CONNECTED."""

    request_timeout_s: float = 30.0

    keep_alive_s: float = 30.0
    """Silence after which a PING goes out; twice as much and the connection counts as dead."""

    listener_name: str | None = None
    """Whose addresses lookups ask for; None for those of the listener that was connected to."""

    lookups_max: int = 5_000
    """Topics looked up at one time, as many as the Java client allows itself."""

    def __post_init__(self) -> None:
        """Check what no operator should ever see: the configuration's own bounds are narrower."""
        assert self.service_urls
        assert self.connections_per_broker >= 1
        assert self.keep_alive_s > 0 < self.request_timeout_s


@dataclass(frozen=True, slots=True)
class BrokerTarget:
    """Which broker a connection is for, and so the key of the pool."""

    service_url: str
    """Where the TCP connection goes, as ``pulsar://host:port``."""

    proxy_to_broker_url: str = ""
    """The ``host:port`` a Pulsar proxy in between shall forward to; empty without a proxy."""

    def __str__(self) -> str:
        """As the logs name it."""
        via = f" (for {self.proxy_to_broker_url})" if self.proxy_to_broker_url else ""
        return f"{self.service_url}{via}"
