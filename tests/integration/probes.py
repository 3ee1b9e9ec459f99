"""Runs trials of the clients' probe programs against one address."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from integration.compatibility.clients import CLIENTS
from integration.compatibility.place import NAMESPACE
from integration.compatibility.runs import ROOT
from integration.errors import ToolMissingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration.compatibility.place import Place

PROBE_S_MAX: Final = 300


def tried(client: str, url: str, place: Place, trials: Sequence[str]) -> dict[str, str]:
    """What the client's program saw, by trial; the test is skipped where the program cannot be had."""
    try:
        program = next(each for each in CLIENTS if each.name == client).prepare()
    except ToolMissingError as missing:
        pytest.skip(str(missing))
    environment = {**os.environ, "KEYLINE_PROBE_TOKEN": place.token}
    way = "direct" if url == place.broker.service_url else "through"
    command = [*program, url, f"{NAMESPACE}probe-{client}-{way}-", str(place.directory), *trials]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PROBE_S_MAX
    )
    assert not done.returncode, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["feature"]: line["detail"] for line in lines if "feature" in line}
