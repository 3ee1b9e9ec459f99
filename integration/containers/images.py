"""Builds images: the gateway's, by the published Dockerfile, and a broker's where none can be pulled."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docker.errors import APIError, BuildError, ImageNotFound

from integration import artifacts
from integration.containers.base import BASE, BUILD_BASE, by_digest, declared
from integration.containers.base import labels as base_labels
from integration.containers.roots import BUILD, JAVA, PYTHON, Root, ensure_root
from integration.containers.wheels import REPOSITORY, link_wheels
from integration.errors import DownloadError

if TYPE_CHECKING:
    import docker

KEYLINE: Final = "keyline"
PULSAR: Final = "apachepulsar/pulsar"
CONTEXT: Final = (
    *("Dockerfile", ".dockerignore", "LICENSE", "README.md", "pyproject.toml", "hatch_build.py"),
    *("requirements.txt", "requirements-build.txt"),
    *("admin_api", "keyline_gateway", "proxy", "spark_reports", "helm/image.toml"),
)
"""All that a build may see of a checkout, wheels aside; `.dockerignore` says the same for builds by hand."""
MADE_OF: Final = "keyline.made-of"
"""Label of an image that was built here: a digest of everything it was made of."""
LOCAL_PULSAR: Final = Path(__file__).parent / "pulsar_image"


def build_keyline(client: docker.DockerClient, tag: str = f"{KEYLINE}:local", base: str = "") -> str:
    """Build the gateway's image from this checkout, unless it is there as it would be, and return its name.

    Args:
        client: of the daemon that builds it.
        tag: the name it gets.
        base: image to build it on, of pure Python then; by default compiled, on the Dockerfile's, by its digest, or
            on a root made here where there is no registry.

    Raises:
        ToolMissingError, DownloadError: what it is made of could not be had, or a step failed.
    """
    with tempfile.TemporaryDirectory(prefix="keyline-image-") as directory:
        context = Path(directory)
        for name in CONTEXT:
            _copy(REPOSITORY / name, context / name)
        arguments = {"PIP_NO_INDEX": "1"}
        if base:
            name, base = base, by_digest(client, base)
            if not _pulled(client, base):
                raise DownloadError(
                    f"the image {name} to build on is neither here nor in a registry that can be reached"
                )
            arguments |= {"BASE": base, "BUILD_BASE": base, "KEYLINE_COMPILE": "0"}
        else:
            name, base = _ensured(client, BASE, PYTHON)
            arguments |= {"BASE": base, "BUILD_BASE": _ensured(client, BUILD_BASE, BUILD)[1]}
        stages = [str(client.images.get(arguments[each]).id) for each in (BASE, BUILD_BASE)]
        labels = base_labels(name, base) | {MADE_OF: _digest(context, *stages)}
        if not _local(client, tag) or client.images.get(tag).labels.get(MADE_OF) != labels[MADE_OF]:
            link_wheels(context / "build" / "wheels")
            _build(client, context, tag, arguments, labels)
    return tag


def _ensured(client: docker.DockerClient, argument: str, root: Root) -> tuple[str, str]:
    """An image that the Dockerfile names, how it is named and by its digest; a root made here if it cannot be had."""
    name = declared(argument)
    base = by_digest(client, name)
    if not _pulled(client, base):
        name = base = ensure_root(client, root)
    return name, base


def ensure_pulsar(client: docker.DockerClient, version: str) -> str:
    """Return the name of an image with a broker of this version: the published one, or one that was built here.

    Raises:
        ToolMissingError, DownloadError: neither can be had.
    """
    published = f"{PULSAR}:{version}"
    if _pulled(client, published):
        return published
    root = ensure_root(client, JAVA)
    tag = f"keyline-pulsar:{version}-{_digest(LOCAL_PULSAR, root)}"
    if not _local(client, tag):
        with tempfile.TemporaryDirectory(prefix="keyline-pulsar-image-") as directory:
            context = Path(directory) / "context"
            shutil.copytree(LOCAL_PULSAR, context)
            _link_tree(artifacts.ensure(artifacts.broker(version)), context / "lib")
            _build(client, context, tag, {"BASE": root})
    return tag


def _digest(tree: Path, *roots: str) -> str:
    """Of what an image is made of; jars and wheels aside, which a version or a pinned hash decides."""
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    made_of = [root.encode() for root in roots]
    for path in files:
        made_of += [f"{path.relative_to(tree)} {path.stat().st_mode:o}".encode(), path.read_bytes()]
    return hashlib.sha256(b"\0".join(made_of)).hexdigest()[:12]


def _pulled(client: docker.DockerClient, name: str) -> bool:
    if _local(client, name):
        return True
    try:
        client.images.pull(name)
    except (APIError, ImageNotFound):
        return False
    return True


def _local(client: docker.DockerClient, name: str) -> bool:
    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def _build(
    client: docker.DockerClient,
    context: Path,
    tag: str,
    arguments: dict[str, str],
    labels: dict[str, str] | None = None,
) -> str:
    try:
        client.images.build(
            path=str(context),
            tag=tag,
            buildargs=arguments,
            labels=labels or {},
            network_mode="none",  # every step has what it needs, so that nothing else gets in
            rm=True,
            forcerm=True,
        )
    except BuildError as error:
        said = "".join(str(part.get("stream", part.get("error", ""))) for part in error.build_log)
        raise DownloadError(f"image {tag} could not be built:\n{said[-3000:]}") from None
    except APIError as error:
        raise DownloadError(f"image {tag} could not be built: {error}") from None
    return tag


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    else:
        shutil.copy2(source, target)


def _link_tree(source: Path, target: Path) -> None:
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except (OSError, shutil.Error):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
