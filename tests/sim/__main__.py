"""`python -m tests.sim`: many seeds, or one again. Exits with 1 when a guarantee was broken, and says how to see it."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.sim.run import Result, be_quiet, report, run_many, run_seed, shrink
from tests.sim.swarm import draw

NOTE_EVERY = 500


def main() -> int:
    """Run what the arguments ask for."""
    options = _options()
    if options.seed is not None:
        return _one(options.seed, options.steps)
    began, messages, deliveries, duplicates, done = time.monotonic(), 0, 0, 0, 0
    failed: list[Result] = []
    seeds = range(options.first, options.first + options.seeds)
    for result in run_many(seeds, options.jobs):
        done += 1
        if result.outcome is None:
            failed.append(result)
            print(f"seed {result.seed} failed: {result.failure}", flush=True)
            if options.stop:
                break
        else:
            messages += result.outcome.messages
            deliveries += result.outcome.deliveries
            duplicates += result.outcome.duplicates
        if done % NOTE_EVERY == 0:
            print(f"{done} seeds, {len(failed)} failed, {time.monotonic() - began:.0f} s", flush=True)
    if failed and not options.stop:
        be_quiet()
        print(report(shrink(failed[0])))
    print(
        f"{done} seeds from {options.first} on, {len(failed)} failed; {messages:,} messages, {deliveries:,} deliveries "
        f"({duplicates:,} of them duplicates with a cause); {time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


def _one(seed: int, steps: list[int] | None) -> int:
    """One seed: shrunk if it fails whole, as it is if its steps are named."""
    be_quiet()
    result = run_seed(seed, steps)
    if result.outcome is not None:
        print(f"seed {seed} keeps every guarantee: {result.outcome}\n{draw(seed)}")
        return 0
    print(report(result if steps is not None else shrink(result)))
    return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one alone, and shrink it if it fails")
    parser.add_argument("--steps", type=_numbers, help="only these steps of the seed, as a failure's report names them")
    parser.add_argument("--seeds", type=int, default=2_000, metavar="N", help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first one (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (%(default)s)")
    parser.add_argument("--stop", action="store_true", help="stop at the first failure, and do not shrink it")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(piece) for piece in text.split(",") if piece]


if __name__ == "__main__":
    sys.exit(main())
