"""Profiles the gateway: `--profile`, by py-spy on a real drain if it is installed, else by cProfile inside.

py-spy samples the running process from outside and slows it little; it is not among our dependencies
(`pip install py-spy`). cProfile counts every call and so makes small functions look dear; it runs the path of
`bench.path`, without sockets.
"""

from __future__ import annotations

import cProfile
import pstats
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from integration.bench import frames_made
from integration.bench.backlog import fill
from integration.bench.drain import drain_once
from integration.bench.machine import note
from integration.bench.path import GatewayPath
from integration.bench.stage import Sizes, Stage

SAMPLES_PER_S: Final = 200
LISTED: Final = 35
TOPIC: Final = "persistent://public/default/profiled"
WAIT_S_MAX: Final = 60.0
ENTRIES_AT_A_TIME: Final = 100


def sampler() -> str | None:
    """The py-spy program, from beside the interpreter or the path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def profile_drain(stage: Stage, program: str) -> str:
    """Sample the gateway while it drains an unbatched backlog; the functions, dearest first."""
    count = stage.sizes.unbatched_messages
    fill(stage, TOPIC, count, key_batched=False)
    drain_once(stage, TOPIC, "warm-up", "gateway", count)
    raw = stage.directory / "profile.raw"
    arguments = ["--rate", str(SAMPLES_PER_S), "--format", "raw", "--output", str(raw), "--nonblocking"]
    arguments += ["--duration", "86400", "--pid", str(stage.gateway.pid)]
    process = subprocess.Popen([program, "record", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        drain = drain_once(stage, TOPIC, "profiled", "gateway", count)
    finally:
        process.send_signal(2)  # it writes its samples when interrupted
        process.wait(WAIT_S_MAX)
    note(f"{drain.cpu_us('gateway'):.1f} us of CPU per message while sampled")
    return _functions(raw.read_text())


def _functions(raw: str) -> str:
    """Own and inclusive shares from lines of `frame;frame;frame count`."""
    own: Counter[str] = Counter()
    inclusive: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [frame.rpartition(":")[0] or frame for frame in stack.split(";")]
        own[frames[-1]] += int(count)
        for frame in set(frames):
            inclusive[frame] += int(count)
    total = sum(own.values()) or 1
    lines = [f"{total} samples", "   own  with callees"]
    lines += [f"{count / total:6.1%} {inclusive[name] / total:6.1%}  {name}" for name, count in own.most_common(LISTED)]
    return "\n".join(lines)


def profile_path(sizes: Sizes) -> str:
    """Count calls inside, without a broker."""
    tails = frames_made.single_tails(sizes.micro_messages)
    path = GatewayPath()
    path.pump(tails, ENTRIES_AT_A_TIME)
    profiler = cProfile.Profile()
    profiler.enable()
    path.pump(tails, ENTRIES_AT_A_TIME)
    profiler.disable()
    pstats.Stats(profiler, stream=sys.stdout).sort_stats("tottime").print_stats(LISTED)
    return f"{len(tails)} messages"
