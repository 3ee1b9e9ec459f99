"""The simulator's seeds, and what makes it worth believing: one history a seed, and failures that can be seen again."""

from __future__ import annotations

import pytest

from proxy.core.dispatcher import Dispatcher
from proxy.core.worker import Worker
from tests.sim.histories import histories
from tests.sim.run import report, run_many, run_seed, shrink
from tests.sim.world import Outcome
from tests.thorough import drawn

SEEDS = drawn(2_000)
JOBS = 2
HISTORY_SEEDS = (3, 12, 75)
BROKEN_SEEDS = (2_842, 5_794, 5_974, 940_422)
"""Others, of longer runs, that broke a guarantee once."""


def test_no_seed_breaks_a_guarantee() -> None:
    """Whatever network, brokers, workers and operators do, G1 to G8 hold, and in the end everything gets through."""
    messages = given_up = claimed = redriven = dropped = deleted = 0
    for result in run_many(range(SEEDS), JOBS):
        if result.outcome is None:
            pytest.fail(report(shrink(result)))
        assert isinstance(result.outcome, Outcome)
        messages += result.outcome.messages
        given_up += result.outcome.dead_letters
        claimed += result.outcome.claimed
        redriven += result.outcome.redriven
        dropped += result.outcome.dropped
        deleted += result.outcome.deleted
    assert messages > 100 * SEEDS, "worlds in which hardly anything happens prove nothing"
    assert given_up > 2 * SEEDS, "nor those in which no message is given up"
    assert claimed > 2 * SEEDS, "nor those in which none is acknowledged inside a transaction"
    assert redriven > 2 * SEEDS, "nor those in which no key is parked"
    assert dropped > SEEDS // 10, "nor those in which none of them is dropped"
    assert deleted > SEEDS // 50, "nor those in which no worker deletes the subscription"


@pytest.mark.parametrize("seed", BROKEN_SEEDS)
def test_a_seed_that_broke_a_guarantee_does_not_again(seed: int) -> None:
    """What it found has a test of its own where it was mended; the history may find its way there otherwise."""
    result = run_seed(seed)
    assert result.outcome is not None, report(result)


def test_a_seed_has_one_history() -> None:
    """Down to each turn of each process, whatever order Python keeps its sets of text in."""
    program = (
        "import sys; from tests.sim.run import be_quiet, run_seed; "
        "be_quiet(); print([run_seed(int(seed)).outcome for seed in sys.argv[1:]])"
    )
    found = histories(program, HISTORY_SEEDS, ("1", "2"))
    assert len(found) == 1, found


def test_a_failure_is_told_with_a_short_history_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grant that wakes nobody is noticed as a broken G6, in a history of a few steps."""

    def flow(_dispatcher: Dispatcher, worker: Worker, permits: int, now: float) -> None:
        worker.permits += permits
        worker.last_flow_at = now

    monkeypatch.setattr(Dispatcher, "flow", flow)
    found = next(result for result in map(run_seed, range(20)) if result.outcome is None)
    assert found.kind == "G6"
    short = shrink(found)
    assert short.kind == "G6"
    assert len(short.steps) <= len(found.steps) / 4
    assert run_seed(short.seed, short.steps).failure == short.failure
    assert f"SEED={short.seed} STEPS=" in report(short)
