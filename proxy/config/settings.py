"""Everything an operator can set, parsed once into frozen models and passed by argument.

Each setting has one name: `broker_url` in the file, ``KEYLINE_BROKER_URL`` in the environment, which overrides the
file. The groups below order the documentation and the code that receives them; they are not part of the name, so a
Helm chart can pass any setting without knowing where it lives.

A relation between two settings is a row in `RELATIONS`, so that both are named when it does not hold.
"""

from __future__ import annotations

import operator
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ByteSize, Field, SecretStr

from proxy.config.types import (
    Group,
    HostPort,
    HttpUrl,
    JournalPlace,
    Name,
    Names,
    Namespace,
    Ports,
    ServiceUrls,
    Topic,
    setting,
)
from proxy.groups.streams import STREAMS_MAX
from proxy.limits import MIB, Limits

ENVIRONMENT_PREFIX = "KEYLINE_"

_LIMITS = Limits()
NAMES = "names, separated by commas"
_WEEK_S = 7 * 24 * 3600


class Broker(Group):
    """The Pulsar cluster behind the gateway."""

    broker_url: ServiceUrls = setting(
        "pulsar://127.0.0.1:6650",
        "Service URL of the brokers or of a Pulsar proxy; several hosts, separated by commas, are tried in turn. Which "
        "other brokers there are, these say.",
        takes="pulsar:// or pulsar+ssl://, then host:port[,host:port...]",
    )
    broker_is_proxy: bool = setting(
        default=False,
        description="Whether `broker_url` leads to Pulsar proxies: they are told which broker a client means.",
    )
    broker_listener_name: Name | None = setting(
        None,
        "Which of the brokers' `advertisedListeners` has the addresses that the gateway reaches, for all lookups, "
        "clients' too. None: the one that belongs to the port at `broker_url`.",
        takes="a name",
    )
    broker_admin_url: HttpUrl = setting(
        "http://127.0.0.1:8080", "Base URL of the brokers' admin API, for what the admin API merges into its answers.",
        takes="http:// or https://, then host:port",
    )  # fmt: skip
    broker_token: SecretStr | None = setting(
        None,
        "JSON web token of the gateway itself. Clients' own credentials are passed on, not replaced by it.",
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
        "PEM file of the gateway's own certificate, for brokers that want one. Without a token it says who the gateway "
        "is.",
        takes="the path of a file",
    )
    broker_tls_key_file: Path | None = setting(None, "PEM file of its key.", takes="the path of a file")
    upstream_connections_per_broker: int = setting(
        1, "The gateway's own connections to each broker; its subscriptions are dealt to them.",
        unit="connections", ge=1, le=64,
    )  # fmt: skip
    upstream_request_timeout_s: float = setting(
        30.0, "How long a broker may take to answer a request.", unit="seconds", gt=0, le=600
    )
    reconnect_backoff_initial_ms: int = setting(
        100, "Pause before a lost subscription is opened again; doubled at each failure.",
        unit="milliseconds", ge=1, le=60_000,
    )  # fmt: skip
    reconnect_backoff_max_ms: int = setting(
        30_000, "Longest pause between two attempts.", unit="milliseconds", ge=1, le=600_000
    )


class Serving(Group):
    """Where the gateway listens, who it is, how it stops."""

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
        description="Pass what would change something at the broker (POST, PUT, DELETE below /admin) on to "
        "`broker_admin_url`; if false it is refused with 405. Reads are passed on in any case.",
    )
    metrics_consumers_max: int = setting(
        0, "Consumers that get metrics of their own, over all subscriptions; 0 for none.",
        unit="consumers", ge=0, le=100_000,
    )  # fmt: skip
    metrics_pulsar_names: bool = setting(
        default=False,
        description="Tell metrics also under the broker's names (`pulsar_subscription_*`, `pulsar_consumer_*`).",
    )
    websocket_workers: bool = setting(
        default=True,
        description="Take Key_Shared workers on WebSockets too, at `admin_listen`, below /ws.",
    )
    websocket_origins: Names = setting(
        (), "Sites whose pages may open WebSockets from a browser, as `https://host`; `*` for all. Programs need no "
        "leave, nor do the gateway's own pages.",
        takes="origins, separated by commas",
    )  # fmt: skip
    replica_name: Name = Field(
        default_factory=socket.gethostname,
        description="Name of this gateway: its consumers carry it at the brokers. Must differ between replicas.",
        json_schema_extra={"shown_default": "the host's name", "takes": "a printable name"},
        validate_default=True,
    )
    drain_timeout_s: float = setting(
        25.0, "How long a stopping gateway waits for acknowledgements of what it has delivered. "
        "Keep it under the grace period of whatever stops it.",
        unit="seconds", ge=0, le=3600,
    )  # fmt: skip
    allowed_broker_hosts: Names = setting(
        (), "Hosts of brokers that clients may ask for by name, among those that the cluster names; `.suffix` allows "
        "all below a domain. None: every broker that the cluster names.",
        takes="names, separated by commas",
    )  # fmt: skip
    allowed_broker_ports: Ports = setting(
        (),
        "Ports of brokers that clients may ask for, among those that the cluster names. None: all of these.",
        takes="ports from 1 to 65535, separated by commas",
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting("info", "Least severe log lines written.")
    log_format: Literal["json", "console"] = setting("json", "One JSON object per line, or text for people.")
    log_lines_per_s: int = setting(
        10, "Log lines of one event per second, ten times as many in a burst; the next one says how many were left "
        "out. What an operator ordered is always written. 0 is no bound.",
        unit="lines", ge=0, le=100_000,
    )  # fmt: skip


class Security(Group):
    """Who may do what, and what nobody else can read. Certificates are read again when their files change."""

    listen_tls: HostPort | None = setting(
        None, "Address for Pulsar clients that come with TLS (pulsar+ssl), beside `listen`.", takes="host:port"
    )
    admin_tls: bool = setting(default=False, description="Serve `admin_listen` with TLS (https) and not without.")
    tls_certificate_file: Path | None = setting(
        None, "PEM file of the certificate of both, and of what leads to its authority.", takes="the path of a file"
    )
    tls_key_file: Path | None = setting(None, "PEM file of its key.", takes="the path of a file")
    tls_client_ca_file: Path | None = setting(
        None, "PEM file of authorities: one must have signed the certificate of each client at `listen_tls`. None: "
        "clients need no certificate.",
        takes="the path of a file",
    )  # fmt: skip
    proxy_role_token_file: Path | None = setting(
        None,
        "File of a token with which the gateway connects for clients that it knows by their certificates "
        "(AuthenticationTls); read again at every handshake. Its role must be among the brokers' `proxyRoles`, and so "
        "another than that of `broker_token`. With neither this nor the next such clients are refused.",
        takes="the path of a file",
    )
    proxy_role_certificate_file: Path | None = setting(
        None,
        "PEM file of a certificate that is shown to brokers on these connections. Without a token it says the role.",
        takes="the path of a file",
    )
    proxy_role_key_file: Path | None = setting(None, "PEM file of its key.", takes="the path of a file")
    admin_token_secret_file: Path | None = setting(
        None,
        "File of the secret with which tokens are signed that say who asks the admin API: that of the brokers' "
        "`tokenSecretKey`, say. With neither this nor one of the next two nobody is asked.",
        takes="the path of a file",
    )
    admin_token_public_key_file: Path | None = setting(
        None, "Or of the public key, as the brokers' `tokenPublicKey`.", takes="the path of a file"
    )
    admin_token_jwks_url: HttpUrl | None = setting(
        None,
        "Or where an identity provider (OIDC) publishes its keys.",
        takes="http:// or https://, host and path",
    )
    admin_token_claim: str = setting("sub", "The claim of a token that says who it is.", takes="a name")
    admin_token_audience: str | None = setting(None, "What a token's `aud` must name.", takes="a text")
    admin_token_issuer: str | None = setting(None, "What a token's `iss` must be.", takes="a text")
    admin_viewers: Names = setting((), "Who may see everything; `*` for all with a token.", takes=NAMES)
    admin_operators: Names = setting(
        (), "Who besides may pause and resume subscriptions, drain and evict workers.", takes=NAMES
    )
    admin_admins: Names = setting(
        (), "Who besides may change limits and modes, deliver again, and pass changes on to the broker.", takes=NAMES
    )
    metrics_open: bool = setting(default=True, description="Give /metrics to everybody, as scrapers want it.")
    authorize_workers: bool = setting(
        default=True,
        description="Ask the broker, on each client's own connection, whether it may consume what it subscribes to. "
        "If false, any client that the broker lets in may consume whatever the gateway itself may.",
    )
    authorize_again_s: float = setting(
        60.0, "How often it is asked again for as long as the client consumes; a worker that may no more is closed "
        "then. 0: never.",
        unit="seconds", ge=0, le=86_400,
    )  # fmt: skip


class Ordering(Group):
    """How Key_Shared subscriptions keep the order of a key."""

    ordering_mode: Literal["draining_hashes", "last_sent_position", "unordered"] = setting(
        "draining_hashes",
        "What a joining worker waits for: only the keys that move to it (PIP-379), the position last sent when it "
        "joined (PIP-282), or nothing. A subscriber may choose another by consumer property.",
    )
    selector: Literal["consistent_hashing", "auto_split"] = setting(
        "consistent_hashing",
        "How keys are dealt to workers; choose what the brokers use, so that both name the same owner.",
    )
    consistent_hashing_points: int = setting(
        100, "Points of each worker on the hash ring; the same number as the brokers' gives the same assignment.",
        unit="points", ge=1, le=10_000,
    )  # fmt: skip
    key_shared_unblocking_interval_ms: int = setting(
        0, "How often keys are delivered that waited for a former owner and came free: together, once in so long, like "
        "brokers' `keySharedUnblockingIntervalMs` (10 there); 0 delivers each at once.",
        unit="milliseconds", ge=0, le=60_000,
    )  # fmt: skip
    batch_peek_max_bytes: ByteSize = setting(
        64 * MIB, "Largest batch, uncompressed, that is opened to see its keys; a larger one goes whole to the first "
        "key's worker and is counted.",
        unit="bytes", ge=1024, le=1 << 30,
    )  # fmt: skip
    upstream_batch_index_ack: bool = setting(
        default=True,
        description="Acknowledge single messages of a batch to the broker; needs "
        "acknowledgmentAtBatchIndexLevelEnabled there and is harmless without.",
    )


class Producers(Group):
    """Producers that wait to be a topic's only one (WaitForExclusive)."""

    producer_return_grace_s: float = setting(
        3.0,
        "How long those that wait let the owner come back when a broker has unloaded its topic or gone, and all owners "
        "after the gateway's start; 0 asks for the next at once, which fences the owner.",
        unit="seconds",
        ge=0,
        le=60,
    )
    waiting_producers_bytes_max: ByteSize = setting(
        256 * MIB, "Memory of all that wait, some 1.2 kB each; one more is refused with TooManyRequests.",
        unit="bytes", ge=64 * 1024, le=1 << 36,
    )  # fmt: skip


class Replicas(Group):
    """Several gateways that serve the same subscriptions (EIP-0028)."""

    groups_enabled: bool = setting(
        default=False,
        description="Share every Key_Shared subscription with the other replicas: each delivers the slices of the hash "
        "space that it has a lease on. The same on all replicas; off for a gateway that is alone.",
    )
    groups_namespace: Namespace = setting(
        "public/default",
        "Where replicas write to each other and keep what groups remember; the same on all replicas. The gateway's own "
        "token must let it produce and consume there.",
        takes="tenant/namespace",
    )
    group_streams: int = setting(
        16, "Slices that a shared subscription is cut into; a group keeps its number for as long as somebody is in it. "
        "1 makes one replica active and the others standby.",
        unit="slices", ge=1, le=STREAMS_MAX,
    )  # fmt: skip
    group_lease_s: float = setting(
        5.0, "How long a replica delivers without word from the group's leader.", unit="seconds", ge=3.5, le=600
    )
    group_drop_s: float = setting(
        7.0, "Silence after which a replica's slices go to others.", unit="seconds", ge=4, le=900
    )
    group_drain_s: float = setting(
        10.0, "How long workers may keep what they have of a slice that moves; what is left then is delivered again.",
        unit="seconds", gt=0, le=600,
    )  # fmt: skip


class Journaling(Group):
    """A record of what happened, as Parquet files, for reports."""

    journal: JournalPlace | None = setting(
        None,
        "Where the journal's files go: a directory, or a URL of an object store (s3://bucket/folder, gs://...). None: "
        "no journal is kept.",
        takes="a path or a URL",
    )
    journal_spool_directory: Path | None = setting(
        None,
        "Where files lie while they are written: `_open` below `journal` if not set, or, for an object store, a "
        "directory of the system's for what is temporary. What a killed gateway left there its next life publishes.",
        takes="the path of a directory",
    )
    journal_topic: Topic | None = setting(
        None,
        "Topic that gets every event as a JSON message too, for other programs; with or without `journal`.",
        takes="persistent://tenant/namespace/topic",
    )
    journal_deliveries: bool = setting(
        default=False,
        description="Record every delivery and acknowledgement too, not only what happens to subscriptions.",
    )
    journal_key_sample: float = setting(
        1.0, "Share of all keys whose deliveries are recorded: those of a key all or none.",
        unit="of all keys", ge=0, le=1,
    )  # fmt: skip
    journal_key_secret: SecretStr | None = setting(
        None,
        "Secret of the keyed hash that stands for a key. The same on all replicas and for as long as reports should "
        "know a key again; if not set, each life of the gateway makes up its own.",
        takes="a text",
    )
    journal_plain_keys: bool = setting(
        default=False,
        description="Write keys themselves beside their hashes.",
    )
    journal_snapshot_s: float = setting(
        60.0, "How often the numbers of /metrics are recorded; 0 never.", unit="seconds", ge=0, le=86_400
    )
    journal_roll_s: float = setting(
        300.0, "After so long a file is finished and the next begun.", unit="seconds", ge=1, le=86_400
    )
    journal_roll_bytes: ByteSize = setting(
        128 * MIB, "A file that is as large, uncompressed, is finished and the next begun.",
        unit="bytes", ge=64 * 1024, le=1 << 34,
    )  # fmt: skip
    journal_memory_bytes: ByteSize = setting(
        64 * MIB, "Memory of rows that are not written yet; what does not fit is lost and counted.",
        unit="bytes", ge=1 * MIB, le=1 << 34,
    )  # fmt: skip


class Memory(Group):
    """How many subscriptions and workers there may be, how far subscriptions read ahead, and what they may hold."""

    subscriptions_max: int = setting(
        10_000, "Key_Shared subscriptions in all; one more is refused with NotAllowedError.",
        unit="subscriptions", ge=1, le=1_000_000,
    )  # fmt: skip
    workers_max: int = setting(
        50_000, "Workers of all subscriptions, joined or joining; one more is refused with ConsumerBusy.",
        unit="workers", ge=1, le=10_000_000,
    )  # fmt: skip
    workers_per_subscription_max: int = setting(
        5_000, "Workers of one subscription, as the brokers' maxConsumersPerSubscription; 0 is no bound but "
        "`workers_max`.",
        unit="workers", ge=0, le=1_000_000,
    )  # fmt: skip

    look_ahead_messages_per_worker: int = setting(
        2_000, "Messages held for each connected worker while their keys wait.", unit="messages", ge=1, le=1_000_000
    )
    look_ahead_messages_per_subscription: int = setting(
        20_000, "Messages held for one subscription while their keys wait.", unit="messages", ge=1, le=10_000_000
    )
    max_unacked_messages_per_worker: int = setting(
        50_000, "Unacknowledged messages at which a worker gets no more; 0 is no bound.",
        unit="messages", ge=0, le=10_000_000,
    )  # fmt: skip
    subscription_memory_bytes: ByteSize = setting(
        64 * MIB, "Bytes of entries one subscription may hold before it stops reading.",
        unit="bytes", ge=1 * MIB, le=1 << 40,
    )  # fmt: skip
    gateway_memory_bytes: ByteSize = setting(
        512 * MIB, "Bytes of entries all subscriptions together may hold.", unit="bytes", ge=1 * MIB, le=1 << 40
    )


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
        "handshakes_max", "TLS handshakes of clients under way at a time; others wait, and those that take more than a "
        "second give way to them. Each also counts as a connection.",
        "handshakes", ge=1, le=100_000,
    )  # fmt: skip
    workers_per_connection_max: int = _limit(
        "workers_per_connection_max",
        "Workers on one client connection; one more is refused with ConsumerBusy. An application that consumes as many "
        "partitions with one client has as many.",
        "workers", ge=1, le=1_000_000,
    )  # fmt: skip
    unread_high_water_bytes: ByteSize = _limit(
        "unread_high_water_bytes", "Bytes a peer may leave unread before nothing more is read for it.",
        "bytes", ge=4096, le=1 << 30,
    )  # fmt: skip
    unread_low_water_bytes: ByteSize = _limit(
        "unread_low_water_bytes", "Bytes unread at which reading goes on.", "bytes", ge=1024, le=1 << 30
    )
    unread_bytes_max: ByteSize = _limit(
        "unread_bytes_max", "Bytes unread at which a connection is given up.", "bytes", ge=64 * 1024, le=1 << 32
    )
    queued_while_connecting_bytes: ByteSize = _limit(
        "queued_while_connecting_bytes", "Requests of one client held while its upstream connection is opened anew.",
        "bytes", ge=1024, le=1 << 30,
    )  # fmt: skip
    relayed_requests_max: int = _limit(
        "relayed_requests_max", "Requests of one client its broker has not answered.", "requests", ge=1, le=10_000_000
    )
    redirects_max: int = _limit("redirects_max", "Brokers asked in turn for one lookup.", "brokers", ge=1, le=100)
    redirect_connections_max: int = _limit(
        "redirect_connections_max", "Connections of one client to brokers that a lookup was redirected to.",
        "connections", ge=1, le=1000,
    )  # fmt: skip
    connect_timeout_s: float = _limit(
        "connect_timeout_s", "How long a connection to a broker may take to stand.", "seconds", gt=0, le=600
    )
    handshake_timeout_s: float = _limit(
        "handshake_timeout_s", "How long a client's CONNECT, or a broker's answer to ours, may take.",
        "seconds", gt=0, le=600,
    )  # fmt: skip
    keep_alive_s: float = _limit(
        "keep_alive_s", "Silence after which a peer is pinged; after twice as long it counts as gone.",
        "seconds", ge=1, le=3600,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration, by who needs which part."""

    broker: Broker
    serving: Serving
    security: Security
    ordering: Ordering
    producers: Producers
    replicas: Replicas
    journaling: Journaling
    memory: Memory
    client_side: ClientSide

    def values(self) -> dict[str, Any]:
        """Give every setting by its one name."""
        return {name: getattr(getattr(self, GROUP_OF[name][0]), name) for name in GROUP_OF}


GROUPS: dict[str, type[Group]] = {
    "broker": Broker,
    "serving": Serving,
    "security": Security,
    "ordering": Ordering,
    "producers": Producers,
    "replicas": Replicas,
    "journaling": Journaling,
    "memory": Memory,
    "client_side": ClientSide,
}
"""Attribute of `Config` -> its model."""

GROUP_OF: dict[str, tuple[str, type[Group]]] = {
    name: (attribute, group) for attribute, group in GROUPS.items() for name in group.model_fields
}
"""Setting -> the group it is in; names are unique over all groups."""


def unmet(values: Mapping[str, Any]) -> Iterator[str]:
    """Every relation that does not hold between settings of which both are among the values, in words."""
    for relation in RELATIONS:
        if relation.left in values and relation.right in values and not relation.holds_in(values):
            yield relation.broken(values)


class Relation(NamedTuple):
    """`left` must stand in this relation to `right`."""

    left: str
    holds: Callable[[Any, Any], bool]
    words: str
    right: str
    why: str

    def holds_in(self, values: Mapping[str, Any]) -> bool:
        """Whether it holds between these."""
        return bool(self.holds(values[self.left], values[self.right]))

    def broken(self, values: Mapping[str, Any]) -> str:
        """Say that it does not."""
        left, right = values[self.left], values[self.right]
        return f"{self.left} ({left}) must be {self.words} {self.right} ({right}): {self.why}"


RELATIONS = (
    Relation(
        "subscription_memory_bytes", operator.le, "at most", "gateway_memory_bytes",
        "one subscription cannot hold more than all together",
    ),
    Relation(
        "max_frame_bytes", operator.le, "at most", "subscription_memory_bytes",
        "the largest entry must fit into a subscription's budget",
    ),
    Relation(
        "look_ahead_messages_per_worker", operator.le, "at most", "look_ahead_messages_per_subscription",
        "one worker cannot hold more than its subscription",
    ),
    Relation(
        "reconnect_backoff_initial_ms", operator.le, "at most", "reconnect_backoff_max_ms", "pauses only grow"
    ),
    Relation(
        "unread_low_water_bytes", operator.lt, "less than", "unread_high_water_bytes",
        "reading must stop before it can go on",
    ),
    Relation(
        "unread_high_water_bytes", operator.lt, "less than", "unread_bytes_max",
        "a peer is slowed before it is given up",
    ),
    Relation("max_frame_bytes", operator.lt, "less than", "unread_bytes_max", "one frame must not end its connection"),
    Relation(
        "queued_while_connecting_bytes", operator.lt, "less than", "max_frame_bytes",
        "requests are held for a moment, messages are not",
    ),
    Relation(
        "connections_per_address_max", operator.le, "at most", "connections_max",
        "one address cannot have more than all together",
    ),
    Relation(
        "group_lease_s", operator.lt, "less than", "group_drop_s",
        "a slice would go to others while its replica still delivers it",
    ),
)  # fmt: skip
