"""How several gateways serve the same subscriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from proxy.config.types import Group, HostPort, Name, Namespace, SubscriptionPatterns, setting
from proxy.groups.streams import STREAMS_MAX


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
    group_deployment: Name | None = setting(
        None,
        "With owner: name of the deployment. Gateways are its replicas if they have the same one and the same "
        "`groups_namespace`. None: the one without a name; with `processes`, and without `groups_enabled`, "
        "`replica_name`.",
        takes="a printable name",
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
        "Subscriptions that workers at the brokers themselves share for now; topic and subscription may "
        "have wildcards. Their owner consumes them beside others, so that brokers do not keep a second owner out. The "
        "same on all replicas. A gateway alone does not wait for its former consumer of them after a lost connection.",
        takes="texts of topic and subscription, separated by commas: `orders* billing`",
    )
    streamed_subscriptions: SubscriptionPatterns = setting(
        (),
        "With owner: subscriptions without an owner, each shared by streams as with `groups_mode=streams`: order then "
        "needs producers that batch by key. Topic and subscription may have wildcards; one that also is among "
        "`migrating_subscriptions` is not consumed beside others. The same on all replicas: while it differs, some "
        "workers wait.",
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
        16, "With streams, and of `streamed_subscriptions`: streams of a shared subscription; a group keeps its number "
        "as long as it has members. 1 makes one replica active and the others standby.",
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
