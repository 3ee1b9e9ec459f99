"""An upgrade from the first version of the chart works: what Kubernetes lets nobody change is as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helm.chart import Chart, Manifest, of_kind, workload

FROZEN = Path(__file__).parent / "first_version.json"
"""What version 0.1.0 rendered. It is never written again: a difference is a mistake in the chart."""


def immutable(manifests: list[Manifest]) -> dict[str, Any]:
    """Give what cannot be changed in place, and what else finds pods by."""
    found = workload(manifests)
    spec = found["spec"]
    claims = spec.get("volumeClaimTemplates", [])
    return {
        "workload": [found["kind"], found["metadata"]["name"]],
        "selector": spec["selector"],
        "service_name": spec.get("serviceName"),
        "pod_management": spec.get("podManagementPolicy"),
        "claims": [[claim["metadata"]["name"], claim["spec"]] for claim in claims],
        "services": {
            service["metadata"]["name"]: [service["spec"]["selector"], service["spec"].get("clusterIP")]
            for service in of_kind(manifests, "Service")
        },
    }


@pytest.mark.parametrize("scenario", json.loads(FROZEN.read_text()))
def test_nothing_immutable_has_changed(chart: Chart, scenario: str) -> None:
    """Since the first version."""
    assert immutable(chart.render(scenario)) == json.loads(FROZEN.read_text())[scenario]


def test_labels_of_the_chart_are_not_on_pods(chart: Chart) -> None:
    """Else a new version of the chart would restart every gateway, even one that changes nothing of them."""
    labels = workload(chart.render())["spec"]["template"]["metadata"]["labels"]
    constant = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"}
    assert set(labels) == constant | {"job"}
    assert set(workload(chart.render("observed"))["spec"]["template"]["metadata"]["labels"]) == constant
