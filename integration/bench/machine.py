"""Describes the machine: its hardware, its load and its speed during a measurement.

Problem: the bench runs on small, shared machines. Seconds depend on who else runs, and even CPU seconds do: with both
cores busy a virtual machine's core did half the work a second that it did alone. So each repetition notes the share
of the machine that others took, and the time a fixed piece of Python took (the reference), and rows can be read with
both in mind. Ratios come from neighbouring repetitions only.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import psutil

from integration.artifacts import TOOLS
from integration.java import java
from proxy.app.compiled import running

REFERENCE_STEPS: Final = 20_000
REFERENCE_TRIES: Final = 5
QUIET_SAMPLE_S: Final = 1.0
PEAK_LINE: Final = "VmHWM:"
FIRST_PRIORITY: Final = 1
"""The lowest of those that come before all ordinary processes."""


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds and others' share between two moments."""

    elapsed_s: float
    cpu_s: dict[str, float]
    """By the names given to the processes."""
    others_share: float
    """Share of all cores used by processes that do not belong to the measurement."""
    reference_ns: float
    """Time of one step of the reference, in CPU time, as the interval ended."""


class Meter:
    """Reads CPU times of processes that live as long as the meter is used."""

    def __init__(self, **pids: int) -> None:
        """Begin now; the measuring process belongs to the measurement."""
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self._own = psutil.Process()
        self._began_at = time.monotonic()
        self._ours = self._cpu()
        self._all = _machine_busy_s()

    def read(self) -> Usage:
        """What was used since the beginning."""
        elapsed = time.monotonic() - self._began_at
        used = {name: now - self._ours[name] for name, now in self._cpu().items()}
        busy = _machine_busy_s() - self._all
        others = (busy - sum(used.values())) / (elapsed * (psutil.cpu_count() or 1)) if elapsed else 0.0
        return Usage(elapsed, used, max(0.0, others), reference_ns())

    def _cpu(self) -> dict[str, float]:
        times = {name: cpu_s(process) for name, process in self._processes.items()}
        return {**times, "bench": cpu_s(self._own)}


def cpu_s(process: psutil.Process) -> float:
    """What a process has used since it began, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)


def resident_bytes(pid: int) -> int:
    """What a process has in memory now."""
    return int(psutil.Process(pid).memory_info().rss)


def _machine_busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def reference_ns() -> float:
    """CPU nanoseconds of one step of a fixed piece of Python, at its best of a few tries."""
    best = float("inf")
    for _ in range(REFERENCE_TRIES):
        table: dict[int, tuple[int, int]] = {}
        began = time.process_time_ns()
        for step in range(REFERENCE_STEPS):
            table[step & 1023] = (step, step + 1)
            table.get(step & 511)
        best = min(best, (time.process_time_ns() - began) / REFERENCE_STEPS)
    return best


def wait_until_quiet(share_max: float, timeout_s: float) -> bool:
    """Wait until others take no more than this share of the machine for a second; False if they never did."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        before = _machine_busy_s()
        time.sleep(QUIET_SAMPLE_S)
        if (_machine_busy_s() - before) / (QUIET_SAMPLE_S * (psutil.cpu_count() or 1)) <= share_max:
            return True
    return False


def put_first(pid: int) -> bool:
    """Let a process run as soon as it is woken, before all others, as on an idle machine; False without the right.

    On a busy machine a process that passes messages on is woken late, finds many, and so takes less CPU for each.
    """
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setscheduler(int(task.name), os.SCHED_FIFO, os.sched_param(FIRST_PRIORITY))
    except PermissionError:
        return False
    return True


def reset_peak(pid: int) -> None:
    """Let the kernel forget the process' peak of resident memory."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mib(pid: int) -> float:
    """Peak of resident memory since `reset_peak`, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(PEAK_LINE):
            return int(line.split()[1]) / 1024
    raise OSError(f"no {PEAK_LINE} in /proc/{pid}/status")


def describe(pulsar_version: str) -> dict[str, str]:
    """The machine and the versions, for the head of the table."""
    memory_gib = psutil.virtual_memory().total / (1 << 30)
    return {
        "cores": f"{psutil.cpu_count()} ({_processor()})",
        "memory": f"{memory_gib:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Pulsar": f"{pulsar_version} standalone, {_java_version()}",
        "Python": f"{platform.python_version()}, uvloop {version('uvloop')}, protobuf {version('protobuf')}",
        "clients": f"pulsar-perf {TOOLS.version}, pulsar-client {version('pulsar-client')}",
        "keyline": f"{version('keyline-gateway')}, commit {_commit()}",
        "build": running(),
        "reference": f"{reference_ns():.0f} ns",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _java_version() -> str:
    answer = subprocess.run([str(java()), "-version"], capture_output=True, text=True, check=False).stderr
    return "Java " + answer.partition('"')[2].partition('"')[0]


def _commit() -> str:
    here = Path(__file__).parent
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - git from the path, as everywhere
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    )
    return answer.stdout.strip() or "unknown"


def note(text: str) -> None:
    """Say on standard error how far the run is."""
    print(text, file=sys.stderr, flush=True)
