"""containerd for a node, with everything it keeps in one directory, and images that it is given as archives."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from contextlib import suppress
from platform import machine
from typing import TYPE_CHECKING, Final

from integration.cluster.network import INSIDE, PODS_HERE
from integration.cluster.programs import PLUGINS
from integration.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PAUSE: Final = "keyline.local/pause:1"
NAMESPACE: Final = "k8s.io"
IMPORT_S_MAX: Final = 300.0
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""What images call a machine, by what it calls itself."""


class Runtime:
    """One containerd's directory."""

    def __init__(self, directory: Path) -> None:
        """Write its configuration there; nothing runs yet."""
        self.socket = directory / "containerd.sock"
        self._directory = directory
        network = directory / "network"
        network.mkdir()
        (network / "10-pods.conflist").write_text(json.dumps(_pod_network(directory)))
        (directory / "containerd.toml").write_text(
            f"""version = 2
root = "{directory / "content"}"
state = "{directory / "state"}"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  # Machines that are virtual themselves may not promise a process that it is the last to be killed.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{network}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""
        )

    @property
    def command(self) -> list[str]:
        """What runs it."""
        return [*INSIDE, "containerd", "--config", str(self._directory / "containerd.toml")]

    def load(self, archive: Iterable[bytes]) -> None:
        """Take an image as `docker save` writes it.

        Raises:
            StartError: it is none, or containerd does not run.
        """
        with subprocess.Popen(
            self._ctr("images", "import", "--no-unpack", "-"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            assert process.stdin is not None
            try:
                with suppress(BrokenPipeError):  # it has ended; what it said follows
                    for part in archive:
                        process.stdin.write(part)
                said, _ = process.communicate(timeout=IMPORT_S_MAX)
            finally:
                process.kill()
        if process.returncode:
            raise StartError(f"containerd does not take an image: {said.decode()}")

    def load_pause(self, program: Path) -> None:
        """Make the image of a pod's first process."""
        self.load([_archive(PAUSE, program)])

    def remove_all(self) -> None:
        """End every container: they outlive containerd otherwise."""
        for task in self._said("tasks", "list", "--quiet").split():
            subprocess.run(self._ctr("tasks", "delete", "--force", task), capture_output=True, check=False)
        for container in self._said("containers", "list", "--quiet").split():
            subprocess.run(self._ctr("containers", "delete", container), capture_output=True, check=False)

    def answers(self) -> bool:
        """Whether it runs."""
        return subprocess.run(self._ctr("version"), capture_output=True, check=False).returncode == 0

    def _said(self, *words: str) -> str:
        return subprocess.run(self._ctr(*words), capture_output=True, text=True, check=False).stdout

    def _ctr(self, *words: str) -> list[str]:
        return ["ctr", "--address", str(self.socket), "--namespace", NAMESPACE, *words]


def _pod_network(directory: Path) -> dict[str, object]:
    """A bridge at the node; Services are reached over it too, so a pod may reach itself by one (hairpin)."""
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods0",
                "isGateway": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(directory / "addresses"),
                    "ranges": [[{"subnet": PODS_HERE}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _archive(name: str, program: Path) -> bytes:
    """An image that is nothing but one program, as `docker save` writes it."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(program, arcname=program.name, filter=_of_root)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": ARCHITECTURES.get(machine(), machine()),
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for path, content in (
            ("layer.tar", layer.getvalue()),
            ("config.json", json.dumps(config).encode()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return whole.getvalue()


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.mode = 0o755
    return entry
