"""The seeds of whole deployments: see `test_sim`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from proxy.groups.streams import GroupId
from tests.sim.deployment.broker import LIVENESS_S
from tests.sim.deployment.draw import draw
from tests.sim.deployment.faults import BROKER, DeploymentActions
from tests.sim.deployment.world import Deployment, DeploymentOutcome
from tests.sim.histories import histories
from tests.sim.run import report, run_many, run_seed, shrink
from tests.sim.worker import SUBSCRIPTION
from tests.thorough import THOROUGH

SEEDS: Final = range(600) if THOROUGH else (*range(15, 35), 98)
JOBS: Final = 2
HISTORY_SEEDS: Final = (0, 3, 56, 104)
BROKEN_SEEDS: Final = (42, 342, 500, 516, 615, 1_095, 1_270, 1_318, 1_384)
"""Others that broke a promise once."""
MOVED_S_MAX: Final = 10.0
"""From a message until its acknowledgement, beside one fault: the drop time and 3 s."""
GOES_ON_S: Final = 2.0
"""Its keys go on in this time, so that nothing waits for it twice."""


def test_no_seed_breaks_a_promise() -> None:
    """Whatever becomes of replicas, networks and the broker, each owner keeps G1 to G5, and there is one at a time."""
    moves = passed_on = outlived = orders_passed_on = deleted = not_moved = claimed = found_open = stream_moves = 0
    for result in run_many(SEEDS, JOBS, deployment=True):
        if result.outcome is None:
            pytest.fail(report(shrink(result)))
        assert isinstance(result.outcome, DeploymentOutcome)
        moves += result.outcome.moves
        passed_on += result.outcome.passed_on
        outlived += result.outcome.outlived
        orders_passed_on += result.outcome.orders_passed_on
        deleted += result.outcome.deleted
        not_moved += result.outcome.not_moved
        claimed += result.outcome.claimed
        found_open += result.outcome.found_open
        stream_moves += result.outcome.stream_moves
    count = len(SEEDS)
    assert moves > count, "deployments in which nothing moves prove nothing"
    assert outlived > count // 10, "nor do those in which no order outlives an owner"
    assert orders_passed_on > count, "nor where operators know the owners"
    assert deleted > count // 10, "nor where no subscription is deleted"
    assert not_moved > count, "nor where none migrates"
    assert claimed > count, "nor where none is acknowledged inside a transaction"
    assert found_open > count // 50, "nor where all transactions end before their owner"
    assert stream_moves > count // 20, "nor where no stream moves"
    assert passed_on > 50 * count, "nor do those in which workers are at their owners"


@pytest.mark.parametrize("seed", BROKEN_SEEDS)
def test_a_seed_that_broke_a_promise_does_not_again(seed: int) -> None:
    """As in `test_sim`."""
    result = run_seed(seed, deployment=True)
    assert result.outcome is not None, report(result)


@pytest.mark.parametrize("lease_ms", [0, 3_000])
def test_no_worker_is_left_at_a_leg_that_one_replica_alone_has(lease_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only one of its topic, within the bound for calm deployments.

    What told of the end was lost: of the consumer, when its ack lease ended on a leg that the network has forgotten; or
    of the leg, when the owner alone gave it up, at the end of a cut.
    """
    monkeypatch.setattr("tests.sim.deployment.faults.BETWEEN", ("leg_forgotten",))
    drawn = draw(1)
    settings = replace(drawn.settings, ack_lease_ms=lease_ms, quarantine_after=0)
    faults = ("replicas_parted", "leg_forgotten")
    swarm = replace(drawn, faults=faults, workers_max=1, steps=50, settings=settings)
    world = Deployment(swarm)
    assert swarm.calm
    assert world.run(DeploymentActions(world), range(swarm.steps)).longest_wait_s > 1.0


@pytest.mark.parametrize("first_s", [4.0, 5.0])
def test_an_owner_that_stands_still_again_at_once_is_taken_over_as_soon_as_before(first_s: float) -> None:
    """The broker is asked about it again, though it was found alive seconds ago."""
    world = one_topic()
    (topic,) = world.topics.values()
    work(world, 20.0)
    owner = next(replica for replica in world.live if topic.model.owned_by(replica))
    for stands_still_s in (first_s, 30.0):
        owner.process.stop()
        work(world, stands_still_s)
        owner.process.go_on()
        work(world, GOES_ON_S)
    assert first_s <= world.longest_wait_s < MOVED_S_MAX


@pytest.mark.parametrize("cut_off", [False, True])
@pytest.mark.parametrize("leads", [True, False])
def test_keys_of_a_replica_that_stands_still_wait_as_short_by_streams_as_with_an_owner(
    *, leads: bool, cut_off: bool
) -> None:
    """The broker looks at its consumers while its leases are waited for; also if it led the group, or is cut off."""
    world = one_topic(streamed=True)
    (topic,) = world.topics.values()
    group = GroupId(*topic.key)
    work(world, 20.0)
    members = [(each, each.groups.members.find(group)) for each in world.live if each.groups is not None]
    stands_still = next(
        each
        for each, member in members
        if member is not None and member.session.leased and (member.manager.leader is not None) == leads
    )
    pair = BROKER, stands_still.process.name
    if cut_off:
        world.network.part(*pair)
    else:
        stands_still.process.stop()
    work(world, 30.0)
    world.network.rejoin(*pair)
    stands_still.process.go_on()
    work(world, 0.6)
    assert LIVENESS_S < world.longest_wait_s < MOVED_S_MAX


def one_topic(*, streamed: bool = False) -> Deployment:
    """Three replicas that have begun, with six workers of one topic, and nothing that could go wrong."""
    drawn = draw(1)
    settings = replace(drawn.settings, key_window=0, retry_delay_ms=0, key_share_percent=0)
    named = (f"public/default/orders-0 {SUBSCRIPTION}",) if streamed else ()
    groups = replace(drawn.groups, streamed_subscriptions=named)
    several = replace(drawn, faults=(), topics=1, workers_max=6, replicas=3, replicas_max=3)
    world = Deployment(replace(several, settings=settings, groups=groups, streamed=streamed))
    assert world.swarm.calm
    (topic,) = world.topics.values()
    world.advance(5.0)
    dice = world.swarm.dice("workers")
    for _ in range(world.swarm.workers_max):
        world.start_worker(topic, dice)
    return world


def work(world: Deployment, seconds: float) -> None:
    """Ten messages a second of its one topic."""
    (topic,) = world.topics.values()
    for _ in range(round(10 * seconds)):
        topic.publish(world.schedule.now_s)
        world.broker.process.run(world.broker.dispatch_soon)
        world.advance(0.1)


def test_a_seed_has_one_history() -> None:
    """Whatever order Python keeps its sets of text in."""
    program = (
        "import sys; from tests.sim.run import be_quiet, run_seed; "
        "be_quiet(); print([run_seed(int(seed), deployment=True).outcome for seed in sys.argv[1:]])"
    )
    found = histories(program, HISTORY_SEEDS, ("1", "2"))
    assert len(found) == 1, found


def test_a_failure_is_told_with_a_short_history_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that delivers without a lease is noticed, in a history of a few steps."""
    monkeypatch.setattr("proxy.core.stream_leases.StreamLeases.lapsed", lambda _leases, _now: False)
    found = next(
        result for result in (run_seed(seed, deployment=True) for seed in range(125, 200)) if not result.outcome
    )
    assert found.kind == "owners"
    short = shrink(found, 60)
    assert short.kind == "owners"
    assert len(short.steps) < len(found.steps)
    assert run_seed(short.seed, short.steps, deployment=True).failure == short.failure
    assert f"DEPLOYMENT={short.seed} STEPS=" in report(short)
