"""A cluster of one node: started, given images, asked by `kubectl` and Helm, and gone without a trace.

Everything that Kubernetes itself decides is real: admission with the Pod Security standards, the scheduler, the
kubelet's probes and hooks, Services, names, evictions. What a cluster has from elsewhere is not there: a registry, a
provisioner of volumes, an enforcer of NetworkPolicies, metrics.
"""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from integration import artifacts
from integration.cluster.kubectl import COMMAND_S_MAX, Kubectl
from integration.cluster.network import node_network
from integration.cluster.programs import ensure_programs, require_system
from integration.cluster.starting import Starting
from integration.cluster.traces import nothing_left
from integration.containers.daemon import docker_daemon
from integration.containers.images import build_keyline, ensure_pulsar
from integration.helm_tool import run_helm
from integration.locks import exclusive_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.cluster.runtime import Runtime


class Cluster:
    """One that runs."""

    def __init__(self, directory: Path, kubectl: Kubectl, kubeconfig: Path, runtime: Runtime) -> None:
        """`directory` has its files, logs of its programs too."""
        self.directory = directory
        self.kubectl = kubectl
        self.kubeconfig = kubeconfig
        self._runtime = runtime

    def load_images(self, pulsar_version: str) -> tuple[str, str]:
        """Build the gateway's image and a broker's where they are not there, take them, and return their names.

        Raises:
            ToolMissingError: there is no Docker daemon, and none can be started.
        """
        with docker_daemon() as client:
            names = build_keyline(client), ensure_pulsar(client, pulsar_version)
            for name in names:
                self._runtime.load(client.images.get(name).save(named=name))
        return names

    def helm(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Helm to its end and return what it said."""
        return run_helm(*words, home=self.directory / "helm", kubeconfig=self.kubeconfig, seconds_max=COMMAND_S_MAX)

    def address(self, namespace: str, service: str) -> str:
        """A Service's, which this machine reaches."""
        return str(self.kubectl.get("service", service, "--namespace", namespace)["spec"]["clusterIP"])


@contextmanager
def kubernetes() -> Iterator[Cluster]:
    """Give a cluster whose node is ready; everything of it ends with the block.

    Raises:
        ToolMissingError: this machine cannot be a node; the text is fit for a skip's reason.
        DownloadError: its programs could not be built.
        StartError: a program ended, or the node did not become ready; the text has the end of a log.
    """
    require_system()
    programs = ensure_programs()
    with ExitStack() as ends:
        # Addresses and names are the same for each.
        ends.enter_context(exclusive_lock(artifacts.cache_root() / "node.lock", "another cluster runs here; waiting"))
        ends.enter_context(nothing_left())
        # Sockets' paths must be short; a mount that is left must not hide why.
        place = tempfile.TemporaryDirectory(prefix="keyline-cluster-", ignore_cleanup_errors=True)
        directory = Path(ends.enter_context(place))
        ends.callback(_unmount, directory)
        ends.enter_context(node_network())
        starting = Starting(directory, programs, ends)
        yield Cluster(directory, starting.kubectl, starting.kubeconfig, starting.start())


def _unmount(directory: Path) -> None:
    """What kubelet and containerd have mounted below, the innermost first."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    below = [path for path in reversed(mounts) if path.startswith(f"{directory}/")]
    command = ["umount", "--lazy", *below]
    if below:
        subprocess.run(command, capture_output=True, check=False)
