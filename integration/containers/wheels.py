"""The packages of the gateway's image, fetched outside of it: with hashes, once, and built upon without a network."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Final

from integration import artifacts
from integration.building import run_build
from integration.once import made_once

PYTHON: Final = "3.11"
"""Of the image."""
PINNED: Final = ("requirements.txt", "requirements-build.txt")
FETCHED_S_MAX: Final = 900.0
REPOSITORY: Final = Path(__file__).resolve().parents[2]


def ensure_wheels() -> Path:
    """Return a directory with a wheel of every package that the image installs.

    Raises:
        DownloadError: pip could not fetch one, or its hash is another than the one that is named.
    """
    pinned = [REPOSITORY / name for name in PINNED]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in pinned)).hexdigest()[:12]
    root = artifacts.cache_root()
    waiting = "another process is fetching wheels; waiting"
    return made_once(root / f"wheels-{digest}", root / "wheels.lock", waiting, partial(_fetch, pinned))


def _fetch(pinned: list[Path], work: Path) -> Path:
    for path in pinned:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--only-binary", ":all:"]
        command += ["--python-version", PYTHON, "--dest", str(work), "--requirement", str(path)]
        run_build(command, f"fetching the packages of {path.name}", FETCHED_S_MAX)
    work.chmod(0o755)
    return work


def link_wheels(directory: Path) -> None:
    """Put them into `directory`, which is made; nothing is copied where one file system has both."""
    wheels = ensure_wheels()
    directory.mkdir(parents=True)
    for wheel in wheels.iterdir():
        try:
            os.link(wheel, directory / wheel.name)
        except OSError:
            shutil.copy2(wheel, directory / wheel.name)
