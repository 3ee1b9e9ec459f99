"""`python -m tests.sim`: many seeds, or one again. Exits with 1 when a guarantee was broken, and says how to see it.

A seed is of one gateway with its broker and workers, or of a whole deployment of replicas.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.sim.run import Result, be_quiet, options, report, run_many, run_seed, shrink

NOTE_EVERY = 500


def main() -> int:
    """Run what the arguments ask for."""
    asked = _asked()
    if asked.seed is not None:
        return _one(asked.seed, asked.steps, deployment=False)
    if asked.deployment is not None:
        return _one(asked.deployment, asked.steps, deployment=True)
    failed = _many(asked, asked.seeds, deployment=False)
    if not (failed and asked.stop):
        failed += _many(asked, asked.deployments, deployment=True)
    if failed and not asked.stop:
        be_quiet()
        print(report(shrink(failed[0])))
    return 1 if failed else 0


def _many(asked: argparse.Namespace, count: int, *, deployment: bool) -> list[Result]:
    """Run so many seeds; those that failed."""
    if not count:
        return []
    what = "deployments" if deployment else "seeds"
    began, messages, deliveries, duplicates, done = time.monotonic(), 0, 0, 0, 0
    failed: list[Result] = []
    for result in run_many(range(asked.first, asked.first + count), asked.jobs, deployment=deployment):
        done += 1
        if result.outcome is None:
            failed.append(result)
            print(f"{what[:-1]} {result.seed} failed: {result.failure}", flush=True)
            if asked.stop:
                break
        else:
            messages += result.outcome.messages
            deliveries += result.outcome.deliveries
            duplicates += result.outcome.duplicates
        if done % NOTE_EVERY == 0:
            print(f"{done} {what}, {len(failed)} failed, {time.monotonic() - began:.0f} s", flush=True)
    print(
        f"{done} {what} from {asked.first} on, {len(failed)} failed; {messages:,} messages, {deliveries:,} deliveries "
        f"({duplicates:,} of them duplicates with a cause); {time.monotonic() - began:.0f} s"
    )
    return failed


def _one(seed: int, steps: list[int] | None, *, deployment: bool) -> int:
    """One seed: shrunk if it fails whole, as it is if its steps are named."""
    be_quiet()
    result = run_seed(seed, steps, deployment=deployment)
    if result.outcome is not None:
        print(f"seed {seed} keeps every guarantee: {result.outcome}\n{options(seed, deployment=deployment)}")
        return 0
    print(report(result if steps is not None else shrink(result)))
    return 1


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one alone, and shrink it if it fails")
    parser.add_argument("--deployment", type=int, help="the same with the seed of a deployment")
    parser.add_argument("--steps", type=_numbers, help="only these steps of the seed, as a failure's report names them")
    parser.add_argument("--seeds", type=int, default=2_000, metavar="N", help="how many (%(default)s)")
    parser.add_argument("--deployments", type=int, default=500, metavar="N", help="how many of these (%(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first one (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (%(default)s)")
    parser.add_argument("--stop", action="store_true", help="stop at the first failure, and do not shrink it")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(piece) for piece in text.split(",") if piece]


if __name__ == "__main__":
    sys.exit(main())
