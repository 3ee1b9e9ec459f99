"""All settings of an operator, parsed once into frozen models and passed by argument.

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
    KeyPolicies,
    Name,
    Names,
    Namespace,
    Ports,
    ServiceUrls,
    SubscriptionPatterns,
    Topic,
    setting,
)
from proxy.groups.streams import STREAMS_MAX
from proxy.key_policies import KEY_POLICY
from proxy.limits import MIB, Limits

ENVIRONMENT_PREFIX = "KEYLINE_"

_LIMITS = Limits()
NAMES = "names, separated by commas"


def _of_keys(name: str, default: float, description: str, unit: str) -> Any:
    """Declare a setting that key policies name, too: its bounds are theirs."""
    bounds = KEY_POLICY[name]
    return setting(default, description, unit=unit, ge=bounds.least, le=bounds.most)


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
        1, "The gateway's own connections to each broker; its subscriptions are distributed over them.",
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
        0, "Workers with their own metrics, over all subscriptions; 0 for none.",
        unit="workers", ge=0, le=100_000,
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


class Ordering(Group):
    """How Key_Shared subscriptions keep the order of a key."""

    ordering_mode: Literal["draining_hashes", "last_sent_position", "unordered"] = setting(
        "draining_hashes",
        "What a joining worker waits for: only the keys that move to it (PIP-379), the position last sent when it "
        "joined (PIP-282), or nothing. A subscriber may choose another by consumer property.",
    )
    selector: Literal["consistent_hashing", "auto_split"] = setting(
        "consistent_hashing",
        "How keys are assigned to workers; use the brokers' selector, so that both name the same owner.",
    )
    consistent_hashing_points: int = setting(
        100, "Points of each worker on the hash ring; the same number as the brokers' gives the same assignment.",
        unit="points", ge=1, le=10_000,
    )  # fmt: skip
    key_shared_unblocking_interval_ms: int = setting(
        0, "Interval at which unblocked keys, which waited for a former owner, are delivered together, like brokers' "
        "`keySharedUnblockingIntervalMs` (10 there); 0 delivers each at once.",
        unit="milliseconds", ge=0, le=60_000,
    )  # fmt: skip
    key_window: int = _of_keys(
        "key_window", 0, "Unacknowledged messages of a key at a worker; 0 is no bound. With 1, nothing of a key "
        "overtakes a message that is negatively acknowledged, times out or is delivered again for another reason.",
        "messages",
    )  # fmt: skip
    retry_delay_ms: int = _of_keys(
        "retry_delay_ms", 0, "How long a key waits, with all its messages, before one that a worker gave back "
        "(negative acknowledgement, acknowledgement timeout) is delivered again; 0 not at all.", "milliseconds",
    )  # fmt: skip
    retry_multiplier: float = _of_keys(
        "retry_multiplier", 1.0, "Factor of this delay for each time after the first; 1 keeps it the same.", "times"
    )
    retry_delay_max_ms: int = _of_keys("retry_delay_max_ms", 600_000, "Longest such delay.", "milliseconds")
    key_policies: KeyPolicies = setting(
        (), "Other values of the four settings above for some subscriptions. Topic and subscription may have wildcards "
        "(`*`, `?`, `[...]`); the first that matches applies. A subscriber may choose others by consumer property "
        "(`keyline.key-window`, ...), and an operator by `keyline limits`.",
        takes="texts of topic, subscription and name=number, separated by commas: `orders* billing key_window=1`",
    )  # fmt: skip
    batch_peek_max_bytes: ByteSize = setting(
        64 * MIB, "Largest batch, uncompressed, that is opened to read its keys; a larger one goes whole to the first "
        "key's worker and is counted.",
        unit="bytes", ge=1024, le=1 << 30,
    )  # fmt: skip
    upstream_batch_index_ack: bool = setting(
        default=True,
        description="Acknowledge single messages of a batch to the broker; needs "
        "acknowledgmentAtBatchIndexLevelEnabled there and is harmless without.",
    )


class Producers(Group):
    """Producers that wait for exclusive access to a topic (WaitForExclusive)."""

    producer_return_grace_s: float = setting(
        3.0,
        "How long waiting producers wait for the owner to return after a broker has unloaded its topic or stopped, and "
        "for all owners after the gateway's start; 0 promotes the next at once, which fences the owner.",
        unit="seconds",
        ge=0,
        le=60,
    )
    waiting_producers_bytes_max: ByteSize = setting(
        256 * MIB, "Memory of all waiting producers, some 1.2 kB each; one more is refused with TooManyRequests.",
        unit="bytes", ge=64 * 1024, le=1 << 36,
    )  # fmt: skip


class Replicas(Group):
    """Several gateways that serve the same subscriptions."""

    groups_enabled: bool = setting(
        default=False,
        description="Share the Key_Shared subscriptions with the other replicas, as `groups_mode` says. The same on "
        "all replicas; off for a single gateway.",
    )
    groups_namespace: Namespace = setting(
        "public/default",
        "Namespace of the topics for messages between replicas and for groups' records; the same on all replicas. The "
        "gateway's own token needs permission to produce and consume there.",
        takes="tenant/namespace",
    )
    groups_mode: Literal["streams", "owner"] = setting(
        "owner",
        "How replicas share. owner: each subscription has one owner, to which other replicas lead their workers, with "
        "the contract of a single gateway. streams (EIP-0028): each delivers some streams of every subscription's "
        "keys; order then needs producers that batch by key. The same on all replicas.",
    )
    group_bundles: int = setting(
        1024, "With owner: parts that all subscriptions are divided into by hash; a part has one owner. Fixed as long "
        "as a replica runs.",
        unit="bundles", ge=1, le=STREAMS_MAX,
    )  # fmt: skip
    replica_listen: HostPort = setting(
        "127.0.0.1:6670",
        "With owner: address to accept other replicas at. Nothing else is served there, and no client needs to reach "
        "it. The default is for replicas on one machine.",
        takes="host:port",
    )
    replica_address: HostPort | None = setting(
        None,
        "With owner: address where other replicas reach `replica_listen`. None: that address itself.",
        takes="host:port",
    )
    replica_secret_file: Path | None = setting(
        None,
        "File of the secret that every replica proves to the others, 32 bytes at least. A second line is accepted, "
        "too, while the secret is replaced. Required with owner.",
        takes="the path of a file",
    )
    migrating_subscriptions: SubscriptionPatterns = setting(
        (),
        "With owner: subscriptions that workers at the brokers themselves share for now; topic and subscription may "
        "have wildcards. Their owner consumes them beside others, so that brokers do not keep a second owner out. The "
        "same on all replicas.",
        takes="texts of topic and subscription, separated by commas: `orders* billing`",
    )
    replica_tls_certificate_file: Path | None = setting(
        None,
        "With owner: PEM file of this replica's certificate; all may have the same one. Replicas then talk to each "
        "other by TLS only, and both ends show a certificate. None: without TLS.",
        takes="the path of a file",
    )
    replica_tls_key_file: Path | None = setting(None, "PEM file of its key.", takes="the path of a file")
    replica_tls_ca_file: Path | None = setting(
        None, "PEM file of the authorities that sign replicas' certificates, and no client's.",
        takes="the path of a file",
    )  # fmt: skip
    group_streams: int = setting(
        16, "With streams: streams of a shared subscription; a group keeps its number as long as it has members. 1 "
        "makes one replica active and the others standby.",
        unit="streams", ge=1, le=STREAMS_MAX,
    )  # fmt: skip
    group_lease_s: float = setting(
        5.0, "How long a replica delivers without a message from the group's leader.", unit="seconds", ge=3.5, le=600
    )
    group_drop_s: float = setting(
        7.0, "Silence after which a replica's streams go to others.", unit="seconds", ge=4, le=900
    )
    group_drain_s: float = setting(
        10.0, "How long workers may keep messages of a stream that moves; the rest is redelivered after that.",
        unit="seconds", gt=0, le=600,
    )  # fmt: skip


class Journaling(Group):
    """A record of events and deliveries, as Parquet files, for reports."""

    journal: JournalPlace | None = setting(
        None,
        "Place of the journal's files: a directory, or a URL of an object store (s3://bucket/folder, gs://...). None: "
        "no journal.",
        takes="a path or a URL",
    )
    journal_spool_directory: Path | None = setting(
        None,
        "Directory of unfinished files. If not set: `_open` below `journal`, or, for an object store, a temporary "
        "directory of the system. The next run publishes files that a killed gateway left there.",
        takes="the path of a directory",
    )
    journal_topic: Topic | None = setting(
        None,
        "Topic that gets every event as a JSON message, for other programs; with or without `journal`.",
        takes="persistent://tenant/namespace/topic",
    )
    journal_deliveries: bool = setting(
        default=False,
        description="Also record every delivery and acknowledgement, in addition to events.",
    )
    journal_key_sample: float = setting(
        1.0, "Share of all keys whose deliveries are recorded; a key is recorded completely or not at all.",
        unit="of all keys", ge=0, le=1,
    )  # fmt: skip
    journal_key_secret: SecretStr | None = setting(
        None,
        "Secret of the keyed hash that represents a key. Reports match a key across replicas and restarts only with "
        "the same secret; if not set, each run of the gateway uses a random one.",
        takes="a text",
    )
    journal_plain_keys: bool = setting(
        default=False,
        description="Write the keys themselves in addition to their hashes.",
    )
    journal_snapshot_s: float = setting(
        60.0, "How often the numbers of /metrics are recorded; 0 never.", unit="seconds", ge=0, le=86_400
    )
    journal_roll_s: float = setting(
        300.0, "Time after which a file is finished and the next one started.", unit="seconds", ge=1, le=86_400
    )
    journal_roll_bytes: ByteSize = setting(
        128 * MIB, "Uncompressed size at which a file is finished and the next one started.",
        unit="bytes", ge=64 * 1024, le=1 << 34,
    )  # fmt: skip
    journal_memory_bytes: ByteSize = setting(
        64 * MIB, "Memory of rows that are not written yet; rows that do not fit are dropped and counted.",
        unit="bytes", ge=1 * MIB, le=1 << 34,
    )  # fmt: skip


class Memory(Group):
    """Limits of subscriptions, workers, look-ahead and memory."""

    subscriptions_max: int = setting(
        10_000, "Key_Shared subscriptions in all; one more is refused with NotAllowedError.",
        unit="subscriptions", ge=1, le=1_000_000,
    )  # fmt: skip
    workers_max: int = setting(
        50_000, "Workers of all subscriptions, joined or joining; one more is refused with ConsumerBusy.",
        unit="workers", ge=1, le=10_000_000,
    )  # fmt: skip
    workers_per_subscription_max: int = setting(
        5_000, "Workers of one subscription, as the brokers' maxConsumersPerSubscription; 0: only `workers_max` "
        "applies.",
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
        "relayed_requests_max", "Unanswered requests of one client at its broker.", "requests", ge=1, le=10_000_000
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


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration, grouped by the parts that need it."""

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
    Relation("retry_delay_ms", operator.le, "at most", "retry_delay_max_ms", "delays only grow"),
    Relation(
        "reconnect_backoff_initial_ms", operator.le, "at most", "reconnect_backoff_max_ms", "pauses only grow"
    ),
    Relation(
        "unread_low_water_bytes", operator.lt, "less than", "unread_high_water_bytes",
        "reading must stop before it can resume",
    ),
    Relation(
        "unread_high_water_bytes", operator.lt, "less than", "unread_bytes_max",
        "a peer is slowed before it is disconnected",
    ),
    Relation("max_frame_bytes", operator.lt, "less than", "unread_bytes_max", "one frame must not end its connection"),
    Relation(
        "queued_while_connecting_bytes", operator.lt, "less than", "max_frame_bytes",
        "requests are held for a short time, messages are not",
    ),
    Relation(
        "connections_per_address_max", operator.le, "at most", "connections_max",
        "one address cannot have more than all together",
    ),
    Relation(
        "group_lease_s", operator.lt, "less than", "group_drop_s",
        "a stream would go to others while its replica still delivers it",
    ),
)  # fmt: skip
