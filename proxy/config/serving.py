"""What the gateway serves, at which addresses, and to whom."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Literal

from pydantic import Field

from proxy.config.types import Group, HostPort, HttpUrl, Name, Names, Ports, setting

NAMES = "names, separated by commas"
PROCESSES_MAX = 64


class Serving(Group):
    """Addresses, name and shutdown of the gateway."""

    listen: HostPort = setting("127.0.0.1:6660", "Address for Pulsar clients.", takes="host:port")
    admin_listen: HostPort = setting(
        "127.0.0.1:8750", "Address of the admin API and the health checks.", takes="host:port"
    )
    admin_read_only: bool = setting(
        default=False,
        description="Refuse every order of the admin API (pause, drain, evict, limits, ...) with 403.",
    )
    admin_writes_to_broker: bool = setting(
        default=False,
        description="Pass requests that change the broker's state (POST, PUT, DELETE below /admin) on to "
        "`broker_admin_url`; if false, refuse them with 405. Reads are always passed on.",
    )
    metrics_workers_max: int = setting(
        200, "Workers with their own metrics, over all subscriptions, 14 series each; 0 for none.",
        unit="workers", ge=0, le=100_000,
    )  # fmt: skip
    metrics_histograms: Literal["subscription", "namespace", "gateway"] = setting(
        "subscription", "What has histograms of latencies and waits of its own: each subscription, which is more than "
        "half of its metrics, each namespace, or the gateway as a whole.",
    )  # fmt: skip
    metrics_pulsar_names: bool = setting(
        default=False,
        description="Also export metrics under the broker's names (`pulsar_subscription_*`, `pulsar_consumer_*`).",
    )
    websocket_workers: bool = setting(
        default=True,
        description="Accept Key_Shared workers on WebSockets too, at `admin_listen`, below /ws.",
    )
    websocket_origins: Names = setting(
        (), "Sites whose pages may open WebSockets from a browser, as `https://host`; `*` for all. Programs and the "
        "gateway's own pages need no entry.",
        takes="origins, separated by commas",
    )  # fmt: skip
    replica_name: Name = Field(
        default_factory=socket.gethostname,
        description="Name of this gateway: its consumers carry it at the brokers. Must differ between replicas.",
        json_schema_extra={"shown_default": "the host's name", "takes": "a printable name"},
        validate_default=True,
    )
    processes: int = setting(
        1, "Processes that serve the addresses above together, as replicas in owner mode on one host: see "
        "[processes](processes.md). 1: one process, alone.",
        unit="processes", ge=1, le=PROCESSES_MAX,
    )  # fmt: skip
    drain_timeout_s: float = setting(
        25.0, "How long a stopping gateway waits for acknowledgements of delivered messages. Keep it below the grace "
        "period of the process manager.",
        unit="seconds", ge=0, le=3600,
    )  # fmt: skip
    allowed_broker_hosts: Names = setting(
        (), "Hosts of brokers that clients may name, among those that the cluster names; `.suffix` allows all below a "
        "domain. None: every broker that the cluster names.",
        takes="names, separated by commas",
    )  # fmt: skip
    allowed_broker_ports: Ports = setting(
        (),
        "Ports of brokers that clients may name, among those that the cluster names. None: all of them.",
        takes="ports from 1 to 65535, separated by commas",
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting("info", "Least severe log lines written.")
    log_format: Literal["json", "console"] = setting("json", "One JSON object per line, or text for people.")
    log_lines_per_s: int = setting(
        10, "Log lines of one event per second, ten times as many in a burst; the next one counts the omitted lines. "
        "Operators' orders are always logged. 0 is no bound.",
        unit="lines", ge=0, le=100_000,
    )  # fmt: skip


class Security(Group):
    """Authentication, authorization and TLS. Certificates are reloaded when their files change."""

    listen_tls: HostPort | None = setting(
        None, "Address for Pulsar clients with TLS (pulsar+ssl), in addition to `listen`.", takes="host:port"
    )
    admin_tls: bool = setting(default=False, description="Serve `admin_listen` only with TLS (https).")
    tls_certificate_file: Path | None = setting(
        None, "PEM file of the certificate for both, with its chain.", takes="the path of a file"
    )
    tls_key_file: Path | None = setting(None, "PEM file of its key.", takes="the path of a file")
    tls_client_ca_file: Path | None = setting(
        None, "PEM file of authorities: each client at `listen_tls` needs a certificate that one of them has signed. "
        "None: clients need no certificate.",
        takes="the path of a file",
    )  # fmt: skip
    proxy_role_token_file: Path | None = setting(
        None,
        "File of the token with which the gateway connects for clients that authenticate by a certificate "
        "(AuthenticationTls); read again at every handshake. Its role must be among the brokers' `proxyRoles`, and "
        "must differ from that of `broker_token`. Without this and the next setting such clients are refused.",
        takes="the path of a file",
    )
    proxy_role_certificate_file: Path | None = setting(
        None,
        "PEM file of the certificate for these connections to brokers. Without a token it determines the role.",
        takes="the path of a file",
    )
    proxy_role_key_file: Path | None = setting(None, "PEM file of its key.", takes="the path of a file")
    admin_token_secret_file: Path | None = setting(
        None,
        "File of the secret that signs the tokens of the admin API's callers, for example the brokers' "
        "`tokenSecretKey`. Without this and the next two settings the admin API has no authentication.",
        takes="the path of a file",
    )
    admin_token_public_key_file: Path | None = setting(
        None, "Or the file of the public key, as the brokers' `tokenPublicKey`.", takes="the path of a file"
    )
    admin_token_jwks_url: HttpUrl | None = setting(
        None,
        "Or the URL at which an identity provider (OIDC) publishes its keys.",
        takes="http:// or https://, host and path",
    )
    admin_token_claim: str = setting("sub", "The token's claim that names the caller.", takes="a name")
    admin_token_audience: str | None = setting(None, "Audience that a token's `aud` must name.", takes="a text")
    admin_token_issuer: str | None = setting(None, "Issuer that a token's `iss` must be.", takes="a text")
    admin_viewers: Names = setting((), "Callers that may read everything; `*` for all with a token.", takes=NAMES)
    admin_operators: Names = setting(
        (), "Callers that may also pause and resume subscriptions, drain, exclude and evict workers.", takes=NAMES
    )
    admin_admins: Names = setting(
        (), "Callers that may also change limits and modes, replay, and pass changes on to the broker.", takes=NAMES
    )
    metrics_open: bool = setting(default=True, description="Serve /metrics without authentication, for scrapers.")
    authorize_workers: bool = setting(
        default=True,
        description="Ask the broker, on each client's own connection, whether it may consume what it subscribes to. "
        "If false, any client that the broker admits may consume everything that the gateway may.",
    )
    authorize_again_s: float = setting(
        60.0, "How often to ask again while the client consumes; a worker that has lost its permission is closed. 0: "
        "never.",
        unit="seconds", ge=0, le=86_400,
    )  # fmt: skip
