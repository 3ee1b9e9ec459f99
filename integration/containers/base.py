"""The images that the gateway's is built on and in: each one content, known by its digest, if a registry can tell it.

A tag is a name that its owner may give to another image tomorrow. The Dockerfile names each in one place; `make pins`
writes there which digest the tag has now (as it writes packages' hashes), and from then on a build is on that image,
or on a root made here where no registry is at hand. Until then `make image` asks the registry at each build and builds
on the digest it is told; the image says which. Nothing is pinned that no registry has said.

    python -m integration.containers.base      write the digests into the Dockerfile
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
BASE: Final = "BASE"
BUILD_BASE: Final = "BUILD_BASE"
"""Of the stage that compiles."""
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
NAME_LABEL: Final = "org.opencontainers.image.base.name"
DIGEST_LABEL: Final = "org.opencontainers.image.base.digest"


def declared(argument: str = BASE, dockerfile: Path = DOCKERFILE) -> str:
    """The base that the Dockerfile names, with a digest or without. Raises `IntegrationError` if it names none."""
    found = re.search(rf"(?m)^ARG {argument}=(\S+)$", dockerfile.read_text())
    if found is None:
        raise IntegrationError(
            f"{dockerfile}: there should be a line `ARG {argument}=image:tag` or `ARG {argument}=image:tag@digest`"
        )
    return found[1]


def by_digest(client: docker.DockerClient, name: str) -> str:
    """The same image by its digest alone: that of the name, or the one a registry gives; else the name as it is."""
    digest = _digest_of(client, name)
    return name if digest is None else f"{parse_repository_tag(name.partition('@')[0])[0]}@{digest}"


def labels(name: str, base: str) -> dict[str, str]:
    """What an image says of its base: how it was named, and the digest it was built on if there is one."""
    _, _, digest = base.partition("@")
    return {NAME_LABEL: name.partition("@")[0]} | ({DIGEST_LABEL: digest} if digest else {})


def pin(client: docker.DockerClient, argument: str = BASE, dockerfile: Path = DOCKERFILE) -> str:
    """Write into the Dockerfile which digest a base's tag has now, and return it.

    Raises:
        IntegrationError: no registry can be asked; the file is as it was.
    """
    named = declared(argument, dockerfile)
    tag = named.partition("@")[0]
    digest = _digest_of(client, tag)
    if digest is None:
        raise IntegrationError(f"no registry tells the digest of {tag}; the Dockerfile is left as it was")
    line = f"ARG {argument}={{}}\n"
    dockerfile.write_text(dockerfile.read_text().replace(line.format(named), line.format(f"{tag}@{digest}")))
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
            for argument in (BASE, BUILD_BASE):
                print(f"Dockerfile: {argument} is {declared(argument).partition('@')[0]} as {pin(client, argument)}")
    except (IntegrationError, DockerException) as error:
        print(f"the base is not pinned: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
