"""Running seeds: one, many side by side, and the shortest history that still fails.

A seed is of one gateway's world, or of a whole deployment's.

A failure is named by its first word (G1 to G8, liveness, leak, or an exception's type), so that shrinking keeps to the
fault it began with. Shrinking leaves steps out; the others stay what they were, for each draws from dice of its own.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeAlias

import structlog

from tests.sim.actions import Actions
from tests.sim.deployment import draw as deployment_draw
from tests.sim.deployment.faults import DeploymentActions
from tests.sim.deployment.world import Deployment, DeploymentOutcome
from tests.sim.seats import Violation
from tests.sim.swarm import draw
from tests.sim.world import Outcome, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.sim.deployment.draw import DeploymentSwarm
    from tests.sim.swarm import Swarm

AnyOutcome: TypeAlias = "Outcome | DeploymentOutcome"
SEEDS_AT_A_TIME = 10
SHRINK_RUNS_MAX = 300
CRITICAL = 50


@dataclass(frozen=True)
class Result:
    """What became of a seed."""

    seed: int
    deployment: bool
    """Whether the seed is of a deployment's world."""
    outcome: AnyOutcome | None
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


def options(seed: int, *, deployment: bool) -> Swarm | DeploymentSwarm:
    """What the seed draws."""
    return deployment_draw.draw(seed) if deployment else draw(seed)


def run_seed(seed: int, steps: Sequence[int] | None = None, *, deployment: bool = False) -> Result:
    """One world, whole or with some steps only."""
    world, live = _world(seed, deployment=deployment)
    planned = range(world.swarm.steps) if steps is None else steps
    try:
        outcome = live(planned)
    except Exception as error:  # noqa: BLE001 - whatever the code under test raises is the finding
        made = tuple(planned)[: len(world.trace) + 1]
        text = str(error) if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Result(seed, deployment, None, text, f"{last.filename}:{last.lineno}", made, tuple(world.trace))
    return Result(seed, deployment, outcome)


def _world(seed: int, *, deployment: bool) -> tuple[World | Deployment, Callable[[Iterable[int]], AnyOutcome]]:
    """A new world, and what makes its steps."""
    if deployment:
        replicas = Deployment(deployment_draw.draw(seed))
        return replicas, partial(replicas.run, DeploymentActions(replicas))
    world = World(draw(seed))
    return world, partial(world.run, Actions(world))


def run_many(seeds: Iterable[int], jobs: int, *, deployment: bool = False) -> Iterator[Result]:
    """All of them, in order, on so many processes."""
    run = partial(run_seed, deployment=deployment)
    if jobs == 1:
        be_quiet()
        yield from map(run, seeds)
        return
    # Not forked: threads of whoever runs us (a test runner's) may hold locks that nobody would let go in a copy.
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=be_quiet) as pool:
        yield from pool.map(run, seeds, chunksize=SEEDS_AT_A_TIME)


def shrink(found: Result, runs_max: int = SHRINK_RUNS_MAX) -> Result:
    """The same failure with as few steps as can be found: first the shortest beginning, then without what is idle."""
    best = found
    runs = 0

    def fails(steps: Sequence[int]) -> bool:
        nonlocal best, runs
        runs += 1
        result = run_seed(found.seed, steps, deployment=found.deployment)
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
    name = "DEPLOYMENT" if result.deployment else "SEED"
    lines = [
        f"{name.lower()} {result.seed}: {result.failure}",
        f"raised at {result.where}",
        f"options: {options(result.seed, deployment=result.deployment)}",
        f"the shortest history found, {len(result.steps)} steps:",
        *(f"  {line}" for line in result.trace),
        f"see it again: make sim {name}={result.seed} STEPS={steps}",
    ]
    return "\n".join(lines)
