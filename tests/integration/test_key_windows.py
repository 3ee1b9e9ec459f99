"""Key windows and ack leases with a real broker and official clients of three languages, through one gateway and three.

The case is the one that users report: of five messages of a key, the first is given back twice. Directly the worker
sees the others first; with a window of 1 it sees them behind it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.compatibility.clients import CLIENTS
from integration.compatibility.place import NAMESPACE, Place
from integration.compatibility.runs import ROOT
from integration.errors import ToolMissingError

IN_ORDER: Final = "0 0 0 1 2 3 4"
LEASED: Final = "extended, then lost after 1"
"""Redeliveries of the message that comes again."""
OVERTAKEN: Final = "0 1 2 3 4 0 0"
TRIALS: Final = {
    "python": ("window_nack", "window_batch", "window_timeout"),
    "java": ("window_nack", "window_batch", "window_index", "window_backoff", "window_timeout"),
    "go": ("window_nack", "window_batch"),
}
PROBE_S_MAX: Final = 300


@pytest.fixture(scope="module", params=[1, 3], ids=["gateway", "replicas"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker with the services that the probe programs ask for, and gateways before it."""
    directory: Path = tmp_path_factory.mktemp("windows")
    with Place(PULSAR_VERSIONS[0], directory, request.param) as made:
        yield made


def tried(client: str, url: str, place: Place, trials: Sequence[str]) -> dict[str, str]:
    """What the client's program saw, by trial."""
    try:
        program = next(each for each in CLIENTS if each.name == client).prepare()
    except ToolMissingError as missing:
        pytest.skip(str(missing))
    environment = {**os.environ, "KEYLINE_PROBE_TOKEN": place.token}
    way = "direct" if url == place.broker.service_url else "through"
    command = [*program, url, f"{NAMESPACE}windows-{client}-{way}-", str(place.directory), *trials]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PROBE_S_MAX
    )
    assert not done.returncode, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["feature"]: line["detail"] for line in lines if "feature" in line}


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("client", TRIALS)
def test_nothing_of_a_key_overtakes_what_is_given_back(client: str, place: Place) -> None:
    """By a negative ack, an ack timeout or a redelivery backoff, batches included; directly the others come first."""
    assert tried(client, place.service_url, place, TRIALS[client]) == dict.fromkeys(TRIALS[client], IN_ORDER)
    assert tried(client, place.broker.service_url, place, ["window_nack"]) == {"window_nack": OVERTAKEN}


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("client", TRIALS)
def test_a_message_is_kept_for_as_long_as_its_worker_asks_for_more_time(client: str, place: Place) -> None:
    """By an ordinary call: the last message id. Without it, it comes again after the lease."""
    assert tried(client, place.service_url, place, ["ack_lease"]) == {"ack_lease": LEASED}
