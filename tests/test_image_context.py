"""What a build of the image sees of a checkout: what it needs, and nothing that is a developer's own."""

from __future__ import annotations

from pathlib import Path

from docker.utils.build import exclude_paths

from integration.containers.images import CONTEXT
from integration.containers.wheels import REPOSITORY

PATTERNS = (REPOSITORY / ".dockerignore").read_text().splitlines()
OWN = (
    ".env",
    ".venv/bin/python",
    "build/lib/x.py",
    "proxy/__pycache__/x.pyc",
    "proxy/core/x.so",
    "tests/x.py",
    "helm/values.yaml",
)


def of_the_image() -> set[str]:
    """Files of this checkout that the image is made of."""
    found = [REPOSITORY / name for name in CONTEXT]
    found += [path for directory in found if directory.is_dir() for path in directory.rglob("*")]
    files = (path for path in found if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so")
    return {str(path.relative_to(REPOSITORY)) for path in files}


def test_a_build_sees_what_the_image_is_made_of_and_nothing_else(tmp_path: Path) -> None:
    """Also the wheels that `make image` puts there."""
    wanted = {*of_the_image(), "build/wheels/x.whl"}
    for name in (*wanted, *OWN):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    sent = exclude_paths(str(tmp_path), PATTERNS, dockerfile="Dockerfile")
    assert {path for path in sent if (tmp_path / path).is_file()} == wanted
