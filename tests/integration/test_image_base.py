"""The image's base by its digest, with a real daemon and a registry on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import docker
import pytest

from integration.containers.base import DIGEST_LABEL, NAME_LABEL, by_digest, labels, pin
from integration.containers.daemon import docker_daemon
from integration.errors import ToolMissingError
from tests.integration.image_registry import image_registry

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    """A Docker daemon's."""
    with ExitStack() as stack:
        try:
            yield stack.enter_context(docker_daemon())
        except ToolMissingError as error:
            pytest.skip(str(error))


def built(client: docker.DockerClient, context: Path, **options: Any) -> dict[str, str]:
    """Build what is there, and give the image's labels; nothing is left."""
    image, _ = client.images.build(path=str(context), rm=True, network_mode="none", **options)
    client.images.remove(str(image.id), force=True)
    return dict(image.labels)


def test_a_tag_is_built_on_by_the_digest_that_its_registry_tells(client: docker.DockerClient, tmp_path: Path) -> None:
    """It is pulled by the digest, built on, and named by the image; a pinned Dockerfile is one that docker builds."""
    dockerfile = tmp_path / "Dockerfile"
    with image_registry("3.11") as (repository, digest):
        name = f"{repository}:3.11"
        dockerfile.write_text(f"ARG BASE={name}\nFROM ${{BASE}}\nCOPY Dockerfile /\n")
        base = by_digest(client, name)
        assert base == f"{repository}@{digest}"
        digests = client.images.pull(base).attrs["RepoDigests"]
        # A daemon that other runs have used knows the same content by their registries' names too.
        assert [each for each in digests if each.startswith(f"{repository}@")] == [base]
        said = built(client, tmp_path, buildargs={"BASE": base}, labels=labels(name, base))
        assert (said[NAME_LABEL], said[DIGEST_LABEL]) == (name, digest)
        assert pin(client, dockerfile=dockerfile) == digest
        assert built(client, tmp_path) == {}
        client.images.remove(base)
    assert by_digest(client, name) == name, "the registry is gone, and nothing is made up"
