"""Runs trials of the clients' probe programs against one address."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from integration.compatibility.clients import CLIENTS
from integration.compatibility.outcomes import Outcome
from integration.compatibility.place import NAMESPACE
from integration.compatibility.runs import ROOT
from integration.errors import ToolMissingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration.compatibility.place import Place

PROBE_S_MAX: Final = 300


def tried(client: str, url: str, place: Place, trials: Sequence[str]) -> dict[str, str]:
    """What the client's program saw, by trial; the test is skipped where the program cannot be had."""
    way = "direct" if url == place.broker.service_url else "through"
    return {trial: outcome.detail for trial, outcome in outcomes(client, url, place, trials, way).items()}


def outcomes(
    client: str, url: str, place: Place, trials: Sequence[str], way: str, seconds_max: float = PROBE_S_MAX
) -> dict[str, Outcome]:
    """What came of each trial; `way` is in the names of its topics, which no other run of the place may use."""
    try:
        program = next(each for each in CLIENTS if each.name == client).prepare()
    except ToolMissingError as missing:
        pytest.skip(str(missing))
    told = {"KEYLINE_PROBE_TOKEN": place.token, "KEYLINE_PROBE_ADMIN_URL": place.broker.admin_url}
    done = subprocess.run(
        [*program, url, f"{NAMESPACE}probe-{client}-{way}-", str(place.directory), *trials],
        cwd=ROOT,
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds_max,
    )
    assert not done.returncode, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["feature"]: Outcome(line["ok"], line["detail"]) for line in lines if "feature" in line}
