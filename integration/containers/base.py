"""The image that the gateway's is built on: one content, known by its digest, wherever a registry can tell it.

A tag is a name that its owner may give to another image tomorrow. The Dockerfile names the base in one place; `make
pins` writes there which digest the tag has now (as it writes packages' hashes), and from then on a build is on that
image, or on a root made here where no registry is at hand. Until then `make image` asks the registry at each build and
builds on the digest it is told; the image says which. Nothing is pinned that no registry has said.

    python -m integration.containers.base      write the digest into the Dockerfile
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from docker.errors import APIError, DockerException
from docker.utils import parse_repository_tag

from integration.containers.daemon import docker_daemon
from integration.containers.wheels import REPOSITORY
from integration.errors import IntegrationError

if TYPE_CHECKING:
    from pathlib import Path

    import docker

DOCKERFILE: Final = REPOSITORY / "Dockerfile"
_ARGUMENT: Final = re.compile(r"(?m)^(ARG BASE=)(\S+)$")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
NAME_LABEL: Final = "org.opencontainers.image.base.name"
DIGEST_LABEL: Final = "org.opencontainers.image.base.digest"


def declared(dockerfile: Path = DOCKERFILE) -> str:
    """The base that the Dockerfile names, with a digest or without. Raises `IntegrationError` if it names none."""
    found = _ARGUMENT.search(dockerfile.read_text())
    if found is None:
        raise IntegrationError(
            f"{dockerfile}: there should be a line `ARG BASE=image:tag` or `ARG BASE=image:tag@digest`"
        )
    return found[2]


def by_digest(client: docker.DockerClient, name: str) -> str:
    """The same image by its digest alone: that of the name, or the one a registry gives; else the name as it is."""
    digest = _digest_of(client, name)
    return name if digest is None else f"{parse_repository_tag(name.partition('@')[0])[0]}@{digest}"


def labels(name: str, base: str) -> dict[str, str]:
    """What an image says of its base: how it was named, and the digest it was built on if there is one."""
    _, _, digest = base.partition("@")
    return {NAME_LABEL: name.partition("@")[0]} | ({DIGEST_LABEL: digest} if digest else {})


def pin(client: docker.DockerClient, dockerfile: Path = DOCKERFILE) -> str:
    """Write into the Dockerfile which digest its base's tag has now, and return it.

    Raises:
        IntegrationError: no registry can be asked; the file is as it was.
    """
    tag = declared(dockerfile).partition("@")[0]
    digest = _digest_of(client, tag)
    if digest is None:
        raise IntegrationError(f"no registry tells the digest of {tag}; the Dockerfile is left as it was")
    dockerfile.write_text(_ARGUMENT.sub(rf"\g<1>{tag}@{digest}", dockerfile.read_text()))
    return digest


def _digest_of(client: docker.DockerClient, name: str) -> str | None:
    _, _, digest = name.partition("@")
    if not digest:
        try:
            digest = str(client.images.get_registry_data(name).id)
        except APIError:  # no registry, or none that has it
            return None
    if not _DIGEST.fullmatch(digest):
        raise IntegrationError(f"{name}: {digest!r} is no digest; it should be sha256: and 64 hexadecimal digits")
    return digest


def main() -> int:
    """Return the exit code; without a registry there is nothing to do, which is said."""
    try:
        with docker_daemon() as client:
            print(f"Dockerfile: built on {declared().partition('@')[0]} as {pin(client)}")
    except (IntegrationError, DockerException) as error:
        print(f"the base is not pinned: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
