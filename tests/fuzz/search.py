"""Starts the guided search of one target and says what it did."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GRACE_S: Final = 120.0
"""For starting, instrumenting and the last input, beyond the time asked for."""
FAILURE_NAMES: Final = ("crash-", "timeout-", "oom-", "leak-")
_EXECUTIONS: Final = re.compile(r"number_of_executed_units:\s+(\d+)")
_PROGRESS: Final = re.compile(r"^#(\d+)\s", re.MULTILINE)
_COVERAGE: Final = re.compile(r"\bcov: (\d+) ft: (\d+)")
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Found:
    """One search that has ended."""

    target: str
    executions: int
    features: int
    """Different states of the code's branches that were seen."""
    failures: tuple[Path, ...]
    exit_code: int
    output: str

    @property
    def clean(self) -> bool:
        """Whether it ran to its end and found nothing."""
        return not self.exit_code and not self.failures


def search(target: str, work: Path, *options: str, seconds: float = 0.0) -> Found:
    """Search one target in a process of its own; options are libFuzzer's."""
    known = set(_failures(work / target))
    command = [sys.executable, "-m", "tests.fuzz.engine", target, str(work), *options]
    run = subprocess.run(
        command, cwd=_ROOT, capture_output=True, text=True, errors="replace", timeout=seconds + GRACE_S, check=False
    )
    output = run.stderr + run.stdout  # the traceback of a failure last
    executions = _EXECUTIONS.search(output)
    seen = _PROGRESS.findall(output)
    coverage = _COVERAGE.findall(output)
    return Found(
        target=target,
        executions=int(executions[1]) if executions else int(seen[-1]) if seen else 0,
        features=int(coverage[-1][1]) if coverage else 0,
        failures=tuple(path for path in _failures(work / target) if path not in known),
        exit_code=run.returncode,
        output=output,
    )


def _failures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*-*") if path.name.startswith(FAILURE_NAMES))
