"""Builds what the registries do not have ready, once, into the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from integration import artifacts
from integration.errors import DownloadError
from integration.locks import exclusive_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SAID_CHARACTERS = 2_000


def built_once(target: Path, what: str, build: Callable[[Path], Path]) -> Path:
    """Return `target`, a file or a directory of the cache, built first if it is not there; one process at a time.

    Args:
        target: below the cache's root.
        what: it is called so in messages.
        build: gets an empty directory and returns what it made in it. Only something whole gets the final name.
    """
    if target.exists():
        return target
    root = artifacts.cache_root()
    target.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(root / f"{target.parent.name}.lock", f"another process is building {what}; waiting"):
        if not target.exists():
            work = Path(tempfile.mkdtemp(prefix=".building-", dir=root))
            try:
                build(work).rename(target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return target


def run_build(
    command: Sequence[str], what: str, seconds_max: float, environment: Mapping[str, str] | None = None
) -> None:
    """Run a program that fetches or builds something, and return when it has succeeded.

    Args:
        command: program and arguments.
        what: is being done, for messages: "building Go's probe".
        seconds_max: after which it is ended.
        environment: added to ours.

    Raises:
        DownloadError: it failed or took longer; the text has the end of what it said.
    """
    whole = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=whole, timeout=seconds_max, check=False)
    except subprocess.TimeoutExpired:
        raise DownloadError(f"{what} took longer than {seconds_max:.0f} s") from None
    if done.returncode:
        raise DownloadError(f"{what} failed:\n{(done.stdout + done.stderr)[-SAID_CHARACTERS:]}")
