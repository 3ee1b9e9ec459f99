"""Long answers, given in steps while workers join, leave and acknowledge: no fault, and nothing told twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from itertools import pairwise
from typing import Any

import pytest

from proxy.core.errors import ConsumerAssignError
from proxy.errors import NotFound
from proxy.views.admin import Admin
from tests.net.session_rig import new_elections
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import TOPIC, single

KEY = (TOPIC, "s")
Ask = Callable[[Admin], Generator[None, None, Any]]

ASKED: dict[str, Ask] = {
    "subscriptions": lambda admin: admin.subscriptions(None, 10),
    "subscription": lambda admin: admin.subscription(KEY),
    "worker": lambda admin: admin.worker(KEY, "w0"),
    "stuck": lambda admin: admin.stuck(KEY, 10),
    "hot keys": lambda admin: admin.hot_keys(KEY, 10),
    "ring": lambda admin: admin.ring(KEY),
    "join": lambda admin: admin.preview_join(KEY, "new", []),
    "leave": lambda admin: admin.preview_leave(KEY, ["w0", "w1"]),
}


class Story:
    """A subscription where something happens all the time."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a test's dice
        self.rig = SubscriptionRig(consistent_hashing_points=5)
        self.admin = Admin(self.rig.subscriptions, new_elections(), list, {})
        self.workers: dict[str, Worker] = {}
        self.entries = 0
        self.join("w0")
        self.join("w1")

    def join(self, name: str) -> None:
        """One more."""
        self.workers[name] = self.rig.worker(name, permits=self.dice.randrange(50))

    def something(self) -> None:
        """Happens."""
        name = f"w{self.dice.randrange(6)}"
        if name not in self.workers:
            self.join(name)
        elif self.dice.random() < 0.3 and len(self.workers) > 1:
            self.workers.pop(name).close()
        elif self.dice.random() < 0.5:
            self.workers[name].ack(*self.workers[name].messages())
        else:
            self.workers[name].flow(self.dice.randrange(1, 30))
        for _ in range(self.dice.randrange(8)):
            self.rig.link.deliver((self.entries, single(f"key-{self.dice.randrange(400)}")))
            self.entries += 1


def asked(steps: Generator[None, None, Any], meanwhile: Callable[[], None]) -> Any:
    """The answer, with something happening at each pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        meanwhile()


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("seed", range(12))
def test_what_is_told_in_steps_bears_every_change_in_between(name: str, seed: int) -> None:
    """A worker that was named may have gone before the first step; later nothing stops it."""
    story = Story(seed)
    for _ in range(20):
        story.something()
    try:
        answer = asked(ASKED[name](story.admin), story.something)
    except (NotFound, ConsumerAssignError):
        return
    if name == "ring":
        ranges = answer.ranges
        assert all(before[1] < after[0] for before, after in pairwise(ranges))
        assert all(place < len(answer.workers) for _, _, place in ranges)
    if name == "subscription":
        names = [worker.name for worker in answer.dispatcher.workers]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ASKED)
def test_what_is_told_at_rest_is_the_same_however_it_is_asked(name: str) -> None:
    """Step by step, or in one go."""
    story = Story(1)
    for _ in range(20):
        story.something()
    for worker in ("w0", "w1"):
        if worker not in story.workers:
            story.join(worker)

    def nothing() -> None:
        """Happens."""

    assert asked(ASKED[name](story.admin), nothing) == asked(ASKED[name](story.admin), nothing)
