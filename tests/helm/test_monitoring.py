"""Dashboards, rules and scraping: all that is in the repository arrives in a cluster."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dashboards.build import rendered as rendered_dashboards
from helm.build import RULES
from tests.helm.chart import Chart, of_kind, one, workload
from tests.integration.prometheus import program


def test_every_dashboard_is_a_config_map(chart: Chart) -> None:
    """Unchanged, with the label that Grafana's sidecar looks for."""
    maps = [
        found
        for found in of_kind(chart.render("observed"), "ConfigMap")
        if "grafana_dashboard" in found["metadata"]["labels"]
    ]
    found = {name: json.loads(text) for manifest in maps for name, text in manifest["data"].items()}
    assert found == {f"keyline-{path.name}": json.loads(text) for path, text in rendered_dashboards().items()}
    assert all(manifest["metadata"]["annotations"] == {"grafana_folder": "Keyline"} for manifest in maps)


def test_every_rule_and_alert_is_there(chart: Chart) -> None:
    """Unchanged but for where the runbook is."""

    def moved(rule: dict[str, Any]) -> dict[str, Any]:
        if "annotations" not in rule:
            return rule
        url = rule["annotations"]["runbook_url"].replace("docs/runbook.md", "https://example.com/runbook")
        return {**rule, "annotations": {**rule["annotations"], "runbook_url": url}}

    expected = yaml.safe_load(RULES.read_text())["groups"]
    assert sum("alert" in rule for group in expected for rule in group["rules"]) > 10
    assert one(chart.render("observed"), "PrometheusRule")["spec"]["groups"] == [
        {**group, "rules": [moved(rule) for rule in group["rules"]]} for group in expected
    ]


@pytest.mark.parametrize(
    ("scenario", "kind", "labels", "port"),
    [
        ("observed", "PodMonitor", {"release": "prometheus"}, "admin"),
        ("secured-release", "ServiceMonitor", {"release": "prometheus"}, "http-admin"),
        ("victoria", "VMPodScrape", {"team": "platform"}, "admin"),
    ],
)
def test_a_monitor_calls_the_job_what_alerts_call_it(
    chart: Chart, scenario: str, kind: str, labels: dict[str, str], port: str
) -> None:
    """`KeylineNoGateway` would fire for ever otherwise."""
    monitor = one(chart.render(scenario), kind)
    assert labels.items() <= monitor["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"].get("podMetricsEndpoints") or monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["scheme"]) == (port, "/metrics", "http")
    relabelings = endpoint.get("relabelings") or endpoint.get("relabelConfigs")
    assert relabelings == [{"targetLabel": "job", "replacement": "keyline"}]


def test_annotations_are_for_those_without_an_operator(chart: Chart) -> None:
    """Never beside a monitor: everything would be counted twice."""

    def annotated(scenario: str) -> bool:
        annotations = workload(chart.render(scenario))["spec"]["template"]["metadata"]["annotations"]
        return "prometheus.io/scrape" in annotations

    assert annotated("minimal")
    assert not annotated("observed")


ANNOTATED_PODS: Final = [
    {"source_labels": ["__meta_kubernetes_pod_annotation_prometheus_io_scrape"], "action": "keep", "regex": "true"},
    {
        "source_labels": ["__meta_kubernetes_pod_annotation_prometheus_io_path"],
        "action": "replace",
        "target_label": "__metrics_path__",
        "regex": "(.+)",
    },
    {
        "source_labels": ["__meta_kubernetes_pod_annotation_prometheus_io_port", "__meta_kubernetes_pod_ip"],
        "action": "replace",
        "regex": r"(\d+);((([0-9]+?)(\.|$)){4})",
        "replacement": "$2:$1",
        "target_label": "__address__",
    },
    {"action": "labelmap", "regex": "__meta_kubernetes_pod_label_(.+)"},
    {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
]
"""The job for annotated pods that Prometheus's own chart and its example for Kubernetes have, `kubernetes-pods`."""


def test_a_scrape_of_annotated_pods_calls_the_job_so_too(chart: Chart, tmp_path: Path) -> None:
    """A real Prometheus's relabelling of what its discovery tells of the rendered pod."""
    pod = workload(chart.render())["spec"]["template"]["metadata"]
    told = {f"label_{name}": value for name, value in pod["labels"].items()}
    told |= {f"annotation_{name}": value for name, value in pod["annotations"].items()} | {"ip": "10.1.2.3"}
    discovered = {f"__meta_kubernetes_pod_{re.sub(r'[^a-zA-Z0-9_]', '_', name)}": text for name, text in told.items()}
    found = [{"targets": ["10.1.2.3:6660"], "labels": discovered}]
    job = {"job_name": "kubernetes-pods", "static_configs": found, "relabel_configs": ANNOTATED_PODS}
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump({"scrape_configs": [job]}))
    command = [program("promtool"), "check", "service-discovery", "--timeout", "1s", str(file), "kubernetes-pods"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    (target,) = json.loads(done.stdout)
    assert target["labels"]["job"] == "keyline"
    assert (target["labels"]["__address__"], target["labels"]["__metrics_path__"]) == ("10.1.2.3:8750", "/metrics")


def test_https_is_asked_for_where_the_admin_api_has_it(chart: Chart) -> None:
    """By the monitor as by the probes."""
    manifests = chart.render("own-certificate")
    (endpoint,) = one(manifests, "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint["scheme"] == "https"
    (container,) = workload(manifests)["spec"]["template"]["spec"]["containers"]
    assert {container[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")} == {
        "HTTPS"
    }


def test_the_release_fits_into_a_secret(chart: Chart) -> None:
    """Helm keeps chart and manifests in one, which may have 1 MiB; base64 twice and gzip, so a bound well below."""
    files = [path for path in Path(RULES.parents[2] / "helm" / "keyline").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 700_000
    assert chart.template("observed").returncode == 0
