"""Counts the Python instructions that the gateway executes for a message; the count does not depend on the machine.

The paths of `instruction_cases` are fed and every bytecode instruction in a module of the gateway is counted. So the
count is the same on every machine with the same minor version of Python, and a rise of a few percent is the code's. Why
not the processor's instructions by valgrind or perf: they differ with the build of Python, its C library and the
processor, and neither program is everywhere. What is not in it is work within C: protobuf, joins and decompression.
Those are seen by the rows that take time.

The counts reached last are kept in `instructions.json`, by version of Python; `make bench ARGS=--keep-instructions`
writes those of the version that runs it.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from integration.bench.instruction_cases import CASES
from integration.bench.report import Row, Spread
from integration.bench.stepped_clock import SteppedClock
from integration.errors import IntegrationError
from proxy.app.compiled import PURE_PYTHON, running

if TYPE_CHECKING:
    from types import FrameType

KEPT: Final = Path(__file__).with_name("instructions.json")
VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
RISE_MAX: Final = 1.03
HOW_TO_KEEP: Final = "`make bench ARGS=--keep-instructions` keeps the counts of now"
COUNTED_MODULES: Final = "proxy."


class Counter:
    """Counts instructions of the gateway's modules while it is the trace function."""

    def __init__(self) -> None:
        """None yet."""
        self.count = 0

    def called(self, frame: FrameType, _event: str, _argument: object) -> Any:
        """A function is entered; only the gateway's are looked into."""
        if not frame.f_globals.get("__name__", "").startswith(COUNTED_MODULES):
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, _frame: FrameType, event: str, _argument: object) -> Any:
        if event == "opcode":
            self.count += 1
        return self._step


def per_message(name: str) -> float:
    """Of one case: instructions for each message, after a first feed that builds what is built once."""
    case = CASES[name]
    path = case.path(clock=SteppedClock(), subscriptions=case.settings)
    path.pump(case.tails, case.at_a_time)
    counter, before = Counter(), sys.gettrace()
    sys.settrace(counter.called)
    try:
        done = path.pump(case.tails, case.at_a_time)
    finally:
        sys.settrace(before)
    return round(counter.count / done, 1)


def kept() -> dict[str, float]:
    """What is kept of the version of Python that runs; empty if it was never counted."""
    counts: dict[str, float] = json.loads(KEPT.read_text()).get(VERSION, {})
    return counts


def keep() -> dict[str, float]:
    """Count all cases and keep the counts, beside those of other versions."""
    if running() != PURE_PYTHON:
        raise IntegrationError("compiled modules carry out none of Python's instructions: `make compile-clean` first")
    counts = {case: per_message(case) for case in CASES}
    every = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    KEPT.write_text(json.dumps({**every, VERSION: counts}, indent=1, sort_keys=True) + "\n")
    return counts


def measure() -> list[Row]:
    """One row a case, judged where a count is kept; none where modules are compiled."""
    if running() != PURE_PYTHON:
        return []
    before, rows = kept(), []
    for case in CASES:
        row = Row("inside", f"Python's instructions for a message, {case}", "1", gateway=Spread.of([per_message(case)]))
        rows.append(row.with_limit(round(before[case] * RISE_MAX, 1)) if case in before else row)
    return rows


def main() -> None:
    """Print what each policy adds to the case beside it, as a table."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    counts = {name: per_message(name) for name in CASES}
    print("| messages | instructions | beside | more |\n|---|---|---|---|")
    for name, case in CASES.items():
        if case.beside:
            more = counts[name] / counts[case.beside] - 1
            print(f"| {name} | {counts[name]:,.1f} | {case.beside}: {counts[case.beside]:,.1f} | {more:.1%} |")


if __name__ == "__main__":
    main()
