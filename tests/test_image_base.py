"""What the image is built on: one content by its digest, or a name where no registry tells one; never a made-up one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError

from integration.containers.base import BASE, BUILD_BASE, DIGEST_LABEL, NAME_LABEL, by_digest, declared, labels, pin
from integration.errors import IntegrationError

DIGEST = "sha256:" + "0123456789abcdef" * 4
OTHER = "sha256:" + "f" * 64


class Registry:
    """In the place of a Docker client: a registry that tells one digest, or is not there."""

    def __init__(self, digest: str | None) -> None:
        self._digest = digest
        self.asked: list[str] = []
        self.images = self

    def get_registry_data(self, name: str) -> Any:
        """As the SDK's."""
        self.asked.append(name)
        if self._digest is None:
            raise APIError("no such host")
        return SimpleNamespace(id=self._digest)


def client(digest: str | None) -> Any:
    """Of a daemon that can ask that registry."""
    return Registry(digest)


@pytest.mark.parametrize(
    ("argument", "named"), [(BASE, "python:3.11-slim-bookworm"), (BUILD_BASE, "python:3.11-bookworm")]
)
def test_the_dockerfile_names_its_bases_by_a_digest_if_by_any(argument: str, named: str) -> None:
    """A tag, or a tag and what it was when it was pinned: the same Python, with a compiler and without."""
    tag, _, digest = declared(argument).partition("@")
    assert tag == named
    assert not digest or by_digest(client(None), declared(argument)).endswith(digest)


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("python:3.11-slim", "python"),
        ("python", "python"),
        ("registry.example:5000/mirror/python:3.11", "registry.example:5000/mirror/python"),
    ],
)
def test_a_name_becomes_the_digest_that_the_registry_gives_it(name: str, repository: str) -> None:
    """What is pulled and built on is that very content."""
    assert by_digest(client(DIGEST), name) == f"{repository}@{DIGEST}"
    assert labels(name, f"{repository}@{DIGEST}") == {NAME_LABEL: name, DIGEST_LABEL: DIGEST}


def test_a_pinned_name_asks_nobody() -> None:
    """Whatever the registry says today."""
    registry = client(OTHER)
    assert by_digest(registry, f"python:3.11@{DIGEST}") == f"python@{DIGEST}"
    assert registry.asked == []


def test_without_a_registry_a_name_stays_a_name() -> None:
    """And no label says otherwise."""
    assert by_digest(client(None), "keyline-root-python:1") == "keyline-root-python:1"
    assert labels("keyline-root-python:1", "keyline-root-python:1") == {NAME_LABEL: "keyline-root-python:1"}


@pytest.mark.parametrize("wrong", ["", "latest", "sha256:12", "md5:" + "0" * 64, DIGEST + "0", DIGEST.upper()])
def test_what_is_no_digest_is_refused(wrong: str) -> None:
    """Of a registry or of the Dockerfile."""
    with pytest.raises(IntegrationError, match="no digest"):
        by_digest(client(wrong or "?"), "python:3.11")
    if wrong:
        with pytest.raises(IntegrationError, match="no digest"):
            by_digest(client(DIGEST), f"python:3.11@{wrong}")


def test_pins_writes_the_digest_and_nothing_else(tmp_path: Path) -> None:
    """Of the base that is meant, also over an older one; without a registry the file stays as it was."""
    dockerfile = tmp_path / "Dockerfile"
    text = (
        "# ARG BASE=no\nARG BASE=python:3.11\nARG BUILD_BASE=python:3.11\nFROM ${BUILD_BASE} AS build\nFROM ${BASE}\n"
    )
    dockerfile.write_text(text)
    with pytest.raises(IntegrationError, match="no registry"):
        pin(client(None), dockerfile=dockerfile)
    assert dockerfile.read_text() == text
    for digest in (OTHER, DIGEST):
        assert pin(client(digest), dockerfile=dockerfile) == digest
        assert dockerfile.read_text() == text.replace("\nARG BASE=python:3.11", f"\nARG BASE=python:3.11@{digest}")
    dockerfile.write_text("FROM scratch\n")
    with pytest.raises(IntegrationError, match="ARG BASE"):
        pin(client(DIGEST), dockerfile=dockerfile)
