"""Runs probe programs beside each other, each directly at the broker and through the gateway, and gathers outcomes."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from integration.compatibility.features import FEATURES
from integration.compatibility.outcomes import EVENTS, Findings, Outcome, Served, Trial
from integration.compatibility.place import NAMESPACE, Place
from integration.errors import IntegrationError
from integration.logs import tail
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUN_S_MAX: Final = 900.0
POLL_S: Final = 0.2
DIRECT: Final = "direct"
THROUGH: Final = "through"
ROOT: Final = Path(__file__).parents[2]


@dataclass
class Run:
    """One program on its way to a broker."""

    client: str
    way: str
    process: OwnedProcess
    calls_itself: str | None = None
    library: str = ""
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """Of its topics."""
        return prefix_of(self.client, self.way)

    def read(self) -> None:
        """Take what it printed.

        Raises:
            IntegrationError: it failed, or left features out.
        """
        for line in self.process.log.read_text(errors="replace").splitlines():
            if line.startswith('{"library"'):
                self.library = str(json.loads(line)["library"])
            elif line.startswith("{"):
                values = json.loads(line)
                self.outcomes[values["feature"]] = Outcome(values["ok"], values["detail"])
        missing = [feature.name for feature in FEATURES if feature.name not in self.outcomes]
        if missing or self.process.process.returncode:
            text = f"the {self.client} probe ended with {self.process.process.returncode} and without {missing}"
            raise IntegrationError(f"{text}:\n{tail(self.process.log)}")


def prefix_of(client: str, way: str) -> str:
    """Of the names of all topics of a run."""
    return f"{NAMESPACE}{client}-{way}-"


def run_probes(
    version: str, programs: Mapping[str, Sequence[str]], directory: Path, replicas: int = 1
) -> dict[str, Findings]:
    """Try everything on one version of the broker.

    Args:
        version: of Pulsar.
        programs: command lines by client, see `clients`.
        directory: where logs go.
        replicas: how many gateways there are, in owner mode if more than one.

    Returns:
        What was found, by client.

    Raises:
        IntegrationError: the broker, the gateway or a program did not run as it should. A feature that fails is a
            finding.
    """
    with Place(version, directory, replicas) as place, ExitStack() as processes:
        runs = [
            _start(place, client, way, command, processes)
            for client, command in programs.items()
            for way in (DIRECT, THROUGH)
        ]
        _await(place, runs)
    for run in runs:
        run.read()
    ways = {(run.client, run.way): run for run in runs}
    return {client: _compare(place, ways[client, DIRECT], ways[client, THROUGH]) for client in programs}


def _start(place: Place, client: str, way: str, command: Sequence[str], processes: ExitStack) -> Run:
    prefix = prefix_of(client, way)
    place.make_partitioned(prefix)
    url = place.broker.service_url if way == DIRECT else place.service_url
    arguments = [url, prefix, str(place.directory), *(feature.name for feature in FEATURES)]
    log = place.directory / f"{client}-{way}.log"
    process = OwnedProcess([*command, *arguments], log, cwd=ROOT, environment={"KEYLINE_PROBE_TOKEN": place.token})
    return Run(client, way, processes.enter_context(process))


def _await(place: Place, runs: Sequence[Run]) -> None:
    deadline = time.monotonic() + RUN_S_MAX
    while any(run.process.running for run in runs):
        if time.monotonic() > deadline:
            late = next(run for run in runs if run.process.running)
            raise IntegrationError(f"the {late.client} probe takes too long:\n{tail(late.process.log)}")
        for run in runs:
            if run.way == DIRECT and run.calls_itself is None:
                run.calls_itself = place.client_version(run.prefix)
        time.sleep(POLL_S)


def _compare(place: Place, direct: Run, through: Run) -> Findings:
    trials = {}
    for feature in FEATURES:
        kinds = place.kinds_of(through.prefix, feature.name)
        served = next((word for kind, word in EVENTS.items() if kind in kinds), Served.PASSES)
        trials[feature.name] = Trial(direct.outcomes[feature.name], through.outcomes[feature.name], served)
    return Findings(direct.library, direct.calls_itself or "", trials)
