"""Runs a program that fetches or builds something, to its end."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from integration.errors import DownloadError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SAID_CHARACTERS = 2_000


def run_build(
    command: Sequence[str], what: str, seconds_max: float, environment: Mapping[str, str] | None = None
) -> str:
    """Run it and return its standard output when it has succeeded.

    Args:
        command: program and arguments.
        what: is being done, for messages: "building Go's probe".
        seconds_max: after which it is ended.
        environment: added to this process's environment.

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
    return done.stdout
