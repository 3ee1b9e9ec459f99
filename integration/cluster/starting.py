"""Starts a node's programs one after another; each ends before those that it needs."""

from __future__ import annotations

import json
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from integration.certificates import Authority
from integration.cluster.kubectl import Kubectl
from integration.cluster.network import API, DNS, INSIDE, NODE, PODS, SERVICES
from integration.cluster.runtime import Runtime
from integration.errors import StartError
from integration.logs import tail
from integration.ports import LOOPBACK
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

DOMAIN: Final = "cluster.local"
PORT: Final = 6443
ETCD: Final = f"http://{LOOPBACK}:2379"
START_S_MAX: Final = 240.0
END_S_MAX: Final = 60.0
INTERVAL_S: Final = 0.3
NODE_NAME: Final = "node"


class Starting:
    """One cluster's programs."""

    def __init__(self, directory: Path, programs: Path, ends: ExitStack) -> None:
        """Keep everything in `directory`; what ends a program is put on `ends`."""
        self._directory = directory
        self._programs = programs
        self._ends = ends
        self._processes: list[OwnedProcess] = []
        self._token = secrets.token_hex(16)
        self._authority = Authority(directory / "keys")
        hosts = (NODE, LOOPBACK, API)
        self._own = self._authority.sign("node", *hosts, role="kubernetes")
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(self._access()))
        self.kubectl = Kubectl(programs / "kubectl", self.kubeconfig)

    def start(self) -> Runtime:
        """Return when the node is ready for pods."""
        runtime = Runtime(self._directory)
        containerd = self._run("containerd", runtime.command)
        containerd.wait_until(runtime.answers, "waiting for containerd", START_S_MAX)
        self._ends.callback(runtime.remove_all)
        runtime.load_pause(self._programs / "pause")
        self._control()
        kubelet = self._node(runtime)
        ready = partial(self.kubectl.condition, "Ready", f"node/{NODE_NAME}")
        kubelet.wait_until(ready, "waiting for the node to be ready", START_S_MAX)
        for process in self._processes:
            if not process.running:
                raise StartError(f"a cluster: a program of it has ended; end of {process.log}:\n{tail(process.log)}")
        self._ends.callback(self._end_pods)
        return runtime

    def _control(self) -> None:
        data = str(self._directory / "etcd")
        self._program("etcd", "--data-dir", data, "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD)
        tokens = self._directory / "tokens.csv"
        tokens.write_text(f'{self._token},admin,admin,"system:masters"\n')
        key = str(self._own.key)
        server = self._program(
            "kube-apiserver",
            *("--etcd-servers", ETCD, "--bind-address", NODE, "--secure-port", str(PORT)),
            *("--tls-cert-file", str(self._own.certificate), "--tls-private-key-file", key),
            *("--token-auth-file", str(tokens), "--authorization-mode", "Node,RBAC"),
            *("--service-cluster-ip-range", SERVICES, "--service-account-key-file", str(self._own.certificate)),
            *("--service-account-signing-key-file", key),
            *("--service-account-issuer", f"https://kubernetes.default.svc.{DOMAIN}"),
            *("--kubelet-client-certificate", str(self._own.certificate), "--kubelet-client-key", key),
            "--kubelet-preferred-address-types=InternalIP",
        )
        answers = partial(self.kubectl, "get", "--raw", "/readyz", check=False)
        server.wait_until(lambda: answers() == "ok", "waiting for the API server", START_S_MAX)
        access = ("--kubeconfig", str(self.kubeconfig), "--leader-elect=false", "--bind-address", LOOPBACK)
        self._program(
            "kube-controller-manager",
            *(*access, "--root-ca-file", str(self._authority.file), "--service-account-private-key-file", key),
            *("--allocate-node-cidrs=true", "--cluster-cidr", PODS, "--use-service-account-credentials=true"),
        )
        self._scheduler = self._program("kube-scheduler", *access)

    def _node(self, runtime: Runtime) -> OwnedProcess:
        access = ("--kubeconfig", str(self.kubeconfig), "--hostname-override", NODE_NAME)
        # The table of connections is the whole machine's, and not ours to size.
        local = ("--bind-address", LOOPBACK, "--proxy-mode", "iptables", "--conntrack-max-per-core=0")
        self._program("kube-proxy", *access, *local, "--cluster-cidr", PODS)
        names = self._directory / "Corefile"
        names.write_text(
            f"{DOMAIN}:53 {{\n bind {DNS}\n errors\n kubernetes {DOMAIN} {{\n  kubeconfig {self.kubeconfig}\n }}\n}}\n"
        )
        self._program("coredns", "-conf", str(names))
        settings = self._directory / "kubelet.json"
        settings.write_text(json.dumps(self._kubelet(runtime)))
        return self._program(
            "kubelet",
            *(*access, "--config", str(settings), "--node-ip", NODE, "--cert-dir", str(self._directory / "keys")),
            *("--root-dir", str(self._directory / "kubelet")),
        )

    def _kubelet(self, runtime: Runtime) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": NODE,
            # Pods reach it too: only who shows a certificate of ours may ask, and that is the API server alone.
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._authority.file)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{runtime.socket}",
            "cgroupDriver": "cgroupfs",
            "clusterDNS": [DNS],
            "clusterDomain": DOMAIN,
            "failSwapOn": False,
            "failCgroupV1": False,
            "enforceNodeAllocatable": [],
            "resolvConf": "/dev/null",
            # A disk that somebody else has filled is no reason to evict.
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
            "podLogsDir": str(self._directory / "logs"),
            "volumePluginDir": str(self._directory / "plugins"),
        }

    def _program(self, name: str, *arguments: str) -> OwnedProcess:
        return self._run(name, [*INSIDE, str(self._programs / name), *arguments])

    def _run(self, name: str, command: list[str]) -> OwnedProcess:
        process = OwnedProcess(command, self._directory / f"{name}.log")
        self._ends.callback(process.stop)
        self._processes.append(process)
        return process

    def _end_pods(self) -> None:
        """While the kubelet still runs, which knows how: mounts and processes of pods would be left.

        Without a scheduler nothing comes in their place.
        """
        self._scheduler.stop()
        self.kubectl("delete", "pods", "--all", "--all-namespaces", "--grace-period=0", "--force", check=False)
        deadline = time.monotonic() + END_S_MAX
        pods = self._directory / "kubelet" / "pods"
        while any(pods.glob("*/volumes")) and time.monotonic() < deadline:
            time.sleep(INTERVAL_S)

    def _access(self) -> dict[str, object]:
        cluster = {"server": f"https://{NODE}:{PORT}", "certificate-authority": str(self._authority.file)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
            "current-context": "here",
        }
