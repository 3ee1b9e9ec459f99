"""How the gateway reaches its cluster."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from proxy.config.types import Group, HttpUrl, Name, ServiceUrls, setting


class Broker(Group):
    """The Pulsar cluster behind the gateway."""

    broker_url: ServiceUrls = setting(
        "pulsar://127.0.0.1:6650",
        "Service URL of the brokers or of a Pulsar proxy; several hosts, separated by commas, are tried in turn. The "
        "gateway learns the other brokers from them.",
        takes="pulsar:// or pulsar+ssl://, then host:port[,host:port...]",
    )
    broker_is_proxy: bool = setting(
        default=False,
        description="Whether `broker_url` leads to Pulsar proxies: the gateway then names the target broker to the "
        "proxy.",
    )
    broker_listener_name: Name | None = setting(
        None,
        "Name of the brokers' `advertisedListeners` entry with the addresses that the gateway can reach, for all "
        "lookups, including those of clients. None: the one that belongs to the port at `broker_url`.",
        takes="a name",
    )
    broker_admin_url: HttpUrl = setting(
        "http://127.0.0.1:8080", "Base URL of the brokers' admin API, for the answers that the admin API merges.",
        takes="http:// or https://, then host:port",
    )  # fmt: skip
    broker_token: SecretStr | None = setting(
        None,
        "JSON web token of the gateway itself. It does not replace clients' credentials, which are passed on.",
        takes="a token",
    )
    broker_token_file: Path | None = setting(
        None,
        "File that holds that token; read again at every handshake, so that it can be rotated.",
        takes="the path of a file",
    )
    broker_tls_ca_file: Path | None = setting(
        None,
        "PEM file of the authorities that sign the brokers' certificates; the system's if not set.",
        takes="the path of a file",
    )
    broker_tls_certificate_file: Path | None = setting(
        None,
        "PEM file of the gateway's own certificate, for brokers that require one. Without a token it identifies the "
        "gateway.",
        takes="the path of a file",
    )
    broker_tls_key_file: Path | None = setting(None, "PEM file of its key.", takes="the path of a file")
    upstream_connections_per_broker: int = setting(
        1, "The gateway's own connections to each broker for deliveries, over which its subscriptions are distributed, "
        "and as many for dead letters and parked keys. One more is for lookups and what replicas say to each other, "
        "and one for the election of their leaders.",
        unit="connections", ge=1, le=64,
    )  # fmt: skip
    upstream_request_timeout_s: float = setting(
        30.0, "How long a broker may take to answer a request.", unit="seconds", gt=0, le=600
    )
    reconnect_backoff_initial_ms: int = setting(
        100, "Pause before a lost subscription is reopened; doubled at each failure.",
        unit="milliseconds", ge=1, le=60_000,
    )  # fmt: skip
    reconnect_backoff_max_ms: int = setting(
        30_000, "Longest pause between two attempts.", unit="milliseconds", ge=1, le=600_000
    )
