"""Running seeds: one, many side by side, and the shortest history that still fails.

A failure is named by its first word (G1 to G8, liveness, leak, or an exception's type), so that shrinking keeps to the
fault it began with. Shrinking leaves steps out; the others stay what they were, for each draws from dice of its own.
"""

from __future__ import annotations

import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING

import structlog

from tests.sim.actions import Actions
from tests.sim.checkers import Violation
from tests.sim.swarm import draw
from tests.sim.world import Outcome, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SEEDS_AT_A_TIME = 10
SHRINK_RUNS_MAX = 300
CRITICAL = 50


@dataclass(frozen=True)
class Result:
    """What became of a seed."""

    seed: int
    outcome: Outcome | None
    failure: str = ""
    where: str = ""
    steps: tuple[int, ...] = ()
    """Those that were made, in order; the last one is where it broke, unless it broke while healing."""
    trace: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The failure's first word."""
        return self.failure.partition(":")[0]


def be_quiet() -> None:
    """Keep the gateway's log out: a simulated gateway has much to say."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL))


def run_seed(seed: int, steps: Sequence[int] | None = None) -> Result:
    """One world, whole or with some steps only."""
    swarm = draw(seed)
    world = World(swarm)
    try:
        outcome = world.run(Actions(world), range(swarm.steps) if steps is None else steps)
    except Exception as error:  # noqa: BLE001 - whatever the code under test raises is the finding
        made = tuple(range(swarm.steps) if steps is None else steps)[: len(world.trace) + 1]
        text = str(error) if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Result(seed, None, text, f"{last.filename}:{last.lineno}", made, tuple(world.trace))
    return Result(seed, outcome)


def run_many(seeds: Iterable[int], jobs: int) -> Iterator[Result]:
    """All of them, in order, on so many processes."""
    if jobs == 1:
        be_quiet()
        yield from map(run_seed, seeds)
        return
    # Not forked: threads of whoever runs us (a test runner's) may hold locks that nobody would let go in a copy.
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=be_quiet) as pool:
        yield from pool.map(run_seed, seeds, chunksize=SEEDS_AT_A_TIME)


def shrink(found: Result, runs_max: int = SHRINK_RUNS_MAX) -> Result:
    """The same failure with as few steps as can be found: first the shortest beginning, then without what is idle."""
    best = found
    runs = 0

    def fails(steps: Sequence[int]) -> bool:
        nonlocal best, runs
        runs += 1
        result = run_seed(found.seed, steps)
        if result.kind == found.kind:
            best = result
            return True
        return False

    size = len(best.steps)
    while size and runs < runs_max:
        place = 0
        while place < len(best.steps) and runs < runs_max:
            if not fails(best.steps[:place] + best.steps[place + size :]):
                place += size
        size //= 2
    return best


def report(result: Result) -> str:
    """A failure for a person: what broke, the shortest history, and how to see it again."""
    steps = ",".join(map(str, result.steps))
    lines = [
        f"seed {result.seed}: {result.failure}",
        f"raised at {result.where}",
        f"options: {draw(result.seed)}",
        f"the shortest history found, {len(result.steps)} steps:",
        *(f"  {line}" for line in result.trace),
        f"see it again: make sim SEED={result.seed} STEPS={steps}",
    ]
    return "\n".join(lines)
