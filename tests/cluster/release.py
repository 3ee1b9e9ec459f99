"""A broker in a cluster under the names that apache/pulsar-helm-chart gives: what the gateway's chart goes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from integration.containers.pulsar import COMMAND, PORT, WEB_PORT
from tests.integration.conditions import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from integration.cluster.cluster import Cluster

NAME: Final = "pulsar"
"""Of the release; its names begin with it."""
BROKER: Final = f"{NAME}-broker"
READY_S_MAX: Final = 180.0
RESTRICTED: Final = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
"""Labels of a namespace that refuses every pod which may more than it must."""


@dataclass(frozen=True, slots=True)
class PulsarRelease:
    """One broker, in a namespace."""

    cluster: Cluster
    namespace: str
    image: str

    def install(self, settings: Mapping[str, str] | None = None) -> None:
        """Start it; returns when it serves."""
        host = f"{BROKER}.{self.namespace}.svc.cluster.local"
        values = {"advertisedAddress": host, "brokerDeleteInactiveTopicsEnabled": "false", **(settings or {})}
        labels = {"cluster": NAME, "component": "broker"}
        ports = {"pulsar": PORT, "http": WEB_PORT}
        service = {
            "clusterIP": "None",  # as there: the name is the pod's address
            "publishNotReadyAddresses": True,
            "selector": labels,
            "ports": [{"name": name, "port": port} for name, port in ports.items()],
        }
        self.cluster.kubectl.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": RESTRICTED}},
            self._object("v1", "Service", service),
            self._object(
                "apps/v1",
                "StatefulSet",
                {
                    "serviceName": BROKER,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": self._pod(values)},
                },
            ),
        )
        self.wait()

    def scale(self, replicas: int) -> None:
        """To none, and back; returns when that is so."""
        words = ("--namespace", self.namespace, "scale", f"statefulset/{BROKER}", f"--replicas={replicas}")
        self.cluster.kubectl(*words)
        if replicas:
            self.wait()
        else:
            self.cluster.kubectl("--namespace", self.namespace, "wait", "--for=delete", f"pod/{BROKER}-0")

    def wait(self) -> None:
        """Until it serves."""
        eventually(self._serves, f"{BROKER}-0 to be ready", deadline_s=READY_S_MAX)

    def _serves(self) -> bool:
        return self.cluster.kubectl.condition("Ready", f"pod/{BROKER}-0", "--namespace", self.namespace)

    def _object(self, version: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {"name": BROKER, "namespace": self.namespace}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}

    def _pod(self, settings: Mapping[str, str]) -> dict[str, Any]:
        container = {
            "name": "broker",
            "image": self.image,
            "command": ["sh", "-c", COMMAND],
            "env": [{"name": f"PULSAR_PREFIX_{name}", "value": value} for name, value in settings.items()],
            "ports": [{"containerPort": PORT}, {"containerPort": WEB_PORT}],
            "readinessProbe": {"httpGet": {"path": "/admin/v2/brokers/health", "port": WEB_PORT}, "periodSeconds": 2},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        return {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        }
