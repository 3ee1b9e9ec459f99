"""The chart as Helm renders it: manifests as values that tests look into."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from helm.build import CHART
from integration.helm_tool import run_helm

Manifest = dict[str, Any]

SCENARIOS = {path.stem: path for path in sorted((Path(__file__).parent / "values").glob("*.yaml"))}
KUBERNETES = ("1.25", "1.27", "1.31", "1.34", "1.37")
"""The oldest that the chart takes, the newest that there are schemas of, and some where templates decide by version."""
RELEASE = "events"
NAMESPACE = "shop"
NOTES_TEMPLATE = """apiVersion: v1
kind: Notes
notes: {{ include (print .Template.BasePath "/NOTES.txt") . | toJson }}
"""


@dataclass(frozen=True, slots=True)
class Chart:
    """Renders the chart, away from any cluster."""

    home: Path
    """Directory for what Helm writes."""
    source: Path = CHART

    def lint(self, values: Path) -> subprocess.CompletedProcess[str]:
        """Run `helm lint --strict`."""
        return run_helm("lint", "--strict", str(CHART), "--values", str(values), home=self.home)

    def template(
        self, scenario: str = "minimal", *settings: str, kubernetes: str = "1.31", only: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `helm template`, with `--set-json` for each of `settings`, for all templates or only one."""
        more = [part for setting in settings for part in ("--set-json", setting)]
        values = ["--values", str(SCENARIOS[scenario])]
        place = ["--namespace", NAMESPACE, "--kube-version", f"{kubernetes}.0"]
        if only:
            more += ["--show-only", only]
        return run_helm("template", RELEASE, str(self.source), *place, *values, *more, home=self.home)

    def render(
        self, scenario: str = "minimal", *settings: str, kubernetes: str = "1.31", only: str = ""
    ) -> list[Manifest]:
        """Give every manifest, hooks included; fails the test if Helm does."""
        done = self.template(scenario, *settings, kubernetes=kubernetes, only=only)
        assert done.returncode == 0, done.stderr
        return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]

    def refusal(self, scenario: str, *settings: str) -> str:
        """Give what Helm says against these values; fails the test if it has nothing against them."""
        done = self.template(scenario, *settings)
        assert done.returncode != 0, f"{settings} should be refused"
        return done.stderr

    def notes(self, scenario: str, *settings: str) -> str:
        """Give what a person reads after an installation."""
        # Only an installation shows them, and that asks a cluster; so they are rendered as a manifest of a copy.
        with_notes = self.home / "with-notes"
        if not with_notes.exists():
            shutil.copytree(CHART, with_notes)
            (with_notes / "templates" / "notes.yaml").write_text(NOTES_TEMPLATE)
        (manifest,) = Chart(self.home, with_notes).render(scenario, *settings, only="templates/notes.yaml")
        return str(manifest["notes"])


def of_kind(manifests: Sequence[Manifest], *kinds: str) -> list[Manifest]:
    """Those of these kinds."""
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def one(manifests: Sequence[Manifest], *kinds: str) -> Manifest:
    """The only one of these kinds."""
    (found,) = of_kind(manifests, *kinds)
    return found


def named(manifests: Sequence[Manifest], kind: str, name: str) -> Manifest:
    """The one of this name."""
    (found,) = [manifest for manifest in of_kind(manifests, kind) if manifest["metadata"]["name"] == name]
    return found


def workload(manifests: Sequence[Manifest]) -> Manifest:
    """The Deployment or StatefulSet."""
    return one(manifests, "Deployment", "StatefulSet")


def pod_spec(manifest: Manifest) -> dict[str, Any]:
    """What its pods are, of a workload or a pod."""
    spec: dict[str, Any] = manifest["spec"] if manifest["kind"] == "Pod" else manifest["spec"]["template"]["spec"]
    return spec


def pods(manifests: Sequence[Manifest]) -> Iterator[dict[str, Any]]:
    """Every pod's specification."""
    return (pod_spec(manifest) for manifest in of_kind(manifests, "Deployment", "StatefulSet", "Pod"))


def configuration(manifests: Sequence[Manifest]) -> str:
    """The gateway's file, as it is mounted."""
    volume = next(volume for volume in pod_spec(workload(manifests))["volumes"] if volume["name"] == "config")
    text = named(manifests, "ConfigMap", volume["configMap"]["name"])["data"]["keyline.toml"]
    assert isinstance(text, str)
    return text
