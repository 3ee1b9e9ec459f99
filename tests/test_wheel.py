"""The wheel, as it is installed: what it says of itself, and that it is in no other package's way."""

from __future__ import annotations

import email
import os
import site
import socket
import subprocess
import sys
import venv
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any, Final

import pytest

from hatch_build import project_urls
from proxy import __version__

ROOT: Final = Path(__file__).resolve().parents[1]
OTHER: Final = "proxy.py==2.4.10"
BUILD: Final = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir")
ADDRESS: Final = "https://code.example.org/us/keyline"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    told = {**os.environ, "KEYLINE_PROJECT_URL": ADDRESS}
    subprocess.run([sys.executable, "-m", "pip", *BUILD, str(folder), str(ROOT)], check=True, env=told, timeout=400)
    (made,) = folder.glob("*.whl")
    return made


class Environment:
    """A fresh virtual environment that has this one's dependencies, but not this checkout."""

    def __init__(self, folder: Path, *installed: str) -> None:
        """Make it, and install these without their dependencies."""
        venv.create(folder, with_pip=False, symlinks=True)
        self.bin = folder / "bin"
        (packages,) = folder.glob("lib/python*/site-packages")
        self._pip("install", "--no-deps", *installed)
        # Last on the path, and its own .pth files do not count there.
        (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
        self.packages = packages

    def run(self, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a program of it, away from the checkout, with these variables in its environment."""
        program, *rest = command
        return subprocess.run(
            [str(self.bin / program), *rest],
            cwd=self.bin,
            env={"PATH": os.environ["PATH"], **settings},
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )

    def _pip(self, *words: str) -> None:
        pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(self.bin / "python")]
        subprocess.run([*pip, *words], check=True, timeout=400)


@pytest.fixture(scope="module")
def beside(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """With proxy.py, whose import name is `proxy`."""
    return Environment(tmp_path_factory.mktemp("beside"), str(wheel), OTHER)


def metadata(wheel: Path) -> Message[str, str]:
    """What the wheel says of itself."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_its_metadata_names_licence_urls_and_python(wheel: Path) -> None:
    """What an index and a licence scanner read."""
    said = metadata(wheel)
    assert (said["Name"], said["Version"]) == ("keyline-gateway", __version__)
    assert (said["License-Expression"], said["License-File"]) == ("Apache-2.0", "LICENSE")
    assert f"Source, {ADDRESS}" in said.get_all("Project-URL", [])
    assert "Programming Language :: Python :: 3.11" in said.get_all("Classifier", [])
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in archive.namelist())


def test_it_has_one_name_among_packages(wheel: Path) -> None:
    """Everything else would be in the way of somebody's."""
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert "keyline_gateway/keyline.service" in archive.namelist()
    assert tops == {"keyline_gateway", f"keyline_gateway-{__version__}.dist-info"}


def test_both_work_beside_proxy_py(beside: Environment) -> None:
    """Each finds its own `proxy`: by script and by module, from any directory."""
    for command in (("keyline",), ("python", "-m", "keyline_gateway")):
        done = beside.run(*command, "--version")
        assert (done.returncode, done.stdout) == (0, f"keyline {__version__} (pure Python)\n"), done.stderr
    assert "ordering_mode" in beside.run("keyline", "check-config").stdout
    other = beside.run("proxy", "--version")
    assert (other.returncode, other.stdout.strip()) == (0, "2.4.10"), other.stderr
    found = beside.run("python", "-c", "import keyline_gateway.client, proxy; print(proxy.__file__)")
    assert found.stdout.strip() == str(beside.packages / "proxy" / "__init__.py"), found.stderr


def test_the_health_check_is_ours(beside: Environment) -> None:
    """It finds our packages too, and says that there is no gateway."""
    with socket.socket() as silent:
        # Bound, but not listening: nothing else on this machine, a gateway at the usual port included, answers there.
        silent.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*silent.getsockname())
        done = beside.run("python", "-m", "keyline_gateway.health", KEYLINE_ADMIN_LISTEN=address)
    assert done.returncode == 1
    assert "no gateway answers" in done.stderr


def test_a_package_that_came_first_is_named(beside: Environment) -> None:
    """Something loaded proxy.py before our command began: it says so, with the file and the remedy."""
    load = "import proxy, sys; from keyline_gateway.command import main; main()"
    done = beside.run("python", "-c", load)
    assert done.returncode == 1
    assert str(beside.packages / "proxy" / "__init__.py") in done.stderr
    assert "virtual environment of its own" in done.stderr


def test_an_address_that_is_none_is_refused() -> None:
    """No index would take it."""
    assert project_urls("") == {}
    with pytest.raises(ValueError, match=r"KEYLINE_PROJECT_URL = 'example\.org' must be .*https://"):
        project_urls("example.org")


def test_a_checkout_and_a_wheel_have_one_map(wheel: Path, pytestconfig: pytest.Config) -> None:
    """Every source of the product is in the wheel, where `start.py` looks."""
    with zipfile.ZipFile(wheel) as archive:
        there = set(archive.namelist())
    folders: dict[str, Any] = {"proxy": "keyline_gateway/packages/", "admin_api": "keyline_gateway/packages/"}
    folders |= {"spark_reports": "keyline_gateway/packages/", "keyline_gateway": ""}
    for folder, place in folders.items():
        for file in (pytestconfig.rootpath / folder).rglob("*.py"):
            assert f"{place}{file.relative_to(pytestconfig.rootpath)}" in there
