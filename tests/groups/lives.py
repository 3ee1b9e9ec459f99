"""Random lives of a group: what happens to it, drawn from a seed, and what must be true at the end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.groups.simulation import Chances, World

FAULTS_S = 60.0
HEAL_S = 120.0
REPLICAS_MAX = 6
DEEDS = ("join", "leave", "kill", "pause", "cut", "publish", "kill leader", "replay")


@dataclass(frozen=True)
class Outcome:
    """What came of a life."""

    deliveries: int
    duplicates: int
    """Deliveries of what had been delivered, not counting what was wanted again."""
    epochs: int
    versions: int
    replays: int
    """Times that the cursor was moved."""
    successions: int
    removals: int
    """Times that the last replica left and the group's topic went with it."""


def live(seed: int, *, planned: bool = False, deeds: Sequence[str] = DEEDS) -> Outcome:
    """Live one life; raises AssertionError where a promise is broken.

    Args:
        seed: decides everything.
        planned: joins, leaves and replays only.
        deeds: else some of these, besides joins and messages; one that is here more often is done more often.
    """
    draw = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    chances = Chances(
        loss=draw.choice([0.0, 0.0, 0.1, 0.3]),
        twice=draw.choice([0.0, 0.1]),
        late=0.0 if planned else draw.choice([0.0, 0.05]),
        delay_s_max=draw.choice([0.005, 0.05, 0.3]),
        work_s_max=draw.choice([0.05, 0.5, 3.0]),
    )
    world = World(seed, chances, streams_count=draw.choice([1, 3, 16]))
    deeds = ["join", "leave", "publish", "replay"] if planned else ["join", "publish", *draw.sample(deeds, 4)]
    for _ in range(draw.randint(1, 3)):
        world.join()
    while world.now < FAULTS_S:
        world.publish(draw.randint(0, 10))
        _do(world, draw.choice(deeds), draw)
        world.pass_time(draw.expovariate(draw.choice([0.5, 3.0])))
    _heal(world)
    return Outcome(
        deliveries=sum(len(each) for each in world.judge.delivered),
        duplicates=world.judge.again_count,
        epochs=len(world.judge.leaders),
        versions=len(world.judge.versions),
        replays=world.replayed[True],
        successions=world.judge.successions_count,
        removals=world.removals_count,
    )


def _do(world: World, deed: str, draw: random.Random) -> None:
    living = world.living
    if deed == "join" and len(living) < REPLICAS_MAX:
        world.join()
    if not living:
        return
    replica = draw.choice(living)
    leading = [each for each in living if each.manager.leader is not None]
    if deed == "leave":
        replica.leave()
    elif deed == "replay":
        world.replay(replica, draw.randint(0, 5))
    elif deed == "kill":
        world.kill(replica)
    elif deed == "kill leader" and leading:
        world.kill(leading[0])
    elif deed == "pause" and not replica.paused:
        world.pause(replica, draw.choice([0.5, 4.0, 12.0]))
    elif deed == "cut" and not replica.cut:
        world.cut(replica, draw.choice([0.5, 4.0, 12.0]))


def _heal(world: World) -> None:
    """No more faults: soon all is even, and everything is delivered and acknowledged."""
    world.chances = Chances()
    if not world.living:
        world.join()
    end = world.now + HEAL_S
    while world.now < end and not world.settled():
        world.pass_time(1.0)
    assert world.settled(), describe(world)
    for stream, delivered in zip(world.streams, world.judge.delivered, strict=True):
        assert set(delivered) == set(range(stream.messages_count)), "messages are missing"
    world.judge.complete()


def describe(world: World) -> str:
    """Where everybody stands."""
    lines = [f"now {world.now:.1f}, producer: {world.topic.holder}, waiting for it: {list(world.topic.queue)}"]
    for replica in world.replicas.values():
        if replica.alive:
            opened = [number for number, line in enumerate(replica.lines) if line.open]
            lines.append(
                f"{replica.name}: {replica.session.state.value}, {replica.manager.state.value}, leased "
                f"{sorted(replica.session.leased)}, open {opened}, leaving {replica.shutting_down}"
            )
    lines += [f"{number}: {stream}" for number, stream in enumerate(world.streams) if stream.consumer is None]
    return "\n".join(lines)
