"""How long streams stand still when replicas come and go as planned: simulated time, so to be repeated exactly.

Bounds are a few exchanges of messages, what workers need for what they have, and what joins are damped by; a wait for
a time-out, be it for a lease or for the next try, exceeds them.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.groups.rig import deliverable
from tests.groups.simulation import Chances, Replica, World

ALL = range(16)
STEP_S = 0.01
SOON_S = 0.8
"""Below every time-out of `GroupTiming` that begins when somebody is not heard of."""
CHANCES = Chances(delay_s_max=0.02, work_s_max=0.1)


def standing_still(world: World, seconds: float, streams: Iterable[int]) -> float:
    """Let time go by; the longest that one of these streams could be delivered by nobody."""
    since = dict.fromkeys(streams, 0.0)
    longest = 0.0
    for _ in range(int(seconds / STEP_S)):
        world.pass_time(STEP_S)
        for stream in since:
            delivered = any(may_deliver(replica, stream) for replica in world.replicas.values())
            since[stream] = 0.0 if delivered else since[stream] + STEP_S
        longest = max(longest, *since.values())
    return longest


def may_deliver(replica: Replica, stream: int) -> bool:
    """Whether it may, and can: the broker has given it the stream."""
    return replica.alive and replica.lines[stream].open and deliverable(replica.session, stream, replica.now)


def leader_of(world: World) -> Replica:
    """The one that leads."""
    (leading,) = [replica for replica in world.living if replica.manager.leader is not None]
    return leading


@pytest.mark.parametrize("seed", range(10))
def test_the_leader_leaves(seed: int) -> None:
    """And all that it has goes to the others; then another leads, for whom nobody has to wait."""
    world = World(seed, CHANCES)
    for _ in range(3):
        world.join()
        world.pass_time(5.0)
    (former,) = world.leaders
    leader_of(world).leave()
    assert standing_still(world, 10.0, ALL) < SOON_S
    assert [leader.epoch for leader in world.leaders] == [former.epoch + 1]


@pytest.mark.parametrize("seed", range(10))
def test_the_only_one_is_replaced(seed: int) -> None:
    """As when all workers happened to be at one replica: what it had is free when it has gone."""
    world = World(seed, CHANCES)
    only = world.join()
    world.pass_time(5.0)
    only.leave()
    world.pass_time(1.0)
    assert not only.alive
    world.join()
    assert standing_still(world, 10.0, ALL) < SOON_S


@pytest.mark.parametrize("seed", range(10))
def test_the_leader_dies(seed: int) -> None:
    """What the others have goes on as soon as another leads."""
    world = World(seed, CHANCES)
    for _ in range(3):
        world.join()
        world.pass_time(5.0)
    leading = leader_of(world)
    kept = [stream for stream in ALL if not may_deliver(leading, stream)]
    assert kept
    world.kill(leading)
    assert standing_still(world, 4.0, kept) < SOON_S


@pytest.mark.parametrize("seed", range(10))
def test_the_leader_is_frozen(seed: int) -> None:
    """Another takes its producer away: what the others have goes on, and in the end what the frozen one had."""
    world = World(seed, CHANCES)
    for _ in range(3):
        world.join()
        world.pass_time(5.0)
    leading = leader_of(world)
    its_own = [stream for stream in ALL if may_deliver(leading, stream)]
    others = [stream for stream in ALL if stream not in its_own]
    world.pause(leading, 30.0)
    timing = world.timing
    assert standing_still(world, 10.0, others) < timing.drop_s + timing.fence_spread_s + SOON_S - timing.lease_s + 1.0
    assert world.fences_count >= 1
    world.pass_time(10.0)
    assert standing_still(world, 5.0, ALL) < SOON_S, "all is delivered by the others"
    world.pass_time(10.0)
    assert len(world.leaders) == 1, "the former leader leads no more"
    assert its_own
