"""Faults put into the gateway by hand, each of which the simulator or the tests must notice: `make mutants`.

A mutant that survives is a missing checker. Each is a piece of source that is replaced in a copy of the project; a
piece that is not found exactly once is an error, so that the list follows the source. The tests named beside it are
asked first, which takes them seconds; what they let pass, or where there are none, the simulator must catch.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.groups.mutants import MUTANTS as OF_GROUPS
from tests.sim.core_mutants import MUTANTS as CORE_MUTANTS
from tests.sim.dead_letter_mutants import MUTANTS as DEAD_LETTER_MUTANTS
from tests.sim.deployment.mutants import MUTANTS as OF_OWNERS
from tests.sim.key_policy_mutants import MUTANTS as KEY_POLICY_MUTANTS
from tests.sim.lease_mutants import MUTANTS as LEASE_MUTANTS
from tests.sim.lot_mutants import MUTANTS as LOT_MUTANTS
from tests.sim.monitor_mutants import MUTANTS as MONITOR_MUTANTS
from tests.sim.mutant import Mutant
from tests.sim.net_mutants import MUTANTS as NET_MUTANTS
from tests.sim.parking_mutants import MUTANTS as PARKING_MUTANTS
from tests.sim.transaction_mutants import MUTANTS as TRANSACTION_MUTANTS

ROOT = Path(__file__).parents[2]
COPIED = ("proxy", "admin_api", "integration", "tests", "pyproject.toml")
SEEDS = 150
DEPLOYMENTS = 300
TIMEOUT_S = 600.0

MUTANTS = (
    *CORE_MUTANTS,
    *NET_MUTANTS,
    *KEY_POLICY_MUTANTS,
    *LEASE_MUTANTS,
    *TRANSACTION_MUTANTS,
    *DEAD_LETTER_MUTANTS,
    *PARKING_MUTANTS,
    *LOT_MUTANTS,
    *MONITOR_MUTANTS,
    *OF_GROUPS,
    *OF_OWNERS,
)


class Verdict(NamedTuple):
    """Who noticed a mutant."""

    mutant: Mutant
    caught_by: str
    """Empty if nobody did."""
    seconds: float


def try_one(mutant: Mutant) -> Verdict:
    """Make the mutant in a copy of the project, and let the simulator and the tests look at it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="keyline-mutant-") as directory:
        copy = Path(directory)
        _copy_project(copy)
        _mutate(copy / mutant.file, mutant)
        environment = {**os.environ, "PYTHONPATH": directory, "PYTHONDONTWRITEBYTECODE": "1"}
        caught_by = _caught_by(mutant, copy, environment)
    return Verdict(mutant, caught_by, time.monotonic() - began)


def _caught_by(mutant: Mutant, copy: Path, environment: dict[str, str]) -> str:
    if mutant.tests:
        tests = _run(copy, environment, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests.split())
        found = [line for line in tests.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if found:
            return f"tests: {found[0]}"
        if tests.returncode:
            raise SystemExit(f"{mutant.name}: {mutant.tests} cannot be run: {tests.stdout}{tests.stderr}")
    if mutant.simulated or mutant.deployed:
        sizes = ("--seeds", str(SEEDS * mutant.simulated), "--deployments", str(DEPLOYMENTS * mutant.deployed))
        simulator = _run(copy, environment, "-m", "tests.sim", *sizes, "--jobs", "1", "--stop")
        if simulator.returncode:
            said = (simulator.stdout + simulator.stderr).strip().splitlines()
            return f"simulator: {next((line for line in said if ' failed: ' in line), said[-1])}"
    return ""


def _run(copy: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def _copy_project(copy: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)


def _mutate(file: Path, mutant: Mutant) -> None:
    source = file.read_text()
    found = source.count(mutant.right)
    if found != 1:
        raise SystemExit(f"{mutant.name}: its source stands {found} times in {mutant.file}, not once; mend the list")
    changed = source.replace(mutant.right, mutant.wrong)
    compile(changed, mutant.file, "exec")  # a mutant that is no Python would be caught by anything
    file.write_text(changed)


def main() -> int:
    """Try all, or those whose name has the words asked for; exits with 1 when one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORDS", help="mutants with these words in their names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="at a time (%(default)s)")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name]
    survivors = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(try_one, chosen):
            survivors += not verdict.caught_by
            print(f"{verdict.seconds:5.0f} s  {verdict.mutant.name}: {verdict.caught_by or 'SURVIVES'}", flush=True)
    print(f"{len(chosen)} mutants, {survivors} survive")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
