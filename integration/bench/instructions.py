"""Counts the Python instructions that the gateway executes for a message; the count does not depend on the machine.

The path of `path` is fed and every bytecode instruction in a module of the gateway is counted. So the count is the
same on every machine with the same minor version of Python, and a rise of a few percent is the code's. Why not the
processor's instructions by valgrind or perf: they differ with the build of Python, its C library and the processor,
and neither program is everywhere. What is not in it is work within C: protobuf, joins and decompression. Those are
seen by the rows that take time.

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

from integration.bench import frames_made
from integration.bench.path import GatewayPath, StillClock
from integration.bench.relay_path import RelayPath
from integration.bench.report import Row, Spread
from integration.bench.socket_path import SocketPath
from integration.errors import IntegrationError
from proxy.app.compiled import PURE_PYTHON, running
from proxy.net.subscription.settings import SubscriptionSettings

if TYPE_CHECKING:
    from types import FrameType

KEPT: Final = Path(__file__).with_name("instructions.json")
VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
RISE_MAX: Final = 1.03
HOW_TO_KEEP: Final = "`make bench ARGS=--keep-instructions` keeps the counts of now"
MESSAGES: Final = 1_000
COUNTED_MODULES: Final = "proxy."
TICK_S: Final = 1e-6
CASES: Final = {
    "unbatched": (frames_made.single_tails(MESSAGES), 100),
    "50 of a key to a batch": (frames_made.batch_tails(MESSAGES // 50, 50), 5),
    "100 mixed keys to a batch": (frames_made.mixed_tails(MESSAGES // 100, 100), 5),
}
WINDOWED: Final = {f"{case}, key_window 1": case for case in CASES}
"""The same messages under the narrowest key policy: what one costs that asks for it."""
SOCKET: Final = "unbatched, to a WebSocket"
"""The same, as JSON and acknowledged one by one."""
RELAYED: Final = "unbatched, produced, with receipt"
"""The same from a producer to the broker."""
RELAYED_AT_A_TIME: Final = 8
COUNTED: Final = (*CASES, *WINDOWED, SOCKET, RELAYED)

PATHS: Final[dict[str, type[GatewayPath | SocketPath | RelayPath]]] = {SOCKET: SocketPath, RELAYED: RelayPath}
"""What the messages of a case pass, if not the gateway of `GatewayPath`."""

MONITORED: Final = SubscriptionSettings().contract_monitor_one_in
"""Of so many keys the contract's monitor watches one, by default."""


class SteppedClock(StillClock):
    """The same times in every run."""

    def __init__(self) -> None:
        """Begin at zero."""
        super().__init__()
        self._now = 0.0

    def now(self) -> float:
        """A little later at every call."""
        self._now += TICK_S
        return self._now

    def time(self) -> float:
        """As `now`."""
        return self.now()


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


def per_message(case: str, monitor_one_in: int = MONITORED) -> float:
    """Of one case: instructions for each message, after a first feed that builds what is built once.

    `monitor_one_in` is `contract_monitor_one_in`.
    """
    tails, at_a_time = CASES["unbatched" if case in (SOCKET, RELAYED) else WINDOWED.get(case, case)]
    if case == RELAYED:
        at_a_time = RELAYED_AT_A_TIME
    settings = SubscriptionSettings(key_window=int(case in WINDOWED), contract_monitor_one_in=monitor_one_in)
    path = PATHS.get(case, GatewayPath)(clock=SteppedClock(), subscriptions=settings)
    path.pump(tails, at_a_time)
    counter, before = Counter(), sys.gettrace()
    sys.settrace(counter.called)
    try:
        delivered = path.pump(tails, at_a_time)
    finally:
        sys.settrace(before)
    return round(counter.count / delivered, 1)


def kept() -> dict[str, float]:
    """What is kept of the version of Python that runs; empty if it was never counted."""
    counts: dict[str, float] = json.loads(KEPT.read_text()).get(VERSION, {})
    return counts


def keep() -> dict[str, float]:
    """Count all cases and keep the counts, beside those of other versions."""
    if running() != PURE_PYTHON:
        raise IntegrationError("compiled modules carry out none of Python's instructions: `make compile-clean` first")
    counts = {case: per_message(case) for case in COUNTED}
    every = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    KEPT.write_text(json.dumps({**every, VERSION: counts}, indent=1, sort_keys=True) + "\n")
    return counts


def measure() -> list[Row]:
    """One row a case, judged where a count is kept; none where modules are compiled."""
    if running() != PURE_PYTHON:
        return []
    before, rows = kept(), []
    for case in COUNTED:
        row = Row("inside", f"Python's instructions for a message, {case}", "1", gateway=Spread.of([per_message(case)]))
        rows.append(row.with_limit(round(before[case] * RISE_MAX, 1)) if case in before else row)
    return rows


def main() -> None:
    """Print what the contract's monitor adds to each case."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for case in COUNTED:
        without, with_it = per_message(case, 0), per_message(case)
        print(f"{case}: {without} without the contract's monitor, {with_it} with it ({with_it / without - 1:.1%} more)")


if __name__ == "__main__":
    main()
