"""What the image installs: everything that the project needs, each package in one version, each with hashes."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
NOT_HERE = {"colorama"}
"""Of another operating system: universal pins name them with a marker."""
PIN = re.compile(r"^(\S+)==(\S+)((?: ;[^\\]*)?) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    """Versions by package, of one file; each line of it must be part of a pin, or a comment."""
    text = (ROOT / name).read_text()
    found: dict[str, str] = {canonicalize_name(match[1]): match[2] for match in PIN.finditer(text)}
    rest = [line for line in PIN.sub("", text).splitlines() if line and not line.startswith("#")]
    assert rest == [], f"{name}: run `make pins`"
    return found


def test_every_dependency_is_pinned_to_what_the_project_allows() -> None:
    """A dependency that is added, or a bound that is moved, must reach the image too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = pins("requirements.txt")
    for line in project["dependencies"] + project["optional-dependencies"]["tracing"]:
        wanted = Requirement(line)
        version = pinned.get(canonicalize_name(wanted.name))
        assert version is not None, f"{wanted.name} is not pinned: run `make pins`"
        assert wanted.specifier.contains(version, prereleases=True), f"{wanted} but {version}: run `make pins`"


def test_what_dependencies_need_is_pinned_too() -> None:
    """As far as this environment's own packages say; `pip --require-hashes` refuses the rest."""
    pinned = pins("requirements.txt")
    for name in pinned.keys() - NOT_HERE:
        for line in requires(name) or []:
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                assert canonicalize_name(wanted.name) in pinned, f"{name} needs {wanted.name}: run `make pins`"


def test_what_builds_the_wheel_is_pinned() -> None:
    """Nothing is fetched while the image is built."""
    made = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = pins("requirements-build.txt")
    for line in made["build-system"]["requires"] + made["project"]["optional-dependencies"]["compile"]:
        wanted = Requirement(line)
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)])
