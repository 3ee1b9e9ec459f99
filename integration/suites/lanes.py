"""Runs tests on both ways at once, each way a process in a network namespace of its own, and gathers outcomes.

A lane gets `tests.jsonl` in its directory and writes `outcomes.jsonl` there, a line as each test ends, and the tests'
logs beside it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from integration.errors import IntegrationError, ToolMissingError
from integration.logs import tail
from integration.processes import OwnedProcess
from integration.suites.lane import OUTCOMES, WORK
from integration.suites.outcomes import Outcome, Test, Way

ROOT: Final = Path(__file__).parents[2]
POLL_S: Final = 0.5
TELL_S: Final = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """When a run is given up."""

    test_s: float
    whole_s: float


def inside_namespace() -> list[str]:
    """What to put before a command to give it a network of its own.

    Raises:
        ToolMissingError: the machine does not allow it; the text is fit for a skip's reason.
    """
    unshare = shutil.which("unshare")
    if unshare is None:
        raise ToolMissingError("network namespaces need `unshare`, of util-linux")
    command = [unshare, "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolMissingError(f"network namespaces are not allowed here: {done.stderr.strip()}")
    return command


def run_both(
    tests: Sequence[Test],
    version: str,
    credentials: Path,
    directory: Path,
    limits: Limits,
    tell: Callable[[str], None] = print,
) -> dict[Way, dict[str, Outcome]]:
    """Run all tests once on each way.

    Args:
        tests: in the order in which each way runs them, one after the other.
        version: of the broker.
        credentials: the Go module's `integration-tests`.
        directory: where logs go, below a folder for each way.
        limits: for a test, and for all.
        tell: is told of the progress now and then.

    Returns:
        What became of each, by way and name.

    Raises:
        ToolMissingError: there are no network namespaces.
        IntegrationError: a broker or the gateway did not run as it should, or the whole took too long.
    """
    inside = inside_namespace()
    with ExitStack() as processes:
        lanes = {}
        for way in Way:
            place = directory / way
            place.mkdir(parents=True)
            lines = (json.dumps(dataclasses.asdict(test)) + "\n" for test in tests)
            (place / WORK).write_text("".join(lines))
            program = [sys.executable, "-m", "integration.suites.lane"]
            command = [*inside, *program, way, version, str(credentials), str(place), str(limits.test_s)]
            lanes[way] = processes.enter_context(OwnedProcess(command, place / "lane.log", cwd=ROOT))
        _await(lanes, directory, len(tests), limits.whole_s, tell)
    return {way: _outcomes(directory / way) for way in Way}


def _await(
    lanes: Mapping[Way, OwnedProcess], directory: Path, count: int, whole_s: float, tell: Callable[[str], None]
) -> None:
    deadline = time.monotonic() + whole_s
    told = time.monotonic()
    while True:
        running = any(lane.running for lane in lanes.values())
        if failed := [way for way, lane in lanes.items() if lane.process.poll()]:
            raise IntegrationError(f"the lane {failed[0]} failed:\n{tail(directory / failed[0] / 'lane.log')}")
        if not running:
            return
        if time.monotonic() > deadline:
            raise IntegrationError(f"not done in {whole_s:.0f} s: {_progress(directory, count)}")
        if time.monotonic() - told > TELL_S:
            told = time.monotonic()
            tell(_progress(directory, count))
        time.sleep(POLL_S)


def _progress(directory: Path, count: int) -> str:
    done = (f"{way} {len(_outcomes(directory / way))}" for way in Way)
    return f"{', '.join(done)} of {count} tests"


def _outcomes(place: Path) -> dict[str, Outcome]:
    file = place / OUTCOMES
    if not file.exists():
        return {}
    # A line that is being written is left for the next look.
    whole = file.read_text().rpartition("\n")[0]
    outcomes = (Outcome.from_json(json.loads(line)) for line in whole.splitlines())
    return {outcome.name: outcome for outcome in outcomes}
