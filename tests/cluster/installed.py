"""A release of the gateway's chart in a cluster, and what tests ask of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from helm.build import CHART
from integration.containers.images import KEYLINE
from tests.cluster.release import NAME as PULSAR

if TYPE_CHECKING:
    import subprocess

    from integration.cluster.cluster import Cluster

WAIT: Final = ("--wait", "--timeout", "120s")
SMALL: Final = (
    *(f"pulsar.release={PULSAR}", "pulsar.component=broker"),
    *(f"image.repository={KEYLINE}", "image.tag=local", "image.pullPolicy=Never"),
    "resources.requests.cpu=50m",  # several gateways and a broker on one small machine
)


@dataclass(frozen=True, slots=True)
class Installed:
    """One."""

    cluster: Cluster
    namespace: str
    name: str

    @property
    def fullname(self) -> str:
        """Of what the chart makes."""
        return f"{self.name}-keyline"

    @property
    def _selector(self) -> str:
        return f"app.kubernetes.io/instance={self.name},app.kubernetes.io/name=keyline"

    @property
    def service_url(self) -> str:
        """For clients of this machine."""
        return f"pulsar://{self.cluster.address(self.namespace, self.fullname)}:6650"

    def install(self, *settings: str) -> str:
        """Return what Helm printed, when all replicas are ready."""
        done = self.helm("install", *settings)
        assert done.returncode == 0, done.stderr + self.described()
        assert "would violate PodSecurity" not in done.stderr
        return done.stdout

    def upgrade(self, *settings: str) -> None:
        """With these settings more than before; returns when all replicas are ready."""
        done = self.helm("upgrade", *settings)
        assert done.returncode == 0, done.stderr + self.described()

    def uninstall(self) -> None:
        """Return when its pods are gone."""
        self.cluster.helm("uninstall", self.name, "--namespace", self.namespace, *WAIT)
        self.kubectl("wait", "--for=delete", "pods", "--selector", self._selector, "--timeout=120s")

    def helm(self, command: str, *settings: str) -> subprocess.CompletedProcess[str]:
        """Install or upgrade."""
        given = [part for setting in (*SMALL, *settings) for part in ("--set", setting)]
        return self.cluster.helm(command, self.name, str(CHART), "--namespace", self.namespace, *given, *WAIT)

    def kubectl(self, *words: str, check: bool = True) -> str:
        """In its namespace."""
        return self.cluster.kubectl("--namespace", self.namespace, *words, check=check)

    def pods(self) -> list[dict[str, Any]]:
        """Its replicas, without those that are going."""
        words = ("pods", "--namespace", self.namespace, "--selector", self._selector)
        found = self.cluster.kubectl.get(*words)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def names(self) -> set[str]:
        """Of its pods."""
        return {pod["metadata"]["name"] for pod in self.pods()}

    def restarts(self) -> int:
        """Of all containers."""
        return sum(status["restartCount"] for pod in self.pods() for status in pod["status"]["containerStatuses"])

    def ready(self) -> int:
        """How many replicas may get clients."""
        return sum(
            one["type"] == "Ready" and one["status"] == "True"
            for pod in self.pods()
            for one in pod["status"].get("conditions", [])
        )

    def described(self) -> str:
        """For the message of a failed assertion."""
        logs = self.kubectl("logs", "--selector", self._selector, "--tail", "20", check=False)
        return self.kubectl("describe", "pods", check=False)[-6_000:] + logs[-6_000:]
