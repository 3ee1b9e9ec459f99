"""What values.yaml may contain, the gateway's settings excepted; unknown keys are mistakes on every level.

Where Kubernetes has a type of its own (resources, affinity, ...) its own schema is the judge, at the API server.
Names are snake case here and camel case in values.yaml, as is the custom in both.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from helm.values_blocks import (
    AdminTokens,
    Block,
    Count,
    Journal,
    Map,
    Port,
    Positive,
    Pulsar,
    SecretKey,
    Texts,
    Tls,
)


class Image(Block):
    """The gateway's container image."""

    repository: Annotated[str, Field(min_length=1)]
    tag: str
    pull_policy: Literal["Always", "IfNotPresent", "Never"]


class Replicas(Block):
    """What replicas know each other by."""

    existing_secret: str


class ServicePorts(Block):
    """Ports of the Services."""

    pulsar: Port
    pulsarssl: Port
    admin: Port


class Service(Block):
    """What clients connect to."""

    type: Literal["ClusterIP", "LoadBalancer", "NodePort"]
    annotations: Texts
    load_balancer_class: str
    load_balancer_source_ranges: list[str]
    external_traffic_policy: Literal["", "Cluster", "Local"]
    ports: ServicePorts


class Probe(Block):
    """How often the kubelet asks, and how many failures it takes."""

    period_seconds: Positive
    timeout_seconds: Positive
    failure_threshold: Positive


class Probes(Block):
    """Liveness, readiness and startup are three questions."""

    liveness: Probe
    readiness: Probe
    startup: Probe


class Shutdown(Block):
    """Shutdown of a pod."""

    pre_stop_seconds: Annotated[int, Field(ge=0, le=600)]
    termination_grace_period_seconds: Count


class Pdb(Block):
    """The pod disruption budget."""

    enabled: bool
    max_unavailable: Positive | Annotated[str, Field(pattern="^[0-9]+%$")]


class Targets(Block):
    """The average of one pod that more pods are started for, by the gateway's own metrics; 0 leaves one out."""

    workers: Count
    connections: Count
    held_bytes: Count


class Autoscaling(Block):
    """The horizontal pod autoscaler."""

    enabled: bool
    min_replicas: Positive
    max_replicas: Positive
    cpu_percent: Annotated[int, Field(ge=0, le=1000)]
    per_pod: Targets
    adapter_rules: bool
    scale_down_stabilization_seconds: Annotated[int, Field(ge=0, le=3600)]


class NetworkPolicy(Block):
    """Allowed peers of the gateway, in both directions."""

    enabled: bool
    clients: list[Map]
    admin: list[Map]
    egress: list[Map]


class Scrape(Block):
    """How metrics are collected."""

    kind: Literal["none", "annotations", "PodMonitor", "ServiceMonitor", "VMPodScrape"]
    interval: str
    timeout: str
    labels: Texts


class Rules(Block):
    """Recording and alert rules."""

    enabled: bool
    labels: Texts
    runbook_url: Annotated[str, Field(pattern=r"^(https?://[^\s#\"']+)?$")]


class Dashboards(Block):
    """Grafana's dashboards."""

    enabled: bool
    labels: Texts
    annotations: Texts


class Monitoring(Block):
    """Metrics, alerts, dashboards."""

    scrape: Scrape
    rules: Rules
    dashboards: Dashboards


class ServiceAccount(Block):
    """The pods' service account; the gateway does not use the API server."""

    create: bool
    name: str
    annotations: Texts


class PullSecret(Block):
    """A Secret with which the image is pulled."""

    name: Annotated[str, Field(min_length=1)]


class IngressPath(Block):
    """A path that leads to the admin API."""

    path: Annotated[str, Field(pattern="^/")]
    path_type: Literal["Prefix", "Exact", "ImplementationSpecific"] = "Prefix"


class IngressHost(Block):
    """A host of the Ingress."""

    host: Annotated[str, Field(min_length=1)]
    paths: list[IngressPath] = Field(default=[])


class Ingress(Block):
    """An Ingress that leads to the admin API, its console and WebSockets."""

    enabled: bool
    class_name: str
    annotations: Texts
    hosts: list[IngressHost]
    tls: list[Map]


class Smoke(Block):
    """The pod of `helm test`."""

    enabled: bool
    topic: Annotated[str, Field(pattern="^(non-)?persistent://[^/]+/[^/]+/[^/]+$")]
    messages: Positive
    timeout_seconds: Positive


class Values(Block):
    """Everything in values.yaml."""

    global_: Map = Field(default={}, alias="global", description="Of a chart that has this one as a part; not used.")
    name_override: str
    fullname_override: Annotated[str, Field(max_length=45)]
    kind: Literal["Deployment", "StatefulSet"]
    replica_count: Count
    image: Image
    image_pull_secrets: list[PullSecret]
    config: Map
    pulsar: Pulsar
    broker_token: SecretKey
    proxy_role_token: SecretKey
    tls: Tls
    admin_tokens: AdminTokens
    journal: Journal
    listen_host: Annotated[str, Field(min_length=1)]
    replicas: Replicas
    service: Service
    ingress: Ingress
    probes: Probes
    shutdown: Shutdown
    update_strategy: Map
    pdb: Pdb
    autoscaling: Autoscaling
    network_policy: NetworkPolicy
    monitoring: Monitoring
    service_account: ServiceAccount
    pod_security_context: Map
    container_security_context: Map
    resources: Map
    topology_spread_constraints: list[Map]
    node_selector: Texts
    tolerations: list[Map]
    affinity: Map
    priority_class_name: str
    common_labels: Texts
    pod_labels: Texts
    pod_annotations: Texts
    extra_env: list[Map]
    extra_env_from: list[Map]
    extra_init_containers: list[Map]
    extra_containers: list[Map]
    extra_volumes: list[Map]
    extra_volume_mounts: list[Map]
    smoke: Smoke
