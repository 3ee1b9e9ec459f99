"""Root file systems made on this machine, for images where no registry is at hand.

`debootstrap` makes one in some ten seconds from Debian's packages, and needs to be root for it. A root is known by a
digest of what it was made of, and kept as an image of the daemon's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docker.errors import ImageNotFound

from integration import artifacts
from integration.building import run_build
from integration.errors import ToolMissingError

if TYPE_CHECKING:
    import docker

SUITE: Final = "bookworm"
MADE_S_MAX: Final = 900.0
NEEDLESS: Final = ("var/cache/apt", "var/lib/apt/lists", "usr/share/man", "usr/share/info", "usr/share/locale")
"""Emptied: who installs something more gets lists and packages anew."""


@dataclass(frozen=True, slots=True)
class Root:
    """What is in one."""

    name: str
    packages: tuple[str, ...]

    @property
    def tag(self) -> str:
        """Of the image that it becomes."""
        made_of = hashlib.sha256(repr((SUITE, self.packages, NEEDLESS)).encode()).hexdigest()[:12]
        return f"keyline-root-{self.name}:{made_of}"


PYTHON: Final = Root("python", ("python3", "python3-venv", "ca-certificates"))
BUILD: Final = Root("build", (*PYTHON.packages, "python3-dev", "gcc", "libc6-dev"))
"""The same Python with what compiling needs."""
JAVA: Final = Root("java", ("openjdk-17-jre-headless", "ca-certificates"))


def ensure_root(client: docker.DockerClient, root: Root) -> str:
    """Return the image's name, made first if it is missing.

    Raises:
        ToolMissingError: debootstrap is not installed, or we are not root.
        DownloadError: it failed; the text has the end of what it said.
    """
    try:
        client.images.get(root.tag)
    except ImageNotFound:
        _make(client, root)
    return root.tag


def _make(client: docker.DockerClient, root: Root) -> None:
    program = shutil.which("debootstrap")
    if program is None or os.geteuid() != 0:
        why = "it is not installed" if program is None else "only root may run it"
        raise ToolMissingError(f"an image without a registry needs `debootstrap`, and {why}")
    work = Path(tempfile.mkdtemp(prefix=".root-", dir=artifacts.cache_root()))
    try:
        tree = work / "root"
        command = [program, "--variant=minbase", f"--include={','.join(root.packages)}", SUITE, str(tree)]
        run_build(command, f"making {root.tag}", MADE_S_MAX)
        _thin(tree)
        archive = work / "root.tar"
        command = ["tar", "--create", "--file", str(archive), "--directory", str(tree), "."]
        run_build(command, f"packing {root.tag}", MADE_S_MAX)
        name, _, tag = root.tag.partition(":")
        client.api.import_image_from_file(str(archive), repository=name, tag=tag)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _thin(tree: Path) -> None:
    for name in NEEDLESS:
        shutil.rmtree(tree / name, ignore_errors=True)
        (tree / name).mkdir(parents=True)
    for path in (tree / "usr/share/doc").rglob("*"):
        if path.is_file() and path.name != "copyright":  # licences stay with what they are of
            path.unlink()
