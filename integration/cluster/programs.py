"""The programs of a node: built from their Go modules into the cache, once for each state of `node/`."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from integration import artifacts
from integration.building import run_build
from integration.errors import ToolMissingError
from integration.go_tool import require_go
from integration.once import made_once

SOURCE: Final = Path(__file__).parent / "node"
VERSION: Final = "1.34.4"
"""Of Kubernetes, as `node/go.mod` has it."""
NAMES: Final = (
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"),
    *("etcd", "coredns"),
)
BUILD_S_MAX: Final = 3_600.0
VERSION_PACKAGE: Final = "k8s.io/component-base/version"
SYSTEM: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "sysctl": "procps",
}
"""What a node needs of the machine, and the packages that have it."""
PLUGINS: Final = Path("/usr/lib/cni")
"""Where Debian has the network's plugins."""


def ensure_programs() -> Path:
    """Return a directory with `NAMES` and `pause`, built first if need be: minutes, on two cores some ten.

    Raises:
        ToolMissingError: Go is missing or too old; the text is fit for a skip's reason.
        DownloadError: modules could not be fetched or built; nothing half is kept.
    """
    root = artifacts.cache_root()
    waiting = "another process is building a cluster; waiting"
    return made_once(root / "cluster" / _digest(), root / "cluster.lock", waiting, _build)


def require_system() -> None:
    """Raise ToolMissingError, whose text is fit for a skip's reason, if this machine cannot be a node."""
    if os.geteuid() != 0:
        raise ToolMissingError("a cluster needs namespaces and mounts, which only root may make")
    missing = sorted({package for program, package in SYSTEM.items() if shutil.which(program) is None})
    if not (PLUGINS / "bridge").exists():
        missing.append("containernetworking-plugins")
    if missing:
        raise ToolMissingError(f"a cluster needs {', '.join(missing)}: apt-get install {' '.join(missing)}")


def _build(work: Path) -> Path:
    go, directory = require_go("a cluster"), work / "programs"
    directory.mkdir()
    major, minor, _ = VERSION.split(".")
    said = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s -w", *(f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in said.items())])
    for name, package in (("node", "."), ("pause", "./pause")):
        command = [go, "build", "-C", str(SOURCE), "-trimpath", "-ldflags", flags, "-o", str(directory / name), package]
        run_build(command, f"building a cluster's {name}", BUILD_S_MAX, {"CGO_ENABLED": "0"})
    for name in NAMES:
        (directory / name).symlink_to("node")
    return directory


def _digest() -> str:
    files = sorted(path for path in SOURCE.rglob("*") if path.is_file())
    made_of = [VERSION.encode(), *(path.read_bytes() for path in files)]
    return hashlib.sha256(b"\0".join(made_of)).hexdigest()[:12]
