"""The command line of the bench, see `--help`."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from integration.artifacts import DEFAULT_VERSION, PULSAR_VERSIONS
from integration.bench import (
    bystander,
    drains,
    groups,
    growth,
    hand_over,
    idle_memory,
    instructions,
    journal,
    journal_inside,
    latency,
    memory_budget,
    micro,
    mixed,
    owners,
    processes,
    profiling,
    recompression,
    relay,
    rolling_restart,
    scrape,
    sockets,
    statistics_calls,
    stuck_key,
    tracing_inside,
    waiters,
)
from integration.bench.machine import describe, note
from integration.bench.report import Row, show, table_as_text, write_json
from integration.bench.stage import QUICK, Sizes, Stage, open_stage
from integration.errors import IntegrationError

if TYPE_CHECKING:
    from collections.abc import Callable

SERVED: Final[dict[str, Callable[[Stage], list[Row]]]] = {
    **drains.SECTIONS,
    mixed.SECTION: mixed.measure,
    mixed.LATENCY: mixed.measure_latency,
    "latency": latency.measure,
    "hand-over": hand_over.measure,
    "journal": journal.measure,
    "relay": relay.measure,
    "statistics": statistics_calls.measure,
    "scrape": scrape.measure,
    "websockets": sockets.measure,
    "waiters": waiters.measure,
    "groups": groups.measure,
    **owners.SECTIONS,
    "processes": processes.measure,
    "rolling-restart": rolling_restart.measure,
    "stuck-key": stuck_key.measure,
    "bystander": bystander.measure,
    idle_memory.SECTION: idle_memory.measure,
    memory_budget.SECTION: memory_budget.measure,
    **growth.SECTIONS,
}
"""Sections that need a broker and a gateway, in the table's order."""
INSIDE: Final = "inside"
SECTIONS: Final = (*SERVED, INSIDE)


def main(arguments: list[str] | None = None) -> int:
    """Run the bench and return the exit code; missed targets are shown and are no error."""
    options = _parser().parse_args(arguments)
    # What runs inside this process is the gateway's code; its news are not for the table's reader.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it cleans up as after Ctrl-C
    try:
        if options.keep_instructions:
            print(instructions.keep())
            return 0
        return _profile(options) if options.profile else _measure(options)
    except (IntegrationError, OSError) as error:
        note(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return _interrupted()
    except SystemError as error:
        # What a signal's exception becomes when it is raised inside the official client's calls.
        if isinstance(error.__cause__, KeyboardInterrupt):
            return _interrupted()
        raise


def _interrupted() -> int:
    note("interrupted; nothing is left running")
    return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m integration.bench",
        description="Measures the gateway beside the direct broker and prints one table; see docs/performance.md.",
    )
    parser.add_argument("--only", type=sections, default=SECTIONS, metavar="A,B", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works, measures nothing")
    parser.add_argument("--repetitions", type=int, metavar="N", help="rounds of all sides that count")
    parser.add_argument("--gigabytes", type=float, metavar="N", help="of the backlog in memory-budget; 10 if not said")
    parser.add_argument(
        "--quiet-wait", type=float, default=0.0, metavar="S",
        help="wait up to so many seconds before each repetition for others to leave the machine alone",
    )  # fmt: skip
    parser.add_argument("--version", default=DEFAULT_VERSION, help=f"of Pulsar; tried: {', '.join(PULSAR_VERSIONS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every repetition there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    parser.add_argument("--keep-instructions", action="store_true", help="count and keep what rows are judged by")
    parser.add_argument("--profile", action="store_true", help="show where the gateway's time goes instead")
    return parser


def sections(text: str) -> tuple[str, ...]:
    """Those named; what begins like several, `owners` for instance, stands for all of them."""
    chosen = set()
    for name in (each.strip() for each in text.split(",")):
        found = [section for section in SECTIONS if section == name or section.startswith(f"{name}-")]
        if not found:
            raise argparse.ArgumentTypeError(f"no section {name!r}; there are {', '.join(SECTIONS)}")
        chosen.update(found)
    return tuple(name for name in SECTIONS if name in chosen)


def _sizes(options: argparse.Namespace) -> Sizes:
    sizes = QUICK if options.quick else Sizes()
    if options.repetitions:
        sizes = replace(sizes, repetitions=max(1, options.repetitions))
    return replace(sizes, budget_backlog_bytes=int(options.gigabytes * 1e9)) if options.gigabytes else sizes


def _measure(options: argparse.Namespace) -> int:
    sizes = _sizes(options)
    machine = describe(options.version)
    rows: list[Row] = []
    with ExitStack() as ends:
        served = [name for name in options.only if name in SERVED]
        if served:
            stage = ends.enter_context(open_stage(sizes, options.quiet_wait, options.version))
            for name in served:
                note(f"{name}:")
                began = time.monotonic()
                rows += SERVED[name](stage)
                note(f"  {name} took {(time.monotonic() - began) / 60:.1f} minutes")
        if INSIDE in options.only:
            note("inside:")
            rows += micro.measure(sizes)
            rows += journal_inside.measure(sizes)
            rows += tracing_inside.measure(sizes)
            rows += instructions.measure()
            rows += recompression.measure()
    show(rows, machine)
    if options.json:
        write_json(options.json, rows, machine, _command())
    if options.markdown:
        options.markdown.write_text(table_as_text(rows))
    return 0


def _profile(options: argparse.Namespace) -> int:
    sizes = _sizes(options)
    program = profiling.sampler()
    if program is None:
        note("py-spy is not installed; cProfile of the path without sockets instead")
        print(profiling.profile_path(sizes))
        return 0
    with open_stage(sizes, options.quiet_wait, options.version) as stage:
        print(profiling.profile_drain(stage, program))
    return 0


def _command() -> str:
    return f"{Path(os.path.relpath(sys.executable))} -m integration.bench {shlex.join(sys.argv[1:])}"
