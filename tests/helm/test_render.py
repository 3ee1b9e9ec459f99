"""Every scenario, rendered for several versions of Kubernetes and judged by their schemas."""

from __future__ import annotations

from typing import Any

import kubernetes_validate  # type: ignore[import-untyped] # annotated, but without py.typed
import pytest

from helm.build import CHART
from tests.helm.chart import (
    KUBERNETES,
    NAMESPACE,
    SCENARIOS,
    Chart,
    Manifest,
    named,
    of_kind,
    one,
    pod_spec,
    pods,
    workload,
)

UID = 10_000
CUSTOM = {
    "Certificate": ("cert-manager.io/v1", {"secretName", "issuerRef", "dnsNames"}),
    "PodMonitor": ("monitoring.coreos.com/v1", {"selector", "podMetricsEndpoints"}),
    "ServiceMonitor": ("monitoring.coreos.com/v1", {"selector", "endpoints"}),
    "VMPodScrape": ("operator.victoriametrics.com/v1beta1", {"selector", "podMetricsEndpoints"}),
    "PrometheusRule": ("monitoring.coreos.com/v1", {"groups"}),
}
"""Kinds that Kubernetes itself does not know: their version, and what their specification must have."""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_lint_has_nothing_to_say(chart: Chart, scenario: str) -> None:
    """Not even a warning."""
    done = chart.lint(SCENARIOS[scenario])
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kubernetes", KUBERNETES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_manifests_fit_kubernetes_schemas(chart: Chart, scenario: str, kubernetes: str) -> None:
    """Strictly: a field that this version does not have is a mistake."""
    manifests = chart.render(scenario, kubernetes=kubernetes)
    for manifest in manifests:
        if manifest["kind"] in CUSTOM:
            version, fields = CUSTOM[manifest["kind"]]
            assert manifest["apiVersion"] == version
            assert fields <= set(manifest["spec"])
        else:
            kubernetes_validate.validate(manifest, kubernetes, strict=True)
        assert manifest["metadata"]["namespace"] == NAMESPACE
        assert len(manifest["metadata"]["name"]) <= 63
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_pods_may_do_little(chart: Chart, scenario: str) -> None:
    """Nobody's root, nothing to write to but what is mounted for it, no token of the API server."""
    for pod in pods(chart.render(scenario)):
        assert pod["automountServiceAccountToken"] is False
        context = pod["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, UID)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_selectors_lead_to_the_pods_and_ports_exist(chart: Chart, scenario: str) -> None:
    """Services, policies and monitors mean the gateway's pods, and not that of `helm test`."""
    manifests = chart.render(scenario)
    labels = workload(manifests)["spec"]["template"]["metadata"]["labels"]
    container, *_ = pod_spec(workload(manifests))["containers"]
    ports = {port["name"] for port in container["ports"]}
    for manifest in manifests:
        selector = _selector(manifest)
        if manifest["kind"] == "ServiceMonitor":
            (service,) = [
                one
                for one in of_kind(manifests, "Service")
                if (selector or {}).items() <= one["metadata"]["labels"].items()
            ]
            assert manifest["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
        elif selector is not None:
            assert selector.items() <= labels.items(), manifest["kind"]
            for smoke in of_kind(manifests, "Pod"):
                assert not selector.items() <= smoke["metadata"]["labels"].items()
    for service in of_kind(manifests, "Service"):
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_mount_has_its_volume(chart: Chart, scenario: str) -> None:
    """And every volume is mounted."""
    manifests = chart.render(scenario)
    claims = {claim["metadata"]["name"] for claim in workload(manifests)["spec"].get("volumeClaimTemplates", [])}
    for pod in pods(manifests):
        mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert volumes <= mounted <= volumes | claims


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_secret_is_in_a_config_map(chart: Chart, scenario: str) -> None:
    """The chart makes no Secret but that of replicas: it refers to those that exist."""
    manifests = chart.render(scenario)
    assert {secret["metadata"]["name"] for secret in of_kind(manifests, "Secret")} <= {"events-keyline-replicas"}
    for manifest in of_kind(manifests, "ConfigMap"):
        for name, text in manifest["data"].items():
            if name == "keyline.toml":
                assert "broker_token =" not in text
                assert "journal_key_secret" not in text


def test_the_three_probes_differ(chart: Chart) -> None:
    """A broker that is down takes a gateway out of the Services, and never restarts it."""
    (container,) = pod_spec(workload(chart.render()))["containers"]
    paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}


@pytest.mark.parametrize(("kubernetes", "action"), [("1.25", "exec"), ("1.31", "sleep")])
def test_a_pod_serves_on_until_services_forget_it(chart: Chart, kubernetes: str, action: str) -> None:
    """Then it drains, and the whole takes less than the time it is given."""
    spec = pod_spec(workload(chart.render("minimal", "config.drain_timeout_s=99.5", kubernetes=kubernetes)))
    assert action in spec["containers"][0]["lifecycle"]["preStop"]
    assert spec["terminationGracePeriodSeconds"] == 5 + 100 + 20


@pytest.mark.parametrize(
    ("scenario", "strategy"), [("minimal", "RollingUpdate"), ("single", "Recreate"), ("autoscaled", "RollingUpdate")]
)
def test_without_groups_the_old_pod_ends_first(chart: Chart, scenario: str, strategy: str) -> None:
    """The broker refuses two gateways on one subscription unless they are a group."""
    assert workload(chart.render(scenario))["spec"]["strategy"]["type"] == strategy


def test_the_autoscaler_alone_decides_how_many(chart: Chart) -> None:
    """A number in the workload would fight with it at every upgrade."""
    manifests = chart.render("autoscaled")
    assert "replicas" not in workload(manifests)["spec"]
    scaler = one(manifests, "HorizontalPodAutoscaler")["spec"]
    documented = (CHART.parent.parent / "docs" / "metrics.md").read_text()
    own = [metric["pods"]["metric"]["name"] for metric in scaler["metrics"] if metric["type"] == "Pods"]
    assert len(own) == 3
    targets = [metric["pods"]["target"] for metric in scaler["metrics"] if metric["type"] == "Pods"]
    assert {target["type"] for target in targets} == {"AverageValue"}
    assert "400000000" in {target["averageValue"] for target in targets}
    rules = named(manifests, "ConfigMap", "events-keyline-adapter-rules")["data"]["config.yaml"]
    for name in own:
        assert f"`{name}` | gauge" in documented
        assert f"{name}{{" in rules


def test_the_admin_api_is_not_public_with_the_clients_port(chart: Chart) -> None:
    """A load balancer leads to the clients' port only, which is the one with TLS."""
    services = {
        service["metadata"]["name"]: service["spec"] for service in of_kind(chart.render("public-tls"), "Service")
    }
    assert services["events-keyline"]["type"] == "LoadBalancer"
    assert [port["targetPort"] for port in services["events-keyline"]["ports"]] == ["pulsarssl"]
    assert services["events-keyline-admin"]["type"] == "ClusterIP"


def test_a_policy_leads_to_the_release_and_nowhere_else(chart: Chart) -> None:
    """By the labels that the release's pods have."""
    spec = one(chart.render("secured-release"), "NetworkPolicy")["spec"]
    to_replicas, to_names, to_brokers = spec["egress"]
    own = {"podSelector": {"matchLabels": workload(chart.render("secured-release"))["spec"]["selector"]["matchLabels"]}}
    assert to_replicas == {"to": [own], "ports": [{"port": 6670}]}
    assert {port["port"] for port in to_names["ports"]} == {53}
    assert to_brokers["to"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "messaging"}},
            "podSelector": {"matchLabels": {"release": "main", "component": "broker"}},
        }
    ]
    assert [port["port"] for port in to_brokers["ports"]] == [6651, 8443]
    clients, admin, replicas = spec["ingress"]
    assert (clients["ports"], admin["ports"]) == ([{"port": "pulsar"}], [{"port": "admin"}])
    assert replicas == {"from": [own], "ports": [{"port": "replicas"}]}


def test_the_certificate_names_every_service(chart: Chart) -> None:
    """In full and in short, as clients write them; and what clients outside write."""
    names = one(chart.render("public-tls"), "Certificate")["spec"]["dnsNames"]
    assert {"events-keyline", "events-keyline.shop.svc.cluster.local", "events-keyline-admin.shop.svc"} <= set(names)
    assert {"events.example.com", "*.events-keyline-headless.shop.svc.cluster.local"} <= set(names)


def test_what_clients_are_told_is_what_the_certificate_names(chart: Chart) -> None:
    """Both Services by each of their names and nothing else, and `helm test` goes to one of them."""
    asked = (
        *("tls.enabled=true", "tls.certManager.enabled=true"),
        'tls.certManager.issuerRef={"name": "team", "kind": "Issuer"}',
    )
    manifests = chart.render("minimal", *asked)
    suffixes = ("", ".shop", ".shop.svc", ".shop.svc.cluster.local")
    names = {f"events-keyline{admin}{suffix}" for admin in ("", "-admin") for suffix in suffixes}
    assert set(one(manifests, "Certificate")["spec"]["dnsNames"]) == names
    (smoke,) = pod_spec(one(manifests, "Pod"))["containers"]
    (url,) = [variable["value"] for variable in smoke["env"] if variable["name"] == "SMOKE_SERVICE_URL"]
    assert url == "pulsar+ssl://events-keyline.shop.svc:6651"


def test_a_budget_lets_one_replica_go_at_a_time(chart: Chart) -> None:
    """What is set is what an eviction is judged by."""
    assert one(chart.render(), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert one(chart.render("minimal", "pdb.maxUnavailable=2"), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 2


def test_an_ingress_leads_to_the_admin_service(chart: Chart) -> None:
    """Each host and path; a host without paths leads there whole."""
    manifests = chart.render("secured-release")
    spec = one(manifests, "Ingress")["spec"]
    port = {"service": {"name": "events-keyline-admin", "port": {"name": "http-admin"}}}
    found = {rule["host"]: rule["http"]["paths"] for rule in spec["rules"]}
    assert found["keyline.example.com"] == [{"path": "/", "pathType": "Prefix", "backend": port}]
    assert [(path["path"], path["pathType"]) for path in found["ops.example.com"]] == [
        ("/keyline", "Exact"),
        ("/keyline/", "Prefix"),
    ]
    admin = named(manifests, "Service", "events-keyline-admin")["spec"]
    assert "http-admin" in {port["name"] for port in admin["ports"]}
    assert not of_kind(chart.render(), "Ingress")


def test_what_is_put_beside_the_gateway_is_there(chart: Chart) -> None:
    """Containers in their order, variables from elsewhere, Secrets to pull with, constraints with their selectors."""
    spec = pod_spec(workload(chart.render("elsewhere")))
    assert [container["name"] for container in spec["containers"]] == ["keyline", "logs", "metrics"]
    assert [container["name"] for container in spec["initContainers"]] == ["wait"]
    assert {"configMapRef": {"name": "proxies"}} in spec["containers"][0]["envFrom"]
    assert spec["imagePullSecrets"] == [{"name": "pull-one"}, {"name": "pull-two"}]
    selectors = [constraint["labelSelector"]["matchLabels"] for constraint in spec["topologySpreadConstraints"]]
    own = workload(chart.render("elsewhere"))["spec"]["selector"]["matchLabels"]
    assert selectors == [own, {"tier": "gateway"}]


def _selector(manifest: Manifest) -> dict[str, Any] | None:
    spec = manifest.get("spec", {})
    selector = spec.get("podSelector") or spec.get("selector")
    if not isinstance(selector, dict):
        return None
    labels: dict[str, Any] = selector.get("matchLabels", selector)
    return labels
