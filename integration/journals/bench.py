"""Measures the time and memory of an audit: `python -m integration.journals.bench`.

Journals of several sizes are made. Each is audited on one core and on two, by Spark and, for orientation, by DuckDB;
every answer is compared with what was planted. The engine `report` is the audit and all other jobs, step by step.
Growth is the time against that of the smallest size, by their sizes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import psutil
from rich.console import Console
from rich.table import Table

from integration.bench.machine import cpu_s
from integration.journals.make import make
from integration.journals.one_audit import ENGINES
from integration.journals.plan import Plan

MILLION: Final = 1_000_000
ROWS_PER_MESSAGE: Final = 2.02
FAULTS: Final = 5
LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Measured:
    """One audit."""

    engine: str
    cores: int
    millions: int
    seconds: float
    cpu_s: float
    peak_mib: int
    """Resident, of all its processes."""
    steps_s: dict[str, float]
    """Of an engine that has several: seconds by the step's name."""


def main() -> None:
    """Run all sizes and print a table; with `--json`, write it too."""
    parser = argparse.ArgumentParser(prog="python -m integration.journals.bench", description=__doc__)
    parser.add_argument("--millions", type=int, nargs="+", default=[5, 10, 20], help="rows of the record of messages")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--engines", nargs="+", choices=sorted(ENGINES), default=["spark", "duckdb"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    console = Console()
    found = []
    for millions in given.millions:
        with tempfile.TemporaryDirectory() as directory:
            known = make(Plan(messages=int(millions * MILLION / ROWS_PER_MESSAGE), faults=FAULTS), Path(directory))
            for engine in given.engines:
                for cores in given.cores:
                    one = _measure(engine, directory, cores, millions, known.violations)
                    console.print(f"  {one}")
                    found.append(one)
    console.print(_table(found))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(one) for one in found], indent=2))


def _measure(engine: str, root: str, cores: int, millions: int, known: dict[str, int]) -> Measured:
    command = [sys.executable, "-m", "integration.journals.one_audit", engine, root, str(cores)]
    begin, used = time.monotonic(), Used()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        tree = psutil.Process(running.pid)
        while running.poll() is None:
            used.look(tree)
            time.sleep(LOOK_S)
        assert running.stdout is not None
        *steps, answer = map(json.loads, running.stdout.read().splitlines())
    if answer != known:
        raise AssertionError(f"{engine} found {answer}, and planted were {known}")
    seconds, cpu_total_s = time.monotonic() - begin, sum(used.cpu_s.values())
    return Measured(engine, cores, millions, seconds, cpu_total_s, used.peak_bytes >> 20, *(steps or [{}]))


@dataclass(slots=True)
class Used:
    """What a process and its children have used, as far as was seen: a JVM that has ended is no child any more."""

    peak_bytes: int = 0
    cpu_s: dict[int, float] = field(default_factory=dict)

    def look(self, tree: psutil.Process) -> None:
        """Now."""
        resident = 0
        try:
            for process in (tree, *tree.children(recursive=True)):
                self.cpu_s[process.pid] = cpu_s(process)
                resident += process.memory_info().rss
        except psutil.NoSuchProcess:
            return
        self.peak_bytes = max(self.peak_bytes, resident)


def _table(found: list[Measured]) -> Table:
    table = Table("engine", "cores", "million events", "seconds", "CPU s", "peak MiB", "growth")
    for one in found:
        base = next(other for other in found if (other.engine, other.cores) == (one.engine, one.cores))
        growth = (one.seconds / base.seconds) / (one.millions / base.millions)
        row = (
            one.engine,
            one.cores,
            one.millions,
            f"{one.seconds:.1f}",
            f"{one.cpu_s:.1f}",
            one.peak_mib,
            f"{growth:.2f}",
        )
        table.add_row(*map(str, row))
    return table


if __name__ == "__main__":
    main()
