"""Runs the parts of `tests.parts`, several beside each other, and says what each took and what was left out.

Problem: the parts together take two hours, a runner has a limit, and what it kills at the limit has said
nothing. Rule kept: parts begin in the order of their value, one that would not be over in time is left out and named,
and one that takes longer than it may is ended in peace; it has failed only if a test of it has. The last line is a
closing line with the totals of all.

    python -m tests.run_parts                          the fast tier, then every part
    python -m tests.run_parts --minutes 60 --jobs 2    what that time allows
    python -m tests.run_parts faults restarts          these
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

import psutil

from integration.artifacts import cache_root
from tests.part import Part
from tests.part_results import NOTHING, Totals, closing_totals, failures, judged
from tests.parts import FAST, NAMES, PARTS
from tests.thorough import VARIABLE

ROOT: Final = Path(__file__).resolve().parents[1]
LOOK_S: Final = 0.2
END_S_MAX: Final = 90.0
"""Of a part that is told to end: its test in progress gives up, brokers are stopped, and pytest counts."""
KILL_S_MAX: Final = 10.0
OVERRUN: Final = 3.0
"""A part may take so many times the minutes it is known for, and `SLACK_MINUTES` besides."""
SLACK_MINUTES: Final = 5.0
TOLD_CHARACTERS_MAX: Final = 60_000
INTERRUPTED: Final = 130


@dataclass(frozen=True)
class Outcome:
    """What became of one part."""

    part: Part
    word: str
    """passed, failed, cut, or left out."""
    minutes: float = 0.0
    totals: Totals = NOTHING
    why: str = ""


def command_of(part: Part, jobs: int, logs: Path) -> list[str]:
    """How a part is run. The fast tier has all processes; a part has one, for others run beside it."""
    if part.command:
        words = {"PYTHON": sys.executable, "LOGS": str(logs / part.name)}
        return [words.get(word, word) for word in part.command]
    pytest = [sys.executable, "-m", "pytest", "--part", part.name, "--durations", "15"]
    if part == FAST:
        processes = jobs + 1 if jobs else 0  # as `make test` has it
        return [*pytest, "-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    return [*pytest, *part.paths]


class Running:
    """A part that runs, in a session of its own, with its output in a file."""

    def __init__(self, part: Part, command: Sequence[str], log: Path, ends_at: float) -> None:
        """Start it. It is to be over at `ends_at`, of the monotonic clock."""
        self.part = part
        self.log = log
        self.ends_at = ends_at
        self.cut = False
        self._since = time.monotonic()
        environment = os.environ | ({VARIABLE: "1"} if part.repeats else {})
        self._output: IO[bytes] = log.open("wb")
        self._process = subprocess.Popen(
            list(command),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    @property
    def minutes(self) -> float:
        """Since it was started."""
        return (time.monotonic() - self._since) / 60

    def end(self) -> None:
        """Ask it to end, as Ctrl-C would; kill what does not, and all that it started."""
        self.cut = True
        family = [*psutil.Process(self._process.pid).children(recursive=True)]
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for child in family:
            if child.is_running():
                child.terminate()
        _, alive = psutil.wait_procs(family, KILL_S_MAX)
        for child in alive:
            child.kill()

    def outcome(self) -> Outcome:
        """Judge what has ended: by its closing line, and by its exit code where that says more."""
        self._output.close()
        said, code = self.log.read_text(errors="replace"), self._process.returncode
        totals = closing_totals(said) or NOTHING if self.cut else judged(said, code)
        if totals.failed:
            return Outcome(self.part, "failed", self.minutes, totals, f"exit code {code}; {self.log}")
        if self.cut:
            return Outcome(self.part, "cut", self.minutes, totals, f"took longer than it may; {self.log}")
        return Outcome(self.part, "passed", self.minutes, totals)


class Run:
    """All parts that were asked for, in the order of their value, so many beside each other."""

    def __init__(
        self,
        parts: Sequence[Part],
        jobs: int,
        ends_at: float | None,
        logs: Path,
        say: Callable[[str], None],
    ) -> None:
        """Describe it. Without `ends_at`, of the monotonic clock, no part is left out or cut."""
        self._waiting = list(parts)
        self._jobs = max(jobs, 1)
        self._processes = jobs
        self._ends_at = ends_at
        self._logs = logs
        self._say = say
        self._running: list[Running] = []
        self.outcomes: list[Outcome] = []

    def run(self) -> None:
        """Run them all; what runs is ended when this is interrupted."""
        self._logs.mkdir(parents=True, exist_ok=True)
        try:
            while self._waiting or self._running:
                self._collect()
                self._begin()
                time.sleep(LOOK_S)
        finally:
            for running in self._running:
                running.end()
                self._over(running)

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._jobs and not self._alone():
            part = self._waiting[0]
            if part == FAST and self._running:
                return
            del self._waiting[0]
            left = self._minutes_left()
            if part.minutes > left:
                why = f"its {part.minutes:.0f} minutes do not fit into {max(left, 0):.0f}"
                self._note(Outcome(part, "left out", why=why))
                continue
            self._say(f"{part.name} begins: {part.proves}")
            self._running.append(self._start(part))

    def _start(self, part: Part) -> Running:
        own = time.monotonic() + 60 * (OVERRUN * part.minutes + SLACK_MINUTES)
        ends_at = float("inf") if self._ends_at is None else min(own, self._ends_at - END_S_MAX)
        command = command_of(part, self._processes, self._logs)
        return Running(part, command, self._logs / f"{part.name}.log", ends_at)

    def _alone(self) -> bool:
        """Whether the fast tier runs, which has all processes for itself."""
        return any(running.part == FAST for running in self._running)

    def _minutes_left(self) -> float:
        if self._ends_at is None:
            return float("inf")
        return (self._ends_at - END_S_MAX - time.monotonic()) / 60

    def _collect(self) -> None:
        for running in list(self._running):
            if not running.over and time.monotonic() > running.ends_at:
                running.end()
            if running.over:
                self._running.remove(running)
                self._over(running)

    def _over(self, running: Running) -> None:
        outcome = running.outcome()
        if outcome.word == "failed":
            told = failures(running.log.read_text(errors="replace"), TOLD_CHARACTERS_MAX)
            self._say(f"---- what {running.part.name} said ----\n{told}\n---- end of {running.part.name} ----")
        self._note(outcome)

    def _note(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._say(f"{outcome.part.name} {outcome.word}: {outcome.why or outcome.totals}")


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Say what each part took, and what was left out."""
    lines = [f"{'part':14} {'minutes':>8} {'known':>6} {'passed':>7} {'failed':>7} {'skipped':>8}  result"]
    for outcome in outcomes:
        totals = outcome.totals
        lines.append(
            f"{outcome.part.name:14} {outcome.minutes:8.1f} {outcome.part.minutes:6.0f}"
            f" {totals.passed:7} {totals.failed:7} {totals.skipped:8}"
            f"  {outcome.word}{': ' + outcome.why if outcome.why else ''}"
        )
    for word in ("left out", "cut"):
        names = [outcome.part.name for outcome in outcomes if outcome.word == word]
        if names:
            lines.append(f"{word}: {', '.join(names)}")
    return lines


def ran_before(log: str, code: str, minutes: str) -> Outcome:
    """Read what `make test` said when it was run before; lint and types fail by their code alone."""
    totals = closing_totals(Path(log).read_text(errors="replace")) or NOTHING
    if int(code) and not totals.failed:
        totals = replace(totals, failed=1)
    word, why = ("failed", f"exit code {code}; {log}") if totals.failed else ("passed", "")
    return Outcome(FAST, word, float(minutes), totals, why)


def chosen(names: Sequence[str], *, without_fast: bool) -> list[Part]:
    """Return the parts that were named, or the fast tier and all parts."""
    if names:
        return [NAMES[name] for name in names]
    return [*PARTS] if without_fast else [FAST, *PARTS]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.run_parts", description="run parts of the tests")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"by default all: {', '.join(NAMES)}")
    parser.add_argument("--jobs", type=int, default=2, help="how many parts run beside each other (default: 2)")
    parser.add_argument("--minutes", type=float, help="leave out, and at last cut, what takes longer than so many")
    parser.add_argument("--after", nargs=3, metavar=("LOG", "CODE", "MINUTES"), help="`make test` was run before")
    options = parser.parse_args(given)
    if unknown := sorted(set(options.parts) - set(NAMES)):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return options


def main() -> int:
    """Run what the command line names; the exit code is 0 if nothing failed."""
    options = arguments()
    ends_at = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    before = [ran_before(*options.after)] if options.after else []
    parts = chosen(options.parts, without_fast=bool(before))
    run = Run(parts, options.jobs, ends_at, cache_root() / "parts", lambda text: print(text, flush=True))
    code = 0
    try:
        run.run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    outcomes = before + run.outcomes
    print("", *table(outcomes), sep="\n")
    totals = sum((outcome.totals for outcome in outcomes), NOTHING)
    print(totals, flush=True)
    return code or int(totals.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
